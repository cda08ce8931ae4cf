// Records what apiserver's audit packages make of policies, requests, events and flags: one row of JSON a line.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func write[R any](folder, name string, rows []R) {
	file, err := os.Create(filepath.Join(folder, name))
	if err != nil {
		panic(err)
	}
	encoder := json.NewEncoder(file)
	encoder.SetEscapeHTML(false)
	for _, row := range rows {
		if err := encoder.Encode(row); err != nil {
			panic(err)
		}
	}
	if err := file.Close(); err != nil {
		panic(err)
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: audit FOLDER")
		os.Exit(2)
	}
	folder := os.Args[1]
	write(folder, "policies.jsonl", policies())
	write(folder, "decisions.jsonl", decisions())
	write(folder, "events.jsonl", events())
	write(folder, "options.jsonl", options())
}
