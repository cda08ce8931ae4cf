// Times apimachinery's serializers, for the codecs scenario of the benchmark.
//
//	go build && ./codecs FILE...
//
// Each file contains an object in JSON. For each file it prints a line of JSON: the fastest time of decoding and
// encoding in nanoseconds, by encoding.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// timing is the time of decoding and encoding one object in one encoding, in nanoseconds.
type timing struct {
	Read  int64 `json:"read"`
	Write int64 `json:"write"`
}

const (
	repetitions = 20
	minDuration = 300 * time.Millisecond
)

func main() {
	serializers := map[string]runtime.Serializer{
		"JSON":     jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, jsonserializer.SerializerOptions{}),
		"YAML":     jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, jsonserializer.SerializerOptions{Yaml: true}),
		"Protobuf": protobuf.NewSerializer(scheme.Scheme, scheme.Scheme),
		"CBOR":     cbor.NewSerializer(scheme.Scheme, scheme.Scheme),
	}
	for _, file := range os.Args[1:] {
		text, err := os.ReadFile(file)
		check(err)
		object, _, err := serializers["JSON"].Decode(text, nil, nil)
		check(err)
		times := map[string]timing{}
		for name, serializer := range serializers {
			var written bytes.Buffer
			check(serializer.Encode(object, &written))
			var out bytes.Buffer
			times[name] = timing{
				Read: bestNanos(func() {
					_, _, err := serializer.Decode(written.Bytes(), nil, nil)
					check(err)
				}),
				Write: bestNanos(func() {
					out.Reset()
					check(serializer.Encode(object, &out))
				}),
			}
		}
		line, err := json.Marshal(times)
		check(err)
		fmt.Println(string(line))
	}
}

func bestNanos(operation func()) int64 {
	best := int64(1<<63 - 1)
	for began := time.Now(); time.Since(began) < minDuration; {
		round := time.Now()
		for range repetitions {
			operation()
		}
		best = min(best, time.Since(round).Nanoseconds()/repetitions)
	}
	return best
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
