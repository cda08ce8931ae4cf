// Command declarative records the errors of upstream's validation functions (k8s.io/apimachinery/pkg/api/validate),
// called as upstream's generator calls them for the tags of a type. The rules of each row are in the format of the
// catalog.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A table has the validations of values of the field "f" by rules.
type table struct {
	Rules   string   `json:"rules"`
	Options []string `json:"options,omitempty"`
	Cases   []caseOf `json:"cases"`
}

// A case is a new value, or an update from an old one.
type caseOf struct {
	New    any      `json:"new"`
	Old    any      `json:"old,omitempty"`
	Update bool     `json:"update,omitempty"`
	Errors []string `json:"errors,omitempty"`
}

type check[T any] = validate.ValidateFunc[T]

// A step is a call of a function. A gate skips what is not a gate if it fails; a silent one has no errors.
type step[T any] struct {
	rule         string
	gate, silent bool
	call         check[T]
}

var out *bufio.Writer
var ctx = context.Background()
var root *field.Path

func (t *table) add(c caseOf, errs field.ErrorList) {
	for _, err := range errs {
		c.Errors = append(c.Errors, err.Error())
	}
	t.Cases = append(t.Cases, c)
}

func (t *table) write() {
	line, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(out, "%s\n", line)
}

// run calls steps as generated code does: gates first.
func run[T any](op operation.Operation, path *field.Path, steps []step[T], value, old T, known bool) (errs field.ErrorList) {
	if known && op.Type == operation.Update && equality.Semantic.DeepEqual(value, old) {
		return nil
	}
	failed := false
	for _, s := range steps {
		if !s.gate {
			continue
		}
		if e := s.call(ctx, op, path, value, old); len(e) > 0 {
			failed = true
			if !s.silent {
				errs = append(errs, e...)
			}
		}
	}
	for _, s := range steps {
		if !failed && !s.gate {
			errs = append(errs, s.call(ctx, op, path, value, old)...)
		}
	}
	return errs
}

// field1 records creates and updates of all values of a field.
func field1[T any](typeText string, values []T, more string, steps ...step[T]) {
	var words []string
	for _, s := range steps {
		if s.rule != "" {
			words = append(words, s.rule)
		}
	}
	rules := "struct T\n  f " + strings.Join(append([]string{typeText}, words...), " ") + "\n" + more
	options := [][]string{nil}
	if strings.Contains(rules, "ifEnabled") || strings.Contains(rules, "ifDisabled") {
		options = append(options, []string{"G"})
	}
	for _, enabled := range options {
		t := table{Rules: rules, Options: enabled}
		for _, value := range values {
			op := operation.Operation{Type: operation.Create, Options: map[string]bool{"G": enabled != nil}}
			var none T
			t.add(caseOf{value, nil, false, nil}, run(op, root.Child("f"), steps, value, none, false))
			op.Type = operation.Update
			for _, old := range values {
				t.add(caseOf{value, old, true, nil}, run(op, root.Child("f"), steps, value, old, true))
			}
		}
		t.write()
	}
}

func with[T, A any](f func(context.Context, operation.Operation, *field.Path, T, T, A) field.ErrorList, argument A) check[T] {
	return func(ctx context.Context, op operation.Operation, path *field.Path, value, old T) field.ErrorList {
		return f(ctx, op, path, value, old, argument)
	}
}

func pointers[T any](values ...T) []*T {
	var list []*T
	for i := range values {
		list = append(list, &values[i])
	}
	return list
}

func gate[T any](rule string, call check[T]) step[T]   { return step[T]{rule, true, false, call} }
func silent[T any](rule string, call check[T]) step[T] { return step[T]{rule, true, true, call} }
func plain[T any](rule string, call check[T]) step[T]  { return step[T]{rule, false, false, call} }

func option[T any](rule string, enabled bool, s step[*T]) step[*T] {
	call := s.call
	s.rule = rule + "(G)=" + s.rule
	s.call = func(ctx context.Context, op operation.Operation, path *field.Path, value, old *T) field.ErrorList {
		return validate.IfOption(ctx, op, path, value, old, "G", enabled, call)
	}
	return s
}

