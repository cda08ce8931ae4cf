package main

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

// readTyped decodes JSON into the struct of its kind.
func readTyped(r *textCase, text []byte) {
	var meta struct{ APIVersion, Kind string }
	if json.Unmarshal(text, &meta) != nil {
		r.Error = "no kind"
		return
	}
	object, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
	if err != nil {
		r.Error = "no kind"
		return
	}
	strict, err := kjson.UnmarshalStrict(text, object)
	if err != nil {
		r.Error = err.Error()
		return
	}
	value, err := json.Marshal(object)
	if err != nil {
		r.Error = err.Error()
		return
	}
	// A struct keeps embedded JSON as it is. Decoding it again normalises it.
	readJSON(r, value)
	problems := make([]string, len(strict))
	for i, problem := range strict {
		problems[i] = problem.Error()
	}
	r.Strict = strings.Join(problems, "\n")
}
