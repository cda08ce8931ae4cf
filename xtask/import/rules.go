package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"sort"
	"strconv"
	"strings"
)

const rulesLegend = `# The validation rules that the types of the built-in API state as tags ("+k8s:required"), one line a field.
# Written by "cargo xtask import-catalog" from the modules below; do not edit.
# docs/design/validation-rules.md describes the format.
`

// foreignTags are the tags of other generators. Names that end with a dash or colon are prefixes.
var foreignTags = []string{
	"conversion-gen", "deepcopy-gen", "defaulter-gen", "deprecated", "openapi-gen", "openapi-model-package", "prerelease-lifecycle-gen:",
	"protobuf-gen", "validation-gen-nolint",
}

// renamedTags are tags under their newer name, with the older one.
var renamedTags = map[string]string{"modeDiscriminator": "discriminator", "ifMode": "member"}

// wrappingTags have another tag as their value.
var wrappingTags = map[string]bool{
	"alpha": true, "beta": true, "eachKey": true, "eachVal": true, "ifDisabled": true, "ifEnabled": true, "item": true, "member": true,
	"subfield": true,
}

// lateTags are evaluated by upstream's generator after all others.
var lateTags = map[string]bool{"alpha": true, "beta": true, "eachVal": true, "item": true}

// plainTags have a text or nothing as their value.
var plainTags = map[string]bool{
	"customUnique": true, "customValidation": true, "dependentForbidden": true, "dependentRequired": true,
	"discriminator": true, "enum": true, "forbidden": true, "format": true, "immutable": true,
	"isSubresource": true, "listMapKey": true, "listType": true, "maxBytes": true, "maxItems": true, "maxLength": true,
	"maxProperties": true, "maximum": true, "minItems": true, "minLength": true, "minProperties": true, "minimum": true, "monotonic": true, "neq": true, "optional": true, "required": true,
	"supportsSubresource": true, "unionDiscriminator": true, "unionMember": true, "unique": true, "update": true,
	"zeroOrOneOfMember": true,
}

// A ruled type is a type with its rules and those of its fields.
type ruled struct {
	obj    *types.TypeName
	head   string
	rules  []string
	fields []ruledField
}

type ruledField struct {
	name   string
	field  *types.Var
	rules  []string
	opaque bool
}

// writeRules prints the rules of all declared types.
func (e *extractor) writeRules(out *bufio.Writer, versions []string, declared map[string][]*declaration) error {
	all := map[*types.TypeName]*ruled{}
	var paths []string
	for path, list := range declared {
		paths = append(paths, path)
		for _, decl := range list {
			if found := e.rulesOf(path, decl.name); found != nil {
				all[found.obj] = found
			}
		}
	}
	kept, visible := reachRules(all)
	if len(e.problems) > 0 {
		return fmt.Errorf("the importer does not support some tags:\n  %s", strings.Join(e.problems, "\n  "))
	}
	fmt.Fprint(out, rulesLegend)
	for _, v := range versions {
		fmt.Fprintf(out, "# source: %s\n", v)
	}
	sort.Slice(paths, func(i, j int) bool { return shortName(paths[i]) < shortName(paths[j]) })
	for _, path := range paths {
		e.writePackageRules(out, path, kept, visible)
	}
	return nil
}

// A reach has the types that lead to rules.
type reach map[*types.TypeName]*ruled

// reachRules returns the types that have rules, or fields that lead to rules.
func reachRules(all map[*types.TypeName]*ruled) (kept, visible reach) {
	kept, visible = reach{}, reach{}
	for changed := true; changed; {
		changed = false
		for obj, ruled := range all {
			if visible[obj] == nil && (isVisible(ruled.rules) || slices.ContainsFunc(ruled.fields, func(f ruledField) bool {
				return isVisible(f.rules) || !f.opaque && visible[elementType(f.field.Type())] != nil
			})) {
				visible[obj], changed = ruled, true
			}
			if kept[obj] == nil && (len(ruled.rules) > 0 || slices.ContainsFunc(ruled.fields, func(f ruledField) bool {
				return len(f.rules) > 0 || f.leadsToRules(obj.Pkg(), kept, visible)
			})) {
				kept[obj], changed = ruled, true
			}
		}
	}
	return kept, visible
}

// isVisible returns whether clients can see errors of some of the rules.
func isVisible(rules []string) bool {
	return slices.ContainsFunc(rules, func(rule string) bool {
		return !strings.HasPrefix(rule, "alpha=") && !strings.HasPrefix(rule, "supportsSubresource") && !strings.HasPrefix(rule, "isSubresource")
	})
}