func update[T any](f func(context.Context, operation.Operation, *field.Path, *T, *T, ...validate.UpdateConstraint) field.ErrorList,
	c validate.UpdateConstraint) check[*T] {
	return func(ctx context.Context, op operation.Operation, path *field.Path, value, old *T) field.ErrorList {
		return f(ctx, op, path, value, old, c)
	}
}

// hidden makes a step that has no words in the rules: those of another step say it.
func hidden[T any](s step[T]) step[T] { s.rule = "optional"; return s }

func strings1() {
	texts := pointers("", "a", "abc", "äöü", "äöüx", "A.b")
	maybe := append([]*string{nil}, texts[:4]...)
	forms := []struct {
		typeText string
		values   []*string
		required check[*string]
		optional check[*string]
		forbids  check[*string]
		change   func(validate.UpdateConstraint) check[*string]
	}{
		{"string", texts, validate.RequiredValue[string], validate.OptionalValue[string], validate.ForbiddenValue[string],
			func(c validate.UpdateConstraint) check[*string] {
				return update(validate.UpdateValueByCompare[string], c)
			}},
		{"*string", maybe, validate.RequiredPointer[string], validate.OptionalPointer[string], validate.ForbiddenPointer[string],
			func(c validate.UpdateConstraint) check[*string] { return update(validate.UpdatePointer[string], c) }},
	}
	for _, f := range forms {
		required, optional := gate("required", f.required), silent("optional", f.optional)
		field1(f.typeText, f.values, "", required)
		field1(f.typeText, f.values, "", gate("forbidden", f.forbids))
		field1(f.typeText, f.values, "", plain("maxLength=3", with(validate.MaxLength[string], 3)))
		field1(f.typeText, f.values, "", plain("minLength=2", with(validate.MinLength[string], 2)))
		field1(f.typeText, f.values, "", plain("maxBytes=3", with(validate.MaxBytes[string], 3)))
		field1(f.typeText, f.values, "", plain("neq=abc", with(validate.NEQ[string], "abc")))
		field1(f.typeText, f.values, "", gate("immutable", validate.Immutable[*string]), optional,
			plain("maxBytes=2", with(validate.MaxBytes[string], 2)))
		field1(f.typeText, f.values, "", gate("immutable", validate.Immutable[*string]), required)
		field1(f.typeText, f.values, "", optional, plain("format=k8s-short-name", validate.ShortName[string]))
		field1(f.typeText, f.values, "", required, plain("maxLength=3", with(validate.MaxLength[string], 3)),
			plain("format=k8s-short-name", validate.ShortName[string]))
		field1(f.typeText, f.values, "", gate("update=NoSet", f.change(validate.NoSet)))
		field1(f.typeText, f.values, "", gate("update=NoUnset", f.change(validate.NoUnset)))
		field1(f.typeText, f.values, "", gate("update=NoModify", f.change(validate.NoModify)))
		field1(f.typeText, f.values, "", option("ifDisabled", false, gate("forbidden", f.forbids)),
			option("ifEnabled", true, required), option("ifEnabled", true, plain("maxBytes=2", with(validate.MaxBytes[string], 2))))
	}
	formats()
	enums()
}

