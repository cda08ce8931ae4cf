// Records what upstream's libraries make of texts, for the tests of the codecs: sigs.k8s.io/json of JSON, and
// sigs.k8s.io/yaml of YAML, whose JSON the other reads then. Every row of the file is read, strictly too, and what YAML is
// read as is written again.
//
//	go run . yaml ../../crates/codec/tests/yaml/rows.json
//	go run . json ../../crates/codec/tests/json/rows.json
//
// Without a file it answers lines of base64 with the row of each, for comparisons of many texts that are not kept.
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

// row is a text and what comes of it.
type row struct {
	// Text is what is read. Bytes take its place where it is not UTF-8, in base64. Both may be repeated, and have an end.
	Text   string `json:"text,omitempty"`
	Bytes  []byte `json:"bytes,omitempty"`
	Repeat int    `json:"repeat,omitempty"`
	End    string `json:"end,omitempty"`
	// JSON is what the text is read as; Error why it is not read.
	JSON  string `json:"json,omitempty"`
	Error string `json:"error,omitempty"`
	// Long is how many bytes the JSON has that is too long for the file.
	Long int `json:"long,omitempty"`
	// Strict is why it is not read strictly.
	Strict string `json:"strict,omitempty"`
	// Written is the JSON as YAML; Unwritten why there is none.
	Written   string `json:"written,omitempty"`
	Unwritten string `json:"unwritten,omitempty"`
}

// longest is how many bytes of JSON are kept.
const longest = 8 << 10

// A reader fills a row.
type reader func(*row, []byte)

func main() {
	if len(os.Args) < 2 {
		check(fmt.Errorf("usage: texts json|protobuf|typed|yaml [FILE]"))
	}
	read := map[string]reader{"json": readJSON, "protobuf": readProtobuf, "typed": readTyped, "yaml": readYAML}[os.Args[1]]
	if read == nil {
		check(fmt.Errorf("%q is none of json, protobuf, typed and yaml", os.Args[1]))
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
		var r row
		read(&r, text)
		check(write(out, r))
		check(out.Flush())
	}
}

// record fills the rows of a file.
func record(path string, read reader) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var rows []row
	if err := json.Unmarshal(text, &rows); err != nil {
		return err
	}
	var out bytes.Buffer
	for i, r := range rows {
		out.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		r = row{Text: r.Text, Bytes: r.Bytes, Repeat: r.Repeat, End: r.End}
		read(&r, r.text())
		if len(r.JSON) > longest {
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

// text is what is read.
func (r *row) text() []byte {
	text := r.Bytes
	if text == nil {
		text = []byte(r.Text)
	}
	return append(bytes.Repeat(text, max(r.Repeat, 1)), r.End...)
}

func write(out io.Writer, r row) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

func readJSON(r *row, text []byte) {
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

func readYAML(r *row, text []byte) {
	value, err := try(func() ([]byte, error) { return yaml.YAMLToJSON(text) })
	if err != nil {
		r.Error = err.Error()
		return
	}
	readJSON(r, value)
	if r.Error != "" {
		return
	}
	if _, err := try(func() ([]byte, error) { return yaml.YAMLToJSONStrict(text) }); err != nil {
		r.Strict = err.Error()
	}
	written, err := try(func() ([]byte, error) { return yaml.JSONToYAML([]byte(r.JSON)) })
	if err != nil {
		r.Unwritten = err.Error()
		return
	}
	r.Written = string(written)
}

// try makes an error of a panic.
func try(read func() ([]byte, error)) (value []byte, err error) {
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