// leadsToRules returns whether the type of a field has rules. Of the types of other packages only those count whose
// errors clients can see.
func (f ruledField) leadsToRules(pkg *types.Package, kept, visible reach) bool {
	named := elementType(f.field.Type())
	if named == nil || f.opaque {
		return false
	}
	if named.Pkg() == pkg {
		return kept[named] != nil
	}
	_, isStruct := named.Type().Underlying().(*types.Struct)
	return isStruct && visible[named] != nil
}

func (e *extractor) writePackageRules(out *bufio.Writer, path string, kept, visible reach) {
	var list []*ruled
	for obj, ruled := range kept {
		if obj.Pkg().Path() == path {
			list = append(list, ruled)
		}
	}
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(out, "\npackage %s\n", shortName(path))
	sort.Slice(list, func(i, j int) bool {
		if a, b := strings.HasPrefix(list[i].head, "alias"), strings.HasPrefix(list[j].head, "alias"); a != b {
			return a
		}
		return list[i].obj.Name() < list[j].obj.Name()
	})
	for _, ruled := range list {
		fmt.Fprintln(out, strings.Join(append([]string{ruled.head}, ruled.rules...), " "))
		for _, field := range ruled.fields {
			if len(field.rules) > 0 || field.leadsToRules(ruled.obj.Pkg(), kept, visible) {
				words := append([]string{field.name, e.ruleType(path, field.field.Type(), kept)}, field.rules...)
				fmt.Fprintln(out, "  "+strings.Join(words, " "))
			}
		}
	}
}

// rulesOf reads the tags of a type. Lists of objects have none.
func (e *extractor) rulesOf(path, name string) *ruled {
	src, err := e.loader.load(path)
	if err != nil {
		return nil
	}
	spec, file, doc := src.find(name)
	obj, isType := src.types.Scope().Lookup(name).(*types.TypeName)
	if spec == nil || !isType {
		return nil
	}
	found := &ruled{obj: obj, head: "alias " + name}
	groups := []*ast.CommentGroup{doc}
	top := e.loader.fset.Position(spec.Pos()).Line
	if doc != nil {
		top = e.loader.fset.Position(doc.Pos()).Line
	}
	for _, group := range file.Comments {
		if e.loader.fset.Position(group.End()).Line == top-2 {
			groups = append(groups, group)
		}
	}
	where := shortName(path) + "." + name
	structure, isStruct := obj.Type().Underlying().(*types.Struct)
	if !isStruct {
		found.head += " " + e.ruleType(path, obj.Type().Underlying(), nil)
		values := src.constants(obj)
		sort.Strings(values)
		found.rules = e.rules(where, strings.Join(values, "|"), "", groups...)
		return found
	}
	found.head = "struct " + name
	found.rules = e.rules(where, "", "", groups...)
	syntax, ok := spec.Type.(*ast.StructType)
	if !ok {
		return found
	}
	i := 0
	for _, field := range syntax.Fields.List {
		for range max(len(field.Names), 1) {
			if shown := e.ruledField(src, where, structure.Field(i), structure.Tag(i), field); shown != nil {
				found.fields = append(found.fields, *shown)
			}
			i++
		}
	}
	for _, field := range found.fields {
		if field.field.Type().String() == metaPath+".ListMeta" {
			return nil
		}
	}
	return found
}

// ruledField reads the tags of a field.
func (e *extractor) ruledField(src *source, where string, field *types.Var, tag string, syntax *ast.Field) *ruledField {
	name := jsonName(tag)
	if name == "" || name == "-" {
		name = "="
	}
	decl := &declaration{pkg: src.path, name: where}
	marks := markers{}
	marks.parse(syntax.Doc)
	set := ""
	if marks.has("default") {
		set = e.defaultValue(src, decl, field, marks.first("default"))
	}
	switch field.Type().Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Map:
		if set != "" {
			set = "set"
		}
	}
	return &ruledField{name, field, e.rules(where+"."+name, "", set, syntax.Doc), isOpaque(syntax.Doc)}
}

// isOpaque returns whether the values of a field are not validated by the rules of their type.
func isOpaque(doc *ast.CommentGroup) bool {
	return slices.ContainsFunc(commentLines(doc), func(line string) bool { return strings.HasSuffix(line, "opaqueType") })
}

func jsonName(tag string) string {
	_, rest, _ := strings.Cut(tag, `json:"`)
	text, _, _ := strings.Cut(rest, `"`)
	name, _, _ := strings.Cut(text, ",")
	return name
}