func formats() {
	texts := pointers("", "a", "a.b", "A.b", "a/b", "a/b/c", "/a", "a/", "a//b", "-a", "a_b", "_a", "1a", ".", "..", "a%b", "kubernetes.io/x",
		"requests.a/b", "example.com/My-prop", "example.com/my_prop", "é.com/x", "01234567-89ab-cdef-0123-456789abcdef",
		"01234567-89AB-cdef-0123-456789abcdef", "01234567x89ab-cdef-0123-456789abcdef", "0123",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 64)+".b", strings.Repeat("a.", 126)+"aa",
		strings.Repeat("a.", 127), strings.Repeat("a.", 126)+"a", strings.Repeat("a/", 130)+"b", strings.Repeat("a.", 33)+"b/n",
		"a.b/"+strings.Repeat("n", 33), "a.b/"+strings.Repeat("n", 64), "A/B", "-/-", strings.Repeat("A", 64), strings.Repeat("-", 64))
	for _, f := range []struct {
		name string
		call check[*string]
	}{
		{"k8s-extended-resource-name", validate.ExtendedResourceName[string]}, {"k8s-label-key", validate.LabelKey[string]},
		{"k8s-label-value", validate.LabelValue[string]}, {"k8s-long-name", validate.LongName[string]},
		{"k8s-long-name-caseless", validate.LongNameCaseless[string]}, {"k8s-path-segment-name", validate.PathSegmentName[string]},
		{"k8s-resource-fully-qualified-name", validate.ResourceFullyQualifiedName[string]},
		{"k8s-resource-pool-name", validate.ResourcePoolName[string]}, {"k8s-short-name", validate.ShortName[string]},
		{"k8s-uuid", validate.UUID[string]},
	} {
		t := table{Rules: "struct T\n  f string format=" + f.name + "\n"}
		for _, text := range texts {
			t.add(caseOf{New: *text}, f.call(ctx, operation.Operation{}, root.Child("f"), text, nil))
		}
		t.write()
	}
}

func enums() {
	type word string
	values := sets.New[word]("B", "a", "abc")
	call := func(ctx context.Context, op operation.Operation, path *field.Path, value, old *word) field.ErrorList {
		if value == nil {
			return nil
		}
		return validate.Enum(ctx, op, path, value, old, values, nil)
	}
	list := append([]*word{nil}, pointers[word]("", "a", "B", "c\"d", "abcd")...)
	field1("*word", list, "alias word string enum=abc|a|B\n", hidden(silent("", validate.OptionalPointer[word])), step[*word]{call: call})
	field1("word", list[1:], "alias word string enum=abc|a|B\n", step[*word]{call: call})
}

func numbers() {
	for _, typeText := range []string{"int32", "*int32"} {
		values := pointers[int32](0, 1, -1, 3, 4, -2147483648, 2147483647)
		required := gate("required", validate.RequiredValue[int32])
		if typeText == "*int32" {
			values = append([]*int32{nil}, values...)
			required = gate("required", validate.RequiredPointer[int32])
		}
		minimum, maximum := plain("minimum=1", with(validate.Minimum[int32], 1)), plain("maximum=3", with(validate.Maximum[int32], 3))
		field1(typeText, values, "", minimum, maximum)
		field1(typeText, values, "", required, minimum)
		field1(typeText, values, "", plain("neq=4", with(validate.NEQ[int32], 4)))
		field1(typeText, values, "", gate("immutable", validate.Immutable[*int32]), minimum)
	}
}

// An item has the rules of itemRules.
type item struct {
	Name  string  `json:"name"`
	Value *string `json:"value,omitempty"`
}

const itemRules = "struct item\n  name string required\n  value *string optional maxBytes=2\n"

func validateItem(ctx context.Context, op operation.Operation, path *field.Path, value, old *item) field.ErrorList {
	var oldName, oldValue *string
	if old != nil {
		oldName, oldValue = &old.Name, old.Value
	}
	errs := run(op, path.Child("name"), []step[*string]{gate("", validate.RequiredValue[string])}, &value.Name, oldName, old != nil)
	steps := []step[*string]{silent("", validate.OptionalPointer[string]), plain("", with(validate.MaxBytes[string], 2))}
	return append(errs, run(op, path.Child("value"), steps, value.Value, oldValue, old != nil)...)
}

