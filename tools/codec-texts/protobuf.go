package main

import (
	"bytes"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// readProtobuf decodes a request body: an object in its envelope.
func readProtobuf(r *textCase, body []byte) {
	message, found := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !found || len(message) == 0 {
		r.Error = "no envelope"
		return
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(message); err != nil {
		r.Error = err.Error()
		return
	}
	kind := schema.FromAPIVersionAndKind(envelope.APIVersion, envelope.Kind)
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		r.Error = "no kind"
		return
	}
	if err := object.(interface{ Unmarshal([]byte) error }).Unmarshal(envelope.Raw); err != nil {
		r.Error = err.Error()
		return
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	value, err := json.Marshal(object)
	if err != nil {
		r.Error = err.Error()
		return
	}
	// Encoding escapes invalid UTF-8, which decoding does not undo.
	readJSON(r, value)
}
