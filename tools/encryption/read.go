package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
)

// storedRow is a stored value: the text of a configuration, the resource, the key in the store and the stored form.
type storedRow struct {
	Configuration, Resource, Context string
	Stored                           []byte
}

// readRow is the result of reading a stored value. Written is the value as upstream stores it.
type readRow struct {
	Value, Written []byte
	Stale          bool
	Error          string
}

// read answers each row of the input with a row.
func read(input io.Reader, output io.Writer) {
	loaded := map[string]encryptionconfig.StaticTransformers{}
	decoder, buffer := json.NewDecoder(input), bufio.NewWriter(output)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	for {
		var row storedRow
		if err := decoder.Decode(&row); err == io.EOF {
			break
		} else if err != nil {
			panic(err)
		}
		transformers, found := loaded[row.Configuration]
		if !found {
			var invalid string
			if transformers, invalid = load(row.Configuration, false, false); invalid != "" {
				panic(invalid)
			}
			loaded[row.Configuration] = transformers
		}
		answer := readValue(transformer(transformers, row.Resource), row.Stored, row.Context)
		if err := encoder.Encode(answer); err != nil {
			panic(err)
		}
	}
	if err := buffer.Flush(); err != nil {
		panic(err)
	}
}

func readValue(transformer value.Transformer, stored []byte, key string) readRow {
	read, stale, err := transformer.TransformFromStorage(context.Background(), stored, value.DefaultContext(key))
	if err != nil {
		return readRow{Error: problem(err)}
	}
	written, err := transformer.TransformToStorage(context.Background(), read, value.DefaultContext(key))
	if err != nil {
		panic(err)
	}
	return readRow{Value: read, Stale: stale, Written: written}
}
