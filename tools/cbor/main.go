// Records what apimachinery's own CBOR serializer reads and writes, for the tests of the CBOR codec.
//
//	go run . ../../crates/codec/tests/cbor
//
// Without a folder it answers lines of "INTO HEX" with the row of each, for comparisons of many bytes that are not kept.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/kubernetes/scheme"
)

// row is some bytes and what comes of them.
type row struct {
	// Into is what they are read into: anything, an untyped object, or the type of a kind.
	Into string `json:"into"`
	In   string `json:"in"`
	// JSON is what they are read as; Error why they are not read.
	JSON  string `json:"json,omitempty"`
	Error string `json:"error,omitempty"`
	// Strict is what strict decoding says besides.
	Strict string `json:"strict,omitempty"`
	// Unwritten is why there is no JSON of what was read.
	Unwritten string `json:"unwritten,omitempty"`
}

// written is some JSON and its CBOR.
type written struct {
	JSON string `json:"json"`
	CBOR string `json:"cbor"`
}

var (
	lax    = cbor.NewSerializer(scheme.Scheme, scheme.Scheme)
	strict = cbor.NewSerializer(scheme.Scheme, scheme.Scheme, cbor.Strict(true))
)

func main() {
	check(apiextensions.AddToScheme(scheme.Scheme))
	if len(os.Args) == 2 {
		record(os.Args[1])
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	out := bufio.NewWriter(os.Stdout)
	for in.Scan() {
		into, text, _ := strings.Cut(in.Text(), " ")
		input, err := hex.DecodeString(text)
		check(err)
		check(line(out, read(into, input)))
		check(out.Flush())
	}
}

func record(folder string) {
	var rows []any
	for _, r := range inputs() {
		rows = append(rows, read(r.into, r.bytes))
	}
	save(filepath.Join(folder, "rows.json"), rows)
	var texts []any
	for _, text := range values {
		texts = append(texts, write(text))
	}
	save(filepath.Join(folder, "written.json"), texts)
	saveFixtures(filepath.Join(folder, "fixtures.txt"))
}

// read reads bytes as the server reads a body.
func read(into string, input []byte) row {
	r := row{Into: into, In: hex.EncodeToString(input)}
	switch into {
	case "any":
		var value any
		if err := direct.Unmarshal(input, &value); err != nil {
			r.Error = err.Error()
			return r
		}
		r.show(value)
	case "unstructured":
		object, _, err := strict.Decode(input, nil, &unstructured.Unstructured{})
		r.result(object, err)
	default:
		kind := kinds[into]
		object, err := scheme.Scheme.New(kind)
		check(err)
		decoded, _, err := strict.Decode(input, &kind, object)
		r.result(decoded, err)
		if runtime.IsStrictDecodingError(err) {
			object, err = scheme.Scheme.New(kind)
			check(err)
			if _, _, err := lax.Decode(input, &kind, object); err != nil {
				panic("strict, but not lax: " + err.Error())
			}
		}
	}
	return r
}

func (r *row) result(object runtime.Object, err error) {
	if runtime.IsStrictDecodingError(err) {
		r.Strict = err.Error()
	} else if err != nil {
		r.Error = err.Error()
		return
	}
	if u, ok := object.(*unstructured.Unstructured); ok {
		r.show(u.Object)
	} else {
		r.show(object)
	}
}

func write(text string) written {
	var value any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	check(decoder.Decode(&value))
	encoded, err := direct.Marshal(numbers(value))
	check(err)
	return written{JSON: text, CBOR: hex.EncodeToString(encoded)}
}

// numbers makes of numbers what the API's JSON decoder makes of them.
func numbers(value any) any {
	switch value := value.(type) {
	case json.Number:
		if i, err := value.Int64(); err == nil {
			return i
		}
		f, err := value.Float64()
		check(err)
		return f
	case []any:
		for i := range value {
			value[i] = numbers(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = numbers(value[key])
		}
	}
	return value
}

// saveFixtures writes the length and the hash of the CBOR of each of upstream's fixtures.
func saveFixtures(path string) {
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	check(err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(folder)), "testdata/HEAD/*.json"))
	check(err)
	sort.Strings(files)
	var out bytes.Buffer
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
		if err != nil {
			continue // of a group that this program does not know
		}
		var encoded bytes.Buffer
		check(lax.Encode(object, &encoded))
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		fmt.Fprintf(&out, "%s %d %x\n", name, encoded.Len(), sha256.Sum256(encoded.Bytes()))
	}
	check(os.WriteFile(path, out.Bytes(), 0o644))
}

var kinds = map[string]schema.GroupVersionKind{}

func kind(group, version, name string) {
	kinds[name] = schema.GroupVersionKind{Group: group, Version: version, Kind: name}
}

func (r *row) show(value any) {
	text, err := json.Marshal(value)
	if err != nil {
		r.Unwritten = err.Error()
		return
	}
	r.JSON = string(text)
}

func save(path string, rows []any) {
	var out bytes.Buffer
	for i, row := range rows {
		out.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		var text bytes.Buffer
		check(line(&text, row))
		out.Write(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
	}
	out.WriteString("\n]\n")
	check(os.WriteFile(path, out.Bytes(), 0o644))
}

func line(out interface{ Write([]byte) (int, error) }, row any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(row)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
