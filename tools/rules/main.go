// Records what upstream's own code says of rules in CEL: of definitions that hold them (its validation of definitions) and
// of objects that are held to them (its strategies of custom resources). The tables are those of the tests; each line that
// asks for something is kept, and what upstream answers is written, indented and sorted, behind it.
//
//	go run . ../../crates/extensions/tests/rules
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

type object = map[string]any

var scheme = runtime.NewScheme()

func main() {
	if len(os.Args) != 2 {
		panic("usage: rules FOLDER")
	}
	install.Install(scheme)
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.txt"))
	check(err)
	for _, file := range files {
		check(os.WriteFile(file, answered(file), 0o644))
	}
}

// table is where the reading of a table is: what the lines above say that the next ones are about.
type table struct {
	out bytes.Buffer
	// field is the schema of the only field, for rules that come without a schema.
	field any
	// was is the schema that the next one replaces, scale the scale that it has.
	was, scale any
	// from is the object that the next one replaces.
	from any
	// kind is the last schema's, or why there is none.
	kind *kind
	err  error
}

// kind is what upstream holds objects of a schema to.
type kind struct {
	create rest.RESTCreateStrategy
	update rest.RESTUpdateStrategy
	status rest.RESTUpdateStrategy
}

// answered gives a table with upstream's answers.
func answered(file string) []byte {
	in, err := os.Open(file)
	check(err)
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<26)
	var t table
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "    ") {
			continue
		}
		fmt.Fprintln(&t.out, line)
		word, rest, _ := strings.Cut(line, " ")
		t.read(word, rest)
	}
	check(lines.Err())
	return t.out.Bytes()
}

func (t *table) read(word, rest string) {
	switch word {
	case "", "==", "#":
	case "field":
		t.field = parsed(rest)
	case "scale":
		t.scale = parsed(rest)
	case "was":
		t.was = parsed(rest)
	case "from":
		t.from = parsed(rest)
	case "before":
		t.from = inField(parsed(rest))
	case "schema":
		t.define(parsed(rest))
	case "rule":
		t.define(t.ruled([]any{object{"rule": rest}}))
	case "rules":
		t.define(t.ruled(parsed(rest)))
	case "new", "status":
		t.judge(parsed(rest), word == "status")
	case "val":
		t.judge(inField(parsed(rest)), false)
	default:
		panic("unknown line: " + word)
	}
}

// ruled is the schema of an object with the only field and these rules.
func (t *table) ruled(rules any) any {
	properties := inField(runtime.DeepCopyJSONValue(t.field))
	return object{"type": "object", "properties": properties, "x-kubernetes-validations": rules}
}

// define says what is wrong with a definition, and takes its schema for the objects that follow.
func (t *table) define(schema any) {
	crd := t.definition(schema)
	var errors field.ErrorList
	if t.was == nil {
		crd.ResourceVersion = ""
		errors = crdvalidation.ValidateCustomResourceDefinition(context.Background(), crd)
	} else {
		errors = crdvalidation.ValidateCustomResourceDefinitionUpdate(context.Background(), crd, t.definition(t.was))
	}
	t.say(said(errors))
	t.kind, t.err = kindOf(crd)
	t.was, t.scale = nil, nil
}

// judge says what is wrong with an object.
func (t *table) judge(value any, throughStatus bool) {
	var heard warnings
	ctx := warning.WithWarningRecorder(context.Background(), &heard)
	from := t.from
	t.from = nil
	if t.err != nil {
		t.say([]string{"unusable " + t.err.Error()})
		return
	}
	found := func() (lines []string) {
		defer func() {
			if panicked := recover(); panicked != nil {
				lines = []string{fmt.Sprintf("panic %v", panicked)}
			}
		}()
		new := widget(value)
		switch {
		case throughStatus:
			old := widget(from)
			t.kind.status.PrepareForUpdate(ctx, new, old)
			return said(t.kind.status.ValidateUpdate(ctx, new, old))
		case from != nil:
			return said(t.kind.update.ValidateUpdate(ctx, new, widget(from)))
		default:
			unstructured.RemoveNestedField(new.Object, "metadata", "resourceVersion")
			return said(t.kind.create.Validate(ctx, new))
		}
	}()
	t.say(append(found, heard...))
}

// compiled names types of upstream's own, in an order that differs from run to run.
var compiled = regexp.MustCompile(`selfType\d+`)

// say writes an answer.
func (t *table) say(lines []string) {
	sort.Strings(lines)
	oneLine := strings.NewReplacer("\n", `\n`, "\r", `\r`)
	for _, line := range lines {
		fmt.Fprintf(&t.out, "    %s\n", oneLine.Replace(compiled.ReplaceAllString(line, "selfType")))
	}
}

func said(errors field.ErrorList) (lines []string) {
	for _, err := range errors {
		lines = append(lines, "error "+err.Error())
	}
	return lines
}

// warnings collects what clients are told.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, "warning "+text) }

// definition is the definition of widgets with a schema.
func (t *table) definition(schema any) *apiextensions.CustomResourceDefinition {
	subresources := object{"status": object{}}
	if t.scale != nil {
		subresources["scale"] = t.scale
	}
	text, err := json.Marshal(object{
		"metadata": object{"name": "widgets.example.com", "resourceVersion": "1"},
		"spec": object{
			"group": "example.com",
			"scope": "Namespaced",
			"names": object{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{object{
				"name": "v1", "served": true, "storage": true,
				"subresources": subresources, "schema": object{"openAPIV3Schema": schema},
			}},
			"conversion": object{"strategy": "None"},
		},
		"status": object{"storedVersions": []any{"v1"}},
	})
	check(err)
	var external v1.CustomResourceDefinition
	check(json.Unmarshal(text, &external))
	var internal apiextensions.CustomResourceDefinition
	check(scheme.Convert(&external, &internal, nil))
	return &internal
}

// kindOf makes what upstream's handler makes of a definition.
func kindOf(crd *apiextensions.CustomResourceDefinition) (*kind, error) {
	declared, err := apiextensions.GetSchemaForVersion(crd, "v1")
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(declared.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	var ofStatus validation.SchemaValidator
	if status, ok := declared.OpenAPIV3Schema.Properties["status"]; ok {
		if ofStatus, _, err = validation.NewSchemaValidator(&status); err != nil {
			return nil, err
		}
	}
	schemas, err := structural.NewStructural(declared.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	subresources, err := apiextensions.GetSubresourcesForVersion(crd, "v1")
	if err != nil {
		return nil, err
	}
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	status := &apiextensions.CustomResourceSubresourceStatus{}
	s := customresource.NewStrategy(nil, false, gvk, validator, ofStatus, schemas, status, subresources.Scale, nil)
	return &kind{create: s, update: s, status: customresource.NewStatusStrategy(s)}, nil
}

// widget is a value as a widget.
func widget(value any) *unstructured.Unstructured {
	content := value.(object)
	for name, value := range (object{
		"apiVersion": "example.com/v1",
		"kind":       "Widget",
		"metadata":   object{"name": "w", "resourceVersion": "1"},
	}) {
		if _, ok := content[name]; !ok {
			content[name] = value
		}
	}
	return &unstructured.Unstructured{Object: content}
}

func inField(value any) object { return object{"a": value} }

func parsed(text string) (value any) {
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		panic(fmt.Errorf("%s: %w", text, err))
	}
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
