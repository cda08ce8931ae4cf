// Records what upstream's libraries make of the OpenAPI documents of aggregated API servers. kube-aggregator merges
// OpenAPI 2.0 documents into the server's own (merge.jsonl), kube-openapi converts them to OpenAPI 3.0 (v3.jsonl) and
// encodes them in Protobuf (protobuf.jsonl). The documents are random, but the same each time unless -seed is another.
//
//	go run . ../../crates/openapi/tests/aggregation
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

func main() {
	seed := flag.Uint64("seed", 5, "seed of the random documents")
	rows := flag.Int("rows", 24, "rows per file")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: openapi-merge [-seed N] [-rows N] FOLDER")
		os.Exit(2)
	}
	klogFlags := flag.NewFlagSet("klog", flag.ExitOnError)
	klog.InitFlags(klogFlags)
	check(klogFlags.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL"}))
	klog.SetOutput(&logged)
	record(filepath.Join(flag.Arg(0), "merge.jsonl"), *rows, *seed, mergeRow)
	record(filepath.Join(flag.Arg(0), "v3.jsonl"), *rows, *seed, v3Row)
	record(filepath.Join(flag.Arg(0), "protobuf.jsonl"), *rows, *seed, protobufRow)
}

// logged is the log of upstream's libraries.
var logged bytes.Buffer

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func record(path string, rows int, seed uint64, row func(*generator) any) {
	file, err := os.Create(path)
	check(err)
	encoder := json.NewEncoder(file)
	encoder.SetEscapeHTML(false)
	for i := range rows {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		check(encoder.Encode(row(&generator{Rand: random})))
	}
	check(file.Close())
}

// remote is an APIService with the document of its server, and the error at its decoding.
type remote struct {
	Name            string `json:"name"`
	Group           string `json:"group"`
	Version         string `json:"version"`
	GroupPriority   int32  `json:"groupPriority"`
	VersionPriority int32  `json:"versionPriority"`
	Document        any    `json:"document"`
	Error           string `json:"error,omitempty"`
}

// merging is the server's own document, the documents of aggregated servers in any order, and the merged document. It is
// null if upstream fails or panics for this reason.
type merging struct {
	Local   any             `json:"local"`
	Remotes []*remote       `json:"remotes"`
	Merged  json.RawMessage `json:"merged"`
	Failure string          `json:"failure,omitempty"`
}

func mergeRow(g *generator) any {
	row := &merging{Local: normal(g.local())}
	for i, groupVersion := range g.groupVersions() {
		group, version := groupVersion[0], groupVersion[1]
		document := any(g.remote(group, version))
		if g.IntN(4) == 0 {
			// A value for "items" of a wrong type becomes null, which would be lost in the normal form.
			if damaged := g.damaged(document); !decodes(damaged) || bytes.Equal(normal(damaged), normal(normal(damaged))) {
				document = damaged
			}
		}
		row.Remotes = append(row.Remotes, &remote{
			Name: version + "." + group, Group: group, Version: version,
			GroupPriority: int32(100 * g.IntN(3)), VersionPriority: int32(i * 7 % 3), Document: document,
		})
	}
	func() {
		defer func() {
			if reason := recover(); reason != nil {
				row.Failure = fmt.Sprint(reason)
			}
		}()
		row.Merged = merged(row)
	}()
	return row
}

// handlers are the handlers by path.
type handlers map[string]http.Handler

func (h handlers) Handle(path string, handler http.Handler) { h[path] = handler }

// delegate is an API server before the aggregator.
type delegate struct {
	server.DelegationTarget
	handler http.Handler
}

func (d delegate) UnprotectedHandler() http.Handler      { return d.handler }
func (d delegate) ListedPaths() []string                 { return []string{"/openapi/v2"} }
func (d delegate) NextDelegate() server.DelegationTarget { return nil }

func serve(document any) http.Handler {
	data, err := json.Marshal(document)
	check(err)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi/v2" {
			w.Write(data)
			return
		}
		http.NotFound(w, r)
	})
}

