// Records what apimachinery's CBOR serializer decodes and encodes, for the tests of the CBOR codec.
//
//	go run . ../../crates/codec/tests/cbor
//
// Without an argument it reads lines of "INTO HEX" and prints the result of each, for comparisons of many inputs that
// are not stored.
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

// decodeCase is an input and the result of decoding it.
type decodeCase struct {
	// Into is the type that the input is decoded into: any, an unstructured object, or the type of a kind.
	Into string `json:"into"`
	In   string `json:"in"`
	// JSON is the decoded value; Error the decoding error.
	JSON  string `json:"json,omitempty"`
	Error string `json:"error,omitempty"`
	// Strict is the strict decoding error.
	Strict string `json:"strict,omitempty"`
	// Unwritten is the error of encoding the decoded value as JSON.
	Unwritten string `json:"unwritten,omitempty"`
}

// encodeCase is some JSON and its CBOR encoding.
type encodeCase struct {
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
	var cases []any
	for _, r := range inputs() {
		cases = append(cases, read(r.into, r.bytes))
	}
	save(filepath.Join(folder, "rows.json"), cases)
	var texts []any
	for _, text := range values {
		texts = append(texts, write(text))
	}
	save(filepath.Join(folder, "written.json"), texts)
	saveFixtures(filepath.Join(folder, "fixtures.txt"))
}

// read decodes an input like the server decodes a request body.
func read(into string, input []byte) decodeCase {
	r := decodeCase{Into: into, In: hex.EncodeToString(input)}
	switch into {
	case "any":
		var value any
		if err := direct.Unmarshal(input, &value); err != nil {
			r.Error = err.Error()
			return r
		}
		r.setJSON(value)
	case "unstructured":
		object, _, err := strict.Decode(input, nil, &unstructured.Unstructured{})
		r.setResult(object, err)
	default:
		addKind := kinds[into]
		object, err := scheme.Scheme.New(addKind)
		check(err)
		decoded, _, err := strict.Decode(input, &addKind, object)
		r.setResult(decoded, err)
		if runtime.IsStrictDecodingError(err) {
			object, err = scheme.Scheme.New(addKind)
			check(err)
			if _, _, err := lax.Decode(input, &addKind, object); err != nil {
				panic("strict, but not lax: " + err.Error())
			}
		}
	}
	return r
}

func (r *decodeCase) setResult(object runtime.Object, err error) {
	if runtime.IsStrictDecodingError(err) {
		r.Strict = err.Error()
	} else if err != nil {
		r.Error = err.Error()
		return
	}
	if u, ok := object.(*unstructured.Unstructured); ok {
		r.setJSON(u.Object)
	} else {
		r.setJSON(object)
	}
}

func write(text string) encodeCase {
	var value any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	check(decoder.Decode(&value))
	encoded, err := direct.Marshal(convertNumbers(value))
	check(err)
	return encodeCase{JSON: text, CBOR: hex.EncodeToString(encoded)}
}

// convertNumbers converts numbers like the API's JSON decoder.
func convertNumbers(value any) any {
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
			value[i] = convertNumbers(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = convertNumbers(value[key])
		}
	}
	return value
}

// saveFixtures writes the length and the hash of the CBOR encoding of each of upstream's fixtures.
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

func addKind(group, version, name string) {
	kinds[name] = schema.GroupVersionKind{Group: group, Version: version, Kind: name}
}

func (r *decodeCase) setJSON(value any) {
	text, err := json.Marshal(value)
	if err != nil {
		r.Unwritten = err.Error()
		return
	}
	r.JSON = string(text)
}

func save(path string, cases []any) {
	var out bytes.Buffer
	for i, decodeCase := range cases {
		out.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		var text bytes.Buffer
		check(line(&text, decodeCase))
		out.Write(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
	}
	out.WriteString("\n]\n")
	check(os.WriteFile(path, out.Bytes(), 0o644))
}

func line(out interface{ Write([]byte) (int, error) }, decodeCase any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(decodeCase)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