// rules returns the tags of comments, in the order in which upstream's generator evaluates them: sorted by name, with
// the late ones at the end. values are the constants of the type, and set is the default of the field.
func (e *extractor) rules(where, values, set string, groups ...*ast.CommentGroup) []string {
	type tag struct {
		late       bool
		name, text string
	}
	var tags []tag
	for _, group := range groups {
		for _, line := range commentLines(group) {
			text, ok := strings.CutPrefix(line, "+k8s:")
			// isOpaque reads this tag.
			if !ok || isForeign(text) || strings.HasSuffix(text, "opaqueType") {
				continue
			}
			rule, err := ruleText(text, values)
			if err != nil {
				e.reportf("%s: +k8s:%s: %s", where, text, err)
				continue
			}
			name := rule[:strings.IndexAny(rule+"=", "=(")]
			if rule = withDefault(rule, set); rule != "" {
				tags = append(tags, tag{lateTags[name], name, rule})
			}
		}
	}
	sort.SliceStable(tags, func(i, j int) bool {
		if tags[i].late != tags[j].late {
			return tags[j].late
		}
		return tags[i].name < tags[j].name
	})
	var rules []string
	for _, tag := range tags {
		rules = append(rules, tag.text)
	}
	return rules
}

// withDefault changes "optional" of a field with a default: the server requires it. With the zero value as default the
// rule says nothing.
func withDefault(rule, set string) string {
	before, isOptional := strings.CutSuffix(rule, "optional")
	if set == "" || !isOptional {
		return rule
	}
	switch set {
	case `""`, "0", "false":
		return ""
	}
	return before + "required"
}

func commentLines(group *ast.CommentGroup) []string {
	var lines []string
	if group == nil {
		return nil
	}
	for _, comment := range group.List {
		for _, line := range strings.Split(strings.TrimPrefix(comment.Text, "//"), "\n") {
			// A tag in an example of a comment has slashes before it.
			lines = append(lines, strings.Trim(line, " \t"))
		}
	}
	return lines
}

func isForeign(tag string) bool {
	for _, name := range foreignTags {
		if strings.HasPrefix(tag, name) {
			return true
		}
	}
	return false
}

// ruleText returns a tag in the format of the rules: without prefix, quotes and spaces.
func ruleText(tag, values string) (string, error) {
	name := tag[:strings.IndexAny(tag+"=", "=( #")]
	rest, arguments := tag[len(name):], ""
	if older, ok := renamedTags[name]; ok {
		name = older
	}
	if !wrappingTags[name] && !plainTags[name] {
		return "", fmt.Errorf("unknown tag")
	}
	if strings.HasPrefix(rest, "(") {
		end := strings.Index(rest, ")")
		if end < 0 {
			return "", fmt.Errorf("no end of the arguments")
		}
		arguments, rest = plainArguments(rest[1:end]), rest[end+1:]
	}
	if name == "alpha" || name == "beta" {
		arguments = ""
	}
	if arguments != "" {
		name += "(" + arguments + ")"
	}
	value, hasValue := strings.CutPrefix(strings.TrimSpace(rest), "=")
	if wrappingTags[name[:strings.IndexAny(name+"(", "(")]] {
		inner, isTag := strings.CutPrefix(value, "+k8s:")
		if !isTag {
			return "", fmt.Errorf("no tag as its value")
		}
		text, err := ruleText(inner, values)
		return name + "=" + text, err
	}
	value, _, _ = strings.Cut(value, "#")
	value = strings.TrimSpace(value)
	if text, err := strconv.Unquote(value); err == nil {
		value = text
	}
	if name == "enum" {
		value, hasValue = values, true
	}
	if strings.ContainsAny(value, " =") {
		return "", fmt.Errorf("a value with a space or an equals sign")
	}
	if hasValue {
		name += "=" + value
	}
	return name, nil
}

func plainArguments(text string) string {
	return strings.NewReplacer(`"`, "", " ", "", "`", "").Replace(text)
}

// elementType returns the named type that a type leads to through pointers, lists and the values of maps.
func elementType(t types.Type) *types.TypeName {
	switch t := t.(type) {
	case *types.Pointer:
		return elementType(t.Elem())
	case *types.Slice:
		return elementType(t.Elem())
	case *types.Map:
		return elementType(t.Elem())
	case *types.Named:
		if t.Obj().Pkg() != nil {
			return t.Obj()
		}
	}
	return nil
}

// ruleType formats the type of a field. Types that are neither structs nor have rules are replaced by what they stand
// for.
func (e *extractor) ruleType(from string, t types.Type, kept map[*types.TypeName]*ruled) string {
	switch t := t.(type) {
	case *types.Pointer:
		return "*" + e.ruleType(from, t.Elem(), kept)
	case *types.Slice:
		return "[]" + e.ruleType(from, t.Elem(), kept)
	case *types.Map:
		return "map[" + e.ruleType(from, t.Key(), kept) + "]" + e.ruleType(from, t.Elem(), kept)
	case *types.Named:
		_, isStruct := t.Underlying().(*types.Struct)
		if !isStruct && (kept[t.Obj()] == nil || t.Obj().Pkg().Path() != from) {
			return e.ruleType(from, t.Underlying(), kept)
		}
	}
	var references []*types.TypeName
	return e.typeText(from, t, &references)
}
