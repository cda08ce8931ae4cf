package main

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A pair has fields that depend on each other.
type pair struct {
	A *string `json:"a,omitempty"`
	B string  `json:"b,omitempty"`
}

// since137 records the rules that apimachinery has since 0.37.
func since137() {
	prefixedLabelKeys()
	for _, typeText := range []string{"int32", "*int32"} {
		values := pointers[int32](0, 1, -1, 3)
		if typeText == "*int32" {
			values = append([]*int32{nil}, values...)
		}
		field1(typeText, values, "", plain("monotonic", validate.Monotonic[int32]))
	}
	sizesOfMaps()
	dependentFields()
	updatesOfCollections()
	updatesInNewItems()
}

func prefixedLabelKeys() {
	t := table{Rules: "struct T\n  f string format=k8s-prefixed-label-key\n"}
	for _, text := range pointers("", "a", "a.b", "a/b", "a/b/c", "/a", "a/", "-a", "A/b", "kubernetes.io/x", "example.com/my_prop", "é.com/x") {
		t.add(caseOf{New: *text}, validate.PrefixedLabelKey(ctx, operation.Operation{}, root.Child("f"), text, nil))
	}
	t.write()
}

func sizesOfMaps() {
	values := []map[string]string{nil, {}, {"a": "x"}, {"a": "x", "b": "y"}, {"a": "x", "b": "y", "c": "z"}}
	field1("map[string]string", values, "", plain("maxProperties=2", with(validate.MaxProperties[string, string], 2)))
	field1("map[string]string", values, "", plain("minProperties=2", with(validate.MinProperties[string, string], 2)))
}

func dependentFields() {
	x := ""
	values := []*pair{nil, {}, {A: &x}, {B: "y"}, {A: &x, B: "z"}}
	hasA := func(p *pair) bool { return p != nil && p.A != nil }
	hasB := func(p *pair) bool { return p != nil && p.B != "" }
	optional := hidden(silent("", validate.OptionalPointer[pair]))
	type dependence func(context.Context, operation.Operation, *field.Path, *pair, *pair, string, validate.ExtractorFn[*pair, bool], string,
		validate.ExtractorFn[*pair, bool]) field.ErrorList
	call := func(f dependence) step[*pair] {
		return step[*pair]{call: func(ctx context.Context, op operation.Operation, path *field.Path, value, old *pair) field.ErrorList {
			return f(ctx, op, path, value, old, "a", hasA, "b", hasB)
		}}
	}
	field1("*pair", values, "struct pair\n  a *string dependentRequired(b)\n  b string\n", optional, call(validate.DependentRequired[pair]))
	field1("*pair", values, "struct pair\n  a *string dependentForbidden(b)\n  b string\n", optional, call(validate.DependentForbidden[pair]))
}

func updatesOfCollections() {
	a, b, c := item{"a", nil}, item{"b", nil}, item{"c", nil}
	x := "x"
	changed := item{"a", &x}
	items := [][]item{nil, {}, {a}, {a, b}, {b, a}, {changed, c}, {c}}
	sameName := func(x, y *item) bool { return x.Name == y.Name }
	words := [][]string{nil, {"a"}, {"a", "b"}, {"b", "c"}}
	maps := []map[string]string{nil, {}, {"a": "x"}, {"a": "y", "b": "z"}, {"b": "z"}}
	const itemFields = "struct item\n  name string\n  value *string\n"
	for _, u := range []struct {
		name       string
		constraint validate.UpdateConstraint
	}{{"NoSet", validate.NoSet}, {"NoUnset", validate.NoUnset}, {"NoAddItem", validate.NoAddItem}, {"NoRemoveItem", validate.NoRemoveItem}} {
		rule := "update=" + u.name
		field1("[]item", items, itemFields, gate("listType=map listMapKey=name "+rule,
			func(ctx context.Context, op operation.Operation, path *field.Path, value, old []item) field.ErrorList {
				return validate.ValSliceUpdate(ctx, op, path, value, old, sameName, u.constraint)
			}))
		field1("[]string", words, "", gate("listType=atomic unique=set "+rule,
			func(ctx context.Context, op operation.Operation, path *field.Path, value, old []string) field.ErrorList {
				return validate.ValSliceUpdate(ctx, op, path, value, old, validate.DirectEqual[string], u.constraint)
			}))
		field1("map[string]string", maps, "", gate(rule,
			func(ctx context.Context, op operation.Operation, path *field.Path, value, old map[string]string) field.ErrorList {
				errs := validate.UpdateMap(ctx, op, path, value, old, u.constraint)
				slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
				return errs
			}))
	}
}

// updatesInNewItems records constraints of updates of the values of items. Before 1.37 a new item counted as an update.
func updatesInNewItems() {
	type kind struct {
		Name string `json:"name"`
		Kind string `json:"kind"`
	}
	values := [][]kind{nil, {{"a", "x"}}, {{"a", "y"}, {"b", ""}}, {{"b", "z"}}}
	sameName := func(x, y *kind) bool { return x.Name == y.Name }
	for _, u := range []struct {
		name       string
		constraint validate.UpdateConstraint
	}{{"NoSet", validate.NoSet}, {"NoModify", validate.NoModify}} {
		rules := "struct kind\n  name string\n  kind string update=" + u.name + "\n"
		field1("[]kind", values, rules, hidden(silent("", validate.OptionalSlice[kind])),
			plain("listType=map listMapKey=name", with(validate.ValSliceUnique[kind], sameName)),
			step[[]kind]{call: func(ctx context.Context, op operation.Operation, path *field.Path, value, old []kind) field.ErrorList {
				return validate.EachValSliceVal(ctx, op, path, value, old, sameName, validate.DirectEqual[kind],
					func(ctx context.Context, op operation.Operation, path *field.Path, value, old *kind) field.ErrorList {
						var oldKind *string
						if old != nil {
							oldKind = &old.Kind
						}
						steps := []step[*string]{gate("", update(validate.UpdateValueByCompare[string], u.constraint))}
						return run(op, path.Child("kind"), steps, &value.Kind, oldKind, old != nil)
					})
			}})
	}
}
