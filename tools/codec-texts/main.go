// Records the results of upstream's libraries for the tests of the codecs: sigs.k8s.io/json for JSON, and
// sigs.k8s.io/yaml for YAML, whose JSON is then decoded too. Every case of the file is decoded, also strictly, and
// decoded YAML is encoded again.
//
//	go run . yaml ../../crates/codec/tests/yaml/rows.json
//	go run . json ../../crates/codec/tests/json/rows.json
//
// Without a file it reads lines of base64 and prints the result of each, for comparisons of many inputs that are not
// stored.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// textCase is an input and the result of decoding it.
type textCase struct {
	// Text is the input. Bytes replaces it if it is not UTF-8, in base64. Both may be repeated, and followed by End.
	Text   string `json:"text,omitempty"`
	Bytes  []byte `json:"bytes,omitempty"`
	Repeat int    `json:"repeat,omitempty"`
	End    string `json:"end,omitempty"`
	// JSON is the decoded value; Error the decoding error.
	JSON  string `json:"json,omitempty"`
	Error string `json:"error,omitempty"`
	// Long is the length of JSON that is too long for the file.
	Long int `json:"long,omitempty"`
	// Strict is the strict decoding error.
	Strict string `json:"strict,omitempty"`
	// Written is the JSON encoded as YAML; Unwritten the encoding error.
	Written   string `json:"written,omitempty"`
	Unwritten string `json:"unwritten,omitempty"`
}

// maxJSON is the maximum length of recorded JSON.
const maxJSON = 8 << 10

// A decodeFunc decodes an input into a case.
type decodeFunc func(*textCase, []byte)

func main() {
	if len(os.Args) < 2 {
		check(fmt.Errorf("usage: texts json|protobuf|typed|yaml [FILE]"))
	}
	read := map[string]decodeFunc{"json": readJSON, "protobuf": readProtobuf, "typed": readTyped, "yaml": readYAML}[os.Args[1]]
	if read == nil {
		check(fmt.Errorf("unknown codec %q, must be json, protobuf, typed or yaml", os.Args[1]))
	}
	if len(os.Args) > 2 {
		check(record(os.Args[2], read))
		return
	}
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
		check(err)
		var r textCase
		read(&r, text)
		check(write(out, r))
		check(out.Flush())
	}
}

// record decodes the cases of a file and writes the results.
func record(path string, read decodeFunc) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var cases []textCase
	if err := json.Unmarshal(text, &cases); err != nil {
		return err
	}
	var out bytes.Buffer
	for i, r := range cases {
		out.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		r = textCase{Text: r.Text, Bytes: r.Bytes, Repeat: r.Repeat, End: r.End}
		read(&r, r.text())
		if len(r.JSON) > maxJSON {
			r.JSON, r.Written, r.Long = "", "", len(r.JSON)
		}
		var line bytes.Buffer
		if err := write(&line, r); err != nil {
			return err
		}
		out.Write(bytes.TrimSpace(line.Bytes()))
	}
	return os.WriteFile(path, append(out.Bytes(), "\n]\n"...), 0o644)
}

// text returns the input of a case.
func (r *textCase) text() []byte {
	text := r.Bytes
	if text == nil {
		text = []byte(r.Text)
	}
	return append(bytes.Repeat(text, max(r.Repeat, 1)), r.End...)
}

func write(out io.Writer, r textCase) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

func readJSON(r *textCase, text []byte) {
	var tree any
	strict, err := kjson.UnmarshalStrict(text, &tree)
	if err != nil {
		r.Error = err.Error()
		return
	}
	value, err := json.Marshal(tree)
	check(err)
	r.JSON = string(value)
	problems := make([]string, len(strict))
	for i, problem := range strict {
		problems[i] = problem.Error()
	}
	r.Strict = strings.Join(problems, "\n")
}

func readYAML(r *textCase, text []byte) {
	value, err := recoverPanic(func() ([]byte, error) { return yaml.YAMLToJSON(text) })
	if err != nil {
		r.Error = err.Error()
		return
	}
	readJSON(r, value)
	if r.Error != "" {
		return
	}
	if _, err := recoverPanic(func() ([]byte, error) { return yaml.YAMLToJSONStrict(text) }); err != nil {
		r.Strict = err.Error()
	}
	written, err := recoverPanic(func() ([]byte, error) { return yaml.JSONToYAML([]byte(r.JSON)) })
	if err != nil {
		r.Unwritten = err.Error()
		return
	}
	r.Written = string(written)
}

// recoverPanic converts a panic into an error.
func recoverPanic(read func() ([]byte, error)) (value []byte, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	return read()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "texts:", err)
		os.Exit(1)
	}
}