func lists() {
	long, short := "long", "s"
	a, b, bad, none := item{"a", &short}, item{"b", nil}, item{"a", &long}, item{"", nil}
	values := [][]item{nil, {a}, {b, a}, {bad, b}, {a, bad}, {b, none, none, a}}
	sameName := func(x, y *item) bool { return x.Name == y.Name }
	each := func(match, equiv validate.MatchFunc[*item]) step[[]item] {
		return step[[]item]{call: func(ctx context.Context, op operation.Operation, path *field.Path, value, old []item) field.ErrorList {
			return validate.EachValSliceVal(ctx, op, path, value, old, match, equiv, validateItem)
		}}
	}
	maxItems := gate("maxItems=2", with(validate.MaxItems[item], 2))
	optional, required := silent("optional", validate.OptionalSlice[item]), gate("required", validate.RequiredSlice[item])
	unique := func(rule string, match validate.MatchFunc[*item]) step[[]item] {
		return plain(rule, with(validate.ValSliceUnique[item], match))
	}
	same := validate.SemanticDeepEqual[*item]
	field1("[]item", values, itemRules, each(nil, nil))
	field1("[]item", values, itemRules, maxItems, optional, each(nil, nil))
	field1("[]item", values, itemRules, plain("minItems=2", with(validate.MinItems[item], 2)), each(nil, nil))
	field1("[]item", values, itemRules, unique("listType=map listMapKey=name", sameName), required, each(sameName, same))
	field1("[]item", values, itemRules, unique("listType=set", same), each(same, nil))
	field1("[]item", values, itemRules, unique("listType=atomic unique=map listMapKey=name", sameName), maxItems, each(sameName, same))
	field1("[]item", values, itemRules, gate("immutable", validate.Immutable[[]item]), maxItems, required, each(nil, nil))
	isA := func(value *item) bool { return value.Name == "a" }
	field1("[]item", values, itemRules, unique("listType=map listMapKey=name", sameName), step[[]item]{rule: "item(name:a)=immutable",
		call: func(ctx context.Context, op operation.Operation, path *field.Path, value, old []item) field.ErrorList {
			return validate.ValSliceItem(ctx, op, path, value, old, isA, same, validate.Immutable[*item])
		}}, each(sameName, same))
	words := [][]string{nil, {}, {"a"}, {"a", "b"}, {"b", "abc", "b"}, {"abc", "abcd"}}
	direct := validate.DirectEqual[string]
	eachWord := func(match validate.MatchFunc[*string]) check[[]string] {
		return func(ctx context.Context, op operation.Operation, path *field.Path, value, old []string) field.ErrorList {
			return validate.EachValSliceVal(ctx, op, path, value, old, match, nil, with(validate.MaxBytes[string], 2))
		}
	}
	field1("[]string", words, "", plain("eachVal=maxBytes=2", eachWord(nil)))
	field1("[]string", words, "", plain("listType=set eachVal=maxBytes=2", eachWord(direct)), step[[]string]{call: with(validate.ValSliceUnique[string], direct)})
	field1("[]string", words, "", gate("forbidden", validate.ForbiddenSlice[string]))
}

func maps() {
	values := []map[string]string{nil, {}, {"a": "x"}, {"a": "abc"}, {"A": "y"}}
	field1("map[string]string", values, "", gate("required", validate.RequiredMap[string, string]))
	field1("map[string]string", values, "", gate("forbidden", validate.ForbiddenMap[string, string]))
	field1("map[string]string", values, "", silent("optional", validate.OptionalMap[string, string]), plain("eachKey=format=k8s-short-name",
		func(ctx context.Context, op operation.Operation, path *field.Path, value, old map[string]string) field.ErrorList {
			return validate.EachMapKey(ctx, op, path, value, old, validate.ShortName[string])
		}))
	field1("map[string]string", values, "", plain("eachVal=maxBytes=2",
		func(ctx context.Context, op operation.Operation, path *field.Path, value, old map[string]string) field.ErrorList {
			return validate.EachMapVal(ctx, op, path, value, old, validate.DirectEqual[string], with(validate.MaxBytes[string], 2))
		}))
}

// A choice has members of a union.
type choice struct {
	Kind string            `json:"kind,omitempty"`
	A    *string           `json:"a,omitempty"`
	B    []string          `json:"b,omitempty"`
	C    map[string]string `json:"c,omitempty"`
	D    int32             `json:"d,omitempty"`
}

func choices() []*choice {
	x := ""
	return []*choice{nil, {}, {A: &x}, {B: []string{"x"}}, {C: map[string]string{"x": "y"}}, {D: 1}, {A: &x, D: 2}, {Kind: "A"}, {Kind: "A", A: &x},
		{Kind: "B", A: &x}, {Kind: "B", B: []string{"z"}, D: 3}, {Kind: "C"}}
}

