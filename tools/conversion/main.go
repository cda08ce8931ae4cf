// Records how upstream's converter of custom resources handles responses of conversion webhooks, for the tests of
// conversion. For each case of the file it requests the test's widget at another version, returns the response of the
// case, and writes the converted object or the error into the case.
//
//	go run . ../../crates/integration/tests/custom_resources/conversion/answers.json
package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
)

// conversionCase is a webhook response and the result of the conversion.
type conversionCase struct {
	Name string `json:"name"`
	// Reviews are the conversionReviewVersions of the definition. The default is v1.
	Reviews []string `json:"reviews,omitempty"`
	Code    int      `json:"code,omitempty"`
	// Type is the media type of the response. The default is application/json; empty means no Content-Type.
	Type *string `json:"type,omitempty"`
	// Answer is the response body, as a string or as JSON. $UID stands for the UID of the request.
	Answer json.RawMessage `json:"answer"`
	Shown  map[string]any  `json:"shown,omitempty"`
	Error  string          `json:"error,omitempty"`
}

const source = `{"apiVersion":"example.com/v1","kind":"Widget",
	"metadata":{"name":"a","namespace":"default","uid":"u1","labels":{"l":"1"},"annotations":{"n":"1"}},
	"spec":{"colour":"red"}}`

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: conversion FILE"))
	}
	text, err := os.ReadFile(os.Args[1])
	check(err)
	var cases []conversionCase
	check(json.Unmarshal(text, &cases))
	factory, err := conversion.NewCRConverterFactory(webhook.NewDefaultServiceResolver(), nil)
	check(err)
	for i := range cases {
		cases[i].record(factory)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for i := range cases {
		out.WriteString(map[bool]string{true: "[\n", false: ","}[i == 0])
		check(encoder.Encode(cases[i]))
	}
	lines := strings.ReplaceAll(out.String(), "\n,", ",\n")
	check(os.WriteFile(os.Args[1], []byte(lines+"]\n"), 0o644))
}

// record converts the widget to v2 and stores the result in the case.
func (r *conversionCase) record(factory *conversion.CRConverterFactory) {
	uid := ""
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		check(err)
		var review struct {
			Request struct{ UID string }
		}
		check(json.Unmarshal(body, &review))
		uid = review.Request.UID
		r.respond(w, uid)
	}))
	defer server.Close()
	var crd v1.CustomResourceDefinition
	crd.Name = "widgets.example.com"
	crd.Spec.Group, crd.Spec.Names.Kind = "example.com", "Widget"
	for _, version := range []string{"v1", "v2"} {
		crd.Spec.Versions = append(crd.Spec.Versions, v1.CustomResourceDefinitionVersion{Name: version})
	}
	reviews := r.Reviews
	if reviews == nil {
		reviews = []string{"v1"}
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	crd.Spec.Conversion = &v1.CustomResourceConversion{Strategy: v1.WebhookConverter, Webhook: &v1.WebhookConversion{
		ClientConfig:             &v1.WebhookClientConfig{URL: &server.URL, CABundle: authority},
		ConversionReviewVersions: reviews,
	}}
	converter, _, err := factory.NewConverter(&crd)
	check(err)
	var widget unstructured.Unstructured
	check(json.Unmarshal([]byte(source), &widget.Object))
	found, err := converter.ConvertToVersion(&widget, schema.GroupVersion{Group: "example.com", Version: "v2"})
	r.Shown, r.Error = nil, ""
	if err != nil {
		r.Error = strings.ReplaceAll(err.Error(), uid, "$UID")
		// In a build of kube-apiserver the scheme has another name, which comes from the file that creates it.
		r.Error = strings.ReplaceAll(r.Error, "pkg/runtime/scheme.go:111", "k8s.io/apiserver/pkg/util/webhook/client.go:71")
		return
	}
	r.Shown = map[string]any{}
	for key, value := range found.(*unstructured.Unstructured).Object {
		switch key {
		case "apiVersion", "kind":
		case "metadata":
			for _, field := range []string{"labels", "annotations"} {
				r.Shown[field] = value.(map[string]any)[field]
			}
		default:
			r.Shown[key] = value
		}
	}
}

// respond sends the response of the case.
func (r *conversionCase) respond(w http.ResponseWriter, uid string) {
	body := string(r.Answer)
	var text string
	if json.Unmarshal(r.Answer, &text) == nil {
		body = text
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Type != nil {
		w.Header()["Content-Type"] = nil
		if *r.Type != "" {
			w.Header().Set("Content-Type", *r.Type)
		}
	}
	if r.Code != 0 {
		w.WriteHeader(r.Code)
	}
	_, err := io.WriteString(w, strings.ReplaceAll(body, "$UID", uid))
	if err != nil && r.Code != http.StatusNoContent && r.Code != http.StatusNotModified {
		fail(err)
	}
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "conversion:", err)
	os.Exit(1)
}