// merged runs upstream's aggregator. It returns null if the aggregator has an error.
func merged(row *merging) json.RawMessage {
	config := &common.Config{
		Info:           &spec.Info{InfoProps: spec.InfoProps{Title: "aggregator", Version: "v1"}},
		GetDefinitions: func(common.ReferenceCallback) map[string]common.OpenAPIDefinition { return nil },
	}
	paths, downloader := handlers{}, aggregator.NewDownloader()
	local := delegate{DelegationTarget: server.NewEmptyDelegate(), handler: serve(row.Local)}
	specs, err := aggregator.BuildAndRegisterAggregator(&downloader, local, nil, config, paths)
	check(err)
	for _, remote := range row.Remotes {
		service := &v1.APIService{Spec: v1.APIServiceSpec{
			Group: remote.Group, Version: remote.Version, Service: &v1.ServiceReference{},
			GroupPriorityMinimum: remote.GroupPriority, VersionPriority: remote.VersionPriority,
		}}
		service.Name = remote.Name
		// Upstream compares definitions before it drops empty fields, so that an empty field and an absent field differ.
		// Servers do not send empty fields, so the test does not either.
		document := remote.Document
		if decodes(document) {
			document = normal(document)
		}
		check(specs.AddUpdateAPIService(service, serve(document)))
		if err := specs.UpdateAPIServiceSpec(remote.Name); err != nil {
			// The JSON library varies its words.
			remote.Error = strings.ReplaceAll(err.Error(), "unable to", "cannot")
		}
	}
	klog.Flush()
	logged.Reset()
	request := httptest.NewRequest("GET", "/openapi/v2", nil)
	request.Header.Set("Accept", "application/json")
	recorder := httptest.NewRecorder()
	paths["/openapi/v2"].ServeHTTP(recorder, request)
	if recorder.Code != http.StatusOK {
		klog.Flush()
		_, failure, _ := strings.Cut(logged.String(), "failed to build merge specs: ")
		row.Failure, _, _ = strings.Cut(failure, "\n")
		return nil
	}
	return recorder.Body.Bytes()
}

// conversion is an OpenAPI 2.0 document and its conversion to 3.0. It is null if upstream does not decode the document,
// or panics.
type conversion struct {
	V2    any             `json:"v2"`
	V3    json.RawMessage `json:"v3"`
	Panic string          `json:"panic,omitempty"`
}

func v3Row(g *generator) any {
	row := &conversion{V2: g.whole()}
	if g.IntN(3) == 0 {
		row.V2 = g.damaged(row.V2)
	}
	func() {
		defer func() {
			if reason := recover(); reason != nil {
				row.Panic = fmt.Sprint(reason)
			}
		}()
		if swagger, err := decode(row.V2); err == nil {
			row.V3, err = openapiconv.ConvertV2ToV3(swagger).MarshalJSON()
			check(err)
		}
	}()
	return row
}

// encoding is a document and its encoding in Protobuf.
type encoding struct {
	Document any    `json:"document"`
	Protobuf []byte `json:"protobuf"`
}

func protobufRow(g *generator) any {
	g.strict = true
	row := &encoding{Document: normal(g.whole())}
	data, err := json.Marshal(row.Document)
	check(err)
	row.Protobuf, err = handler.ToProtoBinary(data)
	check(err)
	return row
}

// decode decodes a document as upstream decodes downloads.
func decode(document any) (*spec.Swagger, error) {
	data, err := json.Marshal(document)
	check(err)
	swagger := &spec.Swagger{}
	return swagger, swagger.UnmarshalJSON(data)
}

func decodes(document any) bool {
	_, err := decode(document)
	return err == nil
}

// normal decodes a document and encodes it again.
func normal(document any) json.RawMessage {
	swagger, err := decode(document)
	check(err)
	data, err := swagger.MarshalJSON()
	check(err)
	return data
}
