// Records the results of upstream's code for CEL validation rules: its validation of CustomResourceDefinitions with
// rules, and its strategies' validation of custom resources. The tables are those of the tests. Input lines are kept,
// and upstream's result is written behind each, indented and sorted.
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
		check(os.WriteFile(file, recordAnswers(file), 0o644))
	}
}

// table is the state of reading a table: the values that earlier lines set for the following ones.
type table struct {
	out bytes.Buffer
	// field is the schema of the only field, for rules without a schema.
	field any
	// oldSchema is the schema that the next one replaces, scale its scale subresource.
	oldSchema, scale any
	// oldObject is the object that the next one replaces.
	oldObject any
	// kind has the strategies of the last schema; err is the error if it has none.
	kind *kind
	err  error
}

// kind contains upstream's strategies for objects of a schema.
type kind struct {
	create rest.RESTCreateStrategy
	update rest.RESTUpdateStrategy
	status rest.RESTUpdateStrategy
}

// recordAnswers returns a table with upstream's results.
func recordAnswers(file string) []byte {
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
		t.field = parseJSON(rest)
	case "scale":
		t.scale = parseJSON(rest)
	case "was":
		t.oldSchema = parseJSON(rest)
	case "from":
		t.oldObject = parseJSON(rest)
	case "before":
		t.oldObject = wrapInField(parseJSON(rest))
	case "schema":
		t.define(parseJSON(rest))
	case "rule":
		t.define(t.schemaWithRules([]any{object{"rule": rest}}))
	case "rules":
		t.define(t.schemaWithRules(parseJSON(rest)))
	case "new", "status":
		t.validate(parseJSON(rest), word == "status")
	case "val":
		t.validate(wrapInField(parseJSON(rest)), false)
	default:
		panic("unknown line: " + word)
	}
}

// schemaWithRules returns the schema of an object with the only field and these rules.
func (t *table) schemaWithRules(rules any) any {
	properties := wrapInField(runtime.DeepCopyJSONValue(t.field))
	return object{"type": "object", "properties": properties, "x-kubernetes-validations": rules}
}

// define records the validation errors of a definition, and uses its schema for the following objects.
func (t *table) define(schema any) {
	crd := t.definition(schema)
	var errors field.ErrorList
	if t.oldSchema == nil {
		crd.ResourceVersion = ""
		errors = crdvalidation.ValidateCustomResourceDefinition(context.Background(), crd)
	} else {
		errors = crdvalidation.ValidateCustomResourceDefinitionUpdate(context.Background(), crd, t.definition(t.oldSchema))
	}
	t.writeAnswer(errorLines(errors))
	t.kind, t.err = newKind(crd)
	t.oldSchema, t.scale = nil, nil
}

// validate records the validation errors of an object.
func (t *table) validate(value any, throughStatus bool) {
	var warningsHeard warnings
	ctx := warning.WithWarningRecorder(context.Background(), &warningsHeard)
	oldObject := t.oldObject
	t.oldObject = nil
	if t.err != nil {
		t.writeAnswer([]string{"unusable " + t.err.Error()})
		return
	}
	found := func() (lines []string) {
		defer func() {
			if panicked := recover(); panicked != nil {
				lines = []string{fmt.Sprintf("panic %v", panicked)}
			}
		}()
		new := newWidget(value)
		switch {
		case throughStatus:
			old := newWidget(oldObject)
			t.kind.status.PrepareForUpdate(ctx, new, old)
			return errorLines(t.kind.status.ValidateUpdate(ctx, new, old))
		case oldObject != nil:
			return errorLines(t.kind.update.ValidateUpdate(ctx, new, newWidget(oldObject)))
		default:
			unstructured.RemoveNestedField(new.Object, "metadata", "resourceVersion")
			return errorLines(t.kind.create.Validate(ctx, new))
		}
	}()
	t.writeAnswer(append(found, warningsHeard...))
}

// selfTypeName matches upstream's internal type names, whose numbers differ from run to run.
var selfTypeName = regexp.MustCompile(`selfType\d+`)

// writeAnswer writes the lines of a result.
func (t *table) writeAnswer(lines []string) {
	sort.Strings(lines)
	oneLine := strings.NewReplacer("\n", `\n`, "\r", `\r`)
	for _, line := range lines {
		fmt.Fprintf(&t.out, "    %s\n", oneLine.Replace(selfTypeName.ReplaceAllString(line, "selfType")))
	}
}

func errorLines(errors field.ErrorList) (lines []string) {
	for _, err := range errors {
		lines = append(lines, "error "+err.Error())
	}
	return lines
}

// warnings collects the warnings for the client.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, "warning "+text) }

// definition returns the CustomResourceDefinition of widgets with a schema.
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

// newKind creates the strategies like upstream's handler does.
func newKind(crd *apiextensions.CustomResourceDefinition) (*kind, error) {
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

// newWidget completes a value to a widget object.
func newWidget(value any) *unstructured.Unstructured {
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

func wrapInField(value any) object { return object{"a": value} }

func parseJSON(text string) (value any) {
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
