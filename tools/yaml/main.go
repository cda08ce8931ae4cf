// Records what sigs.k8s.io/yaml makes of texts, for the tests of the YAML codec: every row of the file is read as a server
// reads it (to JSON, and that by sigs.k8s.io/json), strictly too, and what it is read as is written again.
//
//	go run . ../../crates/codec/tests/yaml/rows.json
//
// Without a file it answers lines of base64 with the row of each, for comparisons of many texts that are not kept.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// row is a text and what comes of it.
type row struct {
	// Text is what is read. Bytes take its place where it is not UTF-8, in base64.
	Text  string `json:"text,omitempty"`
	Bytes []byte `json:"bytes,omitempty"`
	// JSON is what the text is read as; Error why it is not read.
	JSON  string `json:"json,omitempty"`
	Error string `json:"error,omitempty"`
	// Strict is why it is not read strictly.
	Strict string `json:"strict,omitempty"`
	// Written is the JSON as YAML; Unwritten why there is none.
	Written   string `json:"written,omitempty"`
	Unwritten string `json:"unwritten,omitempty"`
}

func main() {
	if len(os.Args) == 2 {
		check(record(os.Args[1]))
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
		r := row{Bytes: text}
		r.read()
		r.Bytes = nil
		check(write(out, r))
		check(out.Flush())
	}
}

// record fills the rows of a file.
func record(path string) error {
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
		r = row{Text: r.Text, Bytes: r.Bytes}
		r.read()
		var line bytes.Buffer
		if err := write(&line, r); err != nil {
			return err
		}
		out.Write(bytes.TrimSpace(line.Bytes()))
	}
	return os.WriteFile(path, append(out.Bytes(), "\n]\n"...), 0o644)
}

func write(out interface{ Write([]byte) (int, error) }, r row) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

// read fills a row.
func (r *row) read() {
	text := r.Bytes
	if text == nil {
		text = []byte(r.Text)
	}
	value, err := try(func() ([]byte, error) { return yaml.YAMLToJSON(text) })
	if err != nil {
		r.Error = err.Error()
		return
	}
	var tree any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(value, &tree); err != nil {
		r.Error = err.Error()
		return
	}
	value, err = json.Marshal(tree)
	check(err)
	r.JSON = string(value)
	if _, err := try(func() ([]byte, error) { return yaml.YAMLToJSONStrict(text) }); err != nil {
		r.Strict = err.Error()
	}
	written, err := try(func() ([]byte, error) { return yaml.JSONToYAML(value) })
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
		fmt.Fprintln(os.Stderr, "yaml:", err)
		os.Exit(1)
	}
}
