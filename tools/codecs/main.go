// Times what apimachinery's serializers take to read and write objects, for the benchmark's rows of codecs.
//
//	go build && ./codecs FILE...
//
// Each file is an object in JSON. A line is written for each: how many nanoseconds reading and writing it take at their
// best, by encoding.
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

// took is the time of one object in one encoding.
type took struct {
	Read  int64 `json:"read"`
	Write int64 `json:"write"`
}

const (
	atOnce = 20
	lasts  = 300 * time.Millisecond
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
		times := map[string]took{}
		for name, serializer := range serializers {
			var written bytes.Buffer
			check(serializer.Encode(object, &written))
			var out bytes.Buffer
			times[name] = took{
				Read: nanos(func() {
					_, _, err := serializer.Decode(written.Bytes(), nil, nil)
					check(err)
				}),
				Write: nanos(func() {
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

func nanos(work func()) int64 {
	best := int64(1<<63 - 1)
	for began := time.Now(); time.Since(began) < lasts; {
		round := time.Now()
		for range atOnce {
			work()
		}
		best = min(best, time.Since(round).Nanoseconds()/atOnce)
	}
	return best
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