func unions() {
	isSet := []validate.ExtractorFn[*choice, bool]{
		func(c *choice) bool { return c != nil && c.A != nil }, func(c *choice) bool { return c != nil && len(c.B) != 0 },
		func(c *choice) bool { return c != nil && len(c.C) != 0 }, func(c *choice) bool { return c != nil && c.D != 0 },
	}
	types := []string{"a *string", "b []string", "c map[string]string", "d int32"}
	fields := func(rule func(i int) string) string {
		text := ""
		for i, ty := range types {
			text += "  " + ty + " " + rule(i) + "\n"
		}
		return text
	}
	optional := hidden(silent("", validate.OptionalPointer[choice]))
	membership := validate.NewUnionMembership(validate.NewUnionMember("a"), validate.NewUnionMember("b"), validate.NewUnionMember("c"),
		validate.NewUnionMember("d"))
	field1("*choice", choices(), "struct choice\n"+fields(func(int) string { return "unionMember" }), optional,
		step[*choice]{call: func(ctx context.Context, op operation.Operation, path *field.Path, value, old *choice) field.ErrorList {
			return validate.Union(ctx, op, path, value, old, membership, isSet...)
		}})
	field1("*choice", choices(), "struct choice\n"+fields(func(int) string { return "zeroOrOneOfMember" }), optional,
		step[*choice]{call: func(ctx context.Context, op operation.Operation, path *field.Path, value, old *choice) field.ErrorList {
			return validate.ZeroOrOneOfUnion(ctx, op, path, value, old, membership, isSet...)
		}})
	discriminated := validate.NewDiscriminatedUnionMembership("kind", validate.NewDiscriminatedUnionMember("a", "A"),
		validate.NewDiscriminatedUnionMember("b", "B"), validate.NewDiscriminatedUnionMember("c", "C"),
		validate.NewDiscriminatedUnionMember("d", "D"))
	kind := func(c *choice) string {
		if c == nil {
			return ""
		}
		return c.Kind
	}
	member := func(i int) string { return "unionMember(memberName:" + string(rune('A'+i)) + ")" }
	field1("*choice", choices(), "struct choice\n  kind string unionDiscriminator\n"+fields(member), optional,
		step[*choice]{call: func(ctx context.Context, op operation.Operation, path *field.Path, value, old *choice) field.ErrorList {
			return validate.DiscriminatedUnion(ctx, op, path, value, old, discriminated, kind, isSet...)
		}})
	rules := "struct choice\n  kind string discriminator\n  a *string member(A)=required member(B)=optional\n"
	field1("*choice", choices(), rules, optional,
		step[*choice]{call: func(ctx context.Context, op operation.Operation, path *field.Path, value, old *choice) field.ErrorList {
			return validate.Discriminated(ctx, op, path, value, old, "a", func(c *choice) *string { return c.A },
				func(c *choice) string { return c.Kind }, validate.DirectEqual[string], validate.ForbiddenPointer[string],
				[]validate.DiscriminatedRule[*string, string]{{Value: "A", Validation: validate.RequiredPointer[string]}, {Value: "B"}})
		}})
	field1("*choice", choices(), "struct choice\n", optional, plain("subfield(kind)=maxBytes=0",
		func(ctx context.Context, op operation.Operation, path *field.Path, value, old *choice) field.ErrorList {
			return validate.Subfield(ctx, op, path, value, old, "kind", func(c *choice) *string { return &c.Kind },
				validate.DirectEqual[string], with(validate.MaxBytes[string], 0))
		}))
}

// rows records the tables that a function writes in a file.
func rows(folder, name string, record func()) error {
	file, err := os.Create(filepath.Join(folder, name))
	if err != nil {
		return err
	}
	out = bufio.NewWriter(file)
	record()
	return errors.Join(out.Flush(), file.Close())
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: declarative FOLDER")
		os.Exit(2)
	}
	err := errors.Join(rows(os.Args[1], "rows.jsonl", func() {
		strings1()
		numbers()
		lists()
		maps()
		unions()
	}), rows(os.Args[1], "rows-1.37.jsonl", since137), rows(os.Args[1], "objects-1.37.jsonl", objects))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
