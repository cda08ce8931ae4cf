package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// A declaration is one named type of the API packages in the catalog's format.
type declaration struct {
	pkg        string
	name       string
	kind       bool
	text       []string
	references []*types.TypeName
}

// An extractor turns type declarations into catalog lines.
type extractor struct {
	loader   *loader
	kinds    map[string]bool
	messages map[string]map[string]bool
	problems []string
}

func (e *extractor) reportf(format string, args ...any) {
	e.problems = append(e.problems, fmt.Sprintf(format, args...))
}

// shortName returns the name of a package in the catalog: the last path element, or the last two if the last is a
// version.
func shortName(path string) string {
	parts := strings.Split(path, "/")
	last := parts[len(parts)-1]
	if apiVersion.MatchString(last) {
		return parts[len(parts)-2] + "/" + last
	}
	return last
}

// typeText formats a Go type. Names of the package that is being written are unqualified.
func (e *extractor) typeText(from string, t types.Type, references *[]*types.TypeName) string {
	switch t := t.(type) {
	case *types.Pointer:
		return "*" + e.typeText(from, t.Elem(), references)
	case *types.Slice:
		return "[]" + e.typeText(from, t.Elem(), references)
	case *types.Map:
		return "map[" + e.typeText(from, t.Key(), references) + "]" + e.typeText(from, t.Elem(), references)
	case *types.Alias:
		return e.typeText(from, types.Unalias(t), references)
	case *types.Named:
		*references = append(*references, t.Obj())
		if pkg := t.Obj().Pkg().Path(); pkg != from {
			return shortName(pkg) + "." + t.Obj().Name()
		}
		return t.Obj().Name()
	case *types.Basic:
		// byte and uint8 are the same type; the API's source uses byte.
		if t.Kind() == types.Uint8 {
			return "byte"
		}
		return t.Name()
	default:
		return t.String()
	}
}

// declare returns the declaration of a named type, or nil if it has no source.
func (e *extractor) declare(obj *types.TypeName) *declaration {
	src, err := e.loader.load(obj.Pkg().Path())
	if err != nil {
		return nil
	}
	spec, file, doc := src.find(obj.Name())
	if spec == nil {
		return nil
	}
	marks := src.markersOf(e.loader, doc, spec, file)
	decl := &declaration{pkg: src.path, name: obj.Name()}
	decl.kind = e.kinds[src.path+"."+obj.Name()]
	switch syntax := spec.Type.(type) {
	case *ast.StructType:
		e.declareStruct(src, decl, obj, syntax, marks)
	case *ast.SelectorExpr:
		e.declareCopy(decl, obj, syntax, file, marks)
	default:
		e.declareAlias(src, decl, obj, marks)
	}
	return decl
}

// find returns the syntax of a type declaration.
func (s *source) find(name string) (*ast.TypeSpec, *ast.File, *ast.CommentGroup) {
	for _, file := range s.files {
		for _, d := range file.Decls {
			general, ok := d.(*ast.GenDecl)
			if !ok || general.Tok != token.TYPE {
				continue
			}
			for _, sp := range general.Specs {
				spec := sp.(*ast.TypeSpec)
				if spec.Name.Name == name {
					doc := spec.Doc
					if doc == nil && !general.Lparen.IsValid() {
						doc = general.Doc
					}
					return spec, file, doc
				}
			}
		}
	}
	return nil, nil, nil
}

// hasCustomJSON returns true if a type implements JSON encoding itself. It checks the syntax, because generated
// methods count too.
func (s *source) hasCustomJSON(name string) bool {
	for _, file := range s.files {
		for _, d := range file.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok || function.Recv == nil || function.Name.Name != "MarshalJSON" && function.Name.Name != "UnmarshalJSON" {
				continue
			}
			receiver := function.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			if ident, ok := receiver.(*ast.Ident); ok && ident.Name == name {
				return true
			}
		}
	}
	return false
}

func (e *extractor) declareStruct(src *source, decl *declaration, obj *types.TypeName, syntax *ast.StructType, marks markers) {
	head := "struct " + decl.name
	if decl.kind {
		head += " kind"
	}
	if src.hasCustomJSON(decl.name) {
		head += " custom"
	}
	if marks.first("structType") == "atomic" {
		head += " atomic"
	}
	if marks.has("union") {
		head += " union"
	}
	decl.text = append(decl.text, head)
	structure, ok := obj.Type().Underlying().(*types.Struct)
	if !ok {
		e.reportf("%s.%s: not a struct after all", src.path, decl.name)
		return
	}
	i := 0
	for _, field := range syntax.Fields.List {
		count := len(field.Names)
		if count == 0 {
			count = 1
		}
		for range count {
			if line := e.field(src, decl, structure.Field(i), structure.Tag(i), field); line != "" {
				decl.text = append(decl.text, line)
			}
			i++
		}
	}
	if !src.hasCustomJSON(decl.name) {
		e.checkNumbers(decl)
	}
}

// checkNumbers compares the numbers in the tags with the numbers in the Protobuf definition. Types with custom JSON may
// have other fields there.
func (e *extractor) checkNumbers(decl *declaration) {
	published, isRead := e.messages[decl.pkg+"."+decl.name]
	if src, err := e.loader.load(decl.pkg); !isRead && err == nil {
		// The type belongs to a version that is not imported itself, but another version refers to it.
		if err := e.findMessages(src); err != nil {
			e.reportf("%s: %s", decl.pkg, err)
		}
		published = e.messages[decl.pkg+"."+decl.name]
	}
	ours := 0
	for _, line := range decl.text[1:] {
		number := strings.Fields(line)[2]
		if number == "-" {
			continue
		}
		ours++
		if !published[number] {
			e.reportf("%s.%s: the Protobuf definition has no field %s", decl.pkg, decl.name, number)
		}
	}
	if ours != len(published) {
		e.reportf("%s.%s: %d Protobuf fields, %d in its definition", decl.pkg, decl.name, ours, len(published))
	}
}

// declareCopy writes a struct that is declared as a struct of another package (`type List metav1.List`).
func (e *extractor) declareCopy(decl *declaration, obj *types.TypeName, syntax *ast.SelectorExpr, file *ast.File, marks markers) {
	if other, structure := e.copied(syntax, file); structure != nil {
		e.declareStruct(other, decl, obj, structure, marks)
		return
	}
	e.reportf("%s.%s: cannot follow its definition", decl.pkg, decl.name)
}

// copied returns the struct of another package that a declaration names, or nil if it names none.
func (e *extractor) copied(syntax *ast.SelectorExpr, file *ast.File) (*source, *ast.StructType) {
	qualifier, _ := syntax.X.(*ast.Ident)
	for _, imported := range file.Imports {
		path, _ := strconv.Unquote(imported.Path.Value)
		name := filepath.Base(path)
		if imported.Name != nil {
			name = imported.Name.Name
		}
		if qualifier == nil || name != qualifier.Name || e.loader.dir(path) == "" {
			continue
		}
		other, err := e.loader.load(path)
		if err != nil {
			continue
		}
		if spec, _, _ := other.find(syntax.Sel.Name); spec != nil {
			if structure, ok := spec.Type.(*ast.StructType); ok {
				return other, structure
			}
		}
	}
	return nil, nil
}

// field formats one field:
//
//	name[?|~] type number [words]
//
// ? means omitempty, ~ means omitzero, and "-" is a field that is not in JSON.
func (e *extractor) field(src *source, decl *declaration, field *types.Var, tag string, syntax *ast.Field) string {
	tags := reflect.StructTag(tag)
	marks := markers{}
	marks.parse(syntax.Doc)
	jsonTag, tagged := tags.Lookup("json")
	parts := strings.Split(jsonTag, ",")
	name, options := parts[0], parts[1:]
	number := protoNumber(tags.Get("protobuf"))
	inline := contains(options, "inline") || field.Embedded() && name == ""
	omitEmpty, omitZero := contains(options, "omitempty"), contains(options, "omitzero")
	if !tagged && !inline {
		name = field.Name()
	}
	if !field.Exported() || name == "-" && number == "" {
		return ""
	}
	// The fields of a type with custom JSON are for Protobuf only. Embedded structs without a number are in neither
	// encoding.
	if src.hasCustomJSON(decl.name) && !tagged {
		if inline && number == "" {
			return ""
		}
		name, inline = "-", false
	}
	if _, fine := field.Type().(*types.Basic); fine && field.Type() == types.Typ[types.Invalid] {
		e.reportf("%s.%s.%s: unresolved type", src.path, decl.name, field.Name())
	}
	typeText := e.typeText(decl.pkg, field.Type(), &decl.references)
	var words []string
	if inline {
		name = "="
	} else if name == "-" {
		name = "-" + field.Name()
	} else if omitZero {
		name += "~"
	} else if omitEmpty {
		name += "?"
	}
	if number == "" {
		number = "-"
	}
	required := !omitEmpty
	if marks.has("optional") {
		required = false
	} else if marks.has("required") {
		required = true
	}
	if !inline && name[0] != '-' && required == omitEmpty {
		if required {
			words = append(words, "required")
		} else {
			words = append(words, "optional")
		}
	}
	words = append(words, e.topology(src, decl, field, marks)...)
	words = append(words, e.patch(src, decl, field, tags, marks)...)
	var gates []string
	for _, gate := range marks["featureGate"] {
		// A line of 1.34 has another marker behind its gate.
		name, _, _ := strings.Cut(gate, " ")
		gates = append(gates, name)
	}
	if len(gates) > 0 {
		words = append(words, "gate="+strings.Join(gates, ","))
	}
	if marks.has("unionDiscriminator") {
		words = append(words, "discriminator")
	}
	if marks.has("oneOf") || marks.has("zeroOrOneOf") {
		words = append(words, "member")
	}
	if marks.has("default") {
		words = append(words, "default="+e.defaultValue(src, decl, field, marks.first("default")))
	}
	return strings.TrimRight(fmt.Sprintf("  %s %s %s %s", name, typeText, number, strings.Join(words, " ")), " ")
}

func contains(list []string, word string) bool {
	for _, item := range list {
		if item == word {
			return true
		}
	}
	return false
}

func protoNumber(tag string) string {
	parts := strings.Split(tag, ",")
	if len(parts) < 2 {
		return ""
	}
	if _, err := strconv.Atoi(parts[1]); err != nil {
		return ""
	}
	return parts[1]
}

// topology returns how server-side apply merges a list, a map or a struct in this field.
func (e *extractor) topology(src *source, decl *declaration, field *types.Var, marks markers) []string {
	var words []string
	if list := marks.first("listType"); list != "" {
		word := "list=" + list
		if keys := marks["listMapKey"]; len(keys) > 0 {
			word += "(" + strings.Join(keys, ",") + ")"
		}
		words = append(words, word)
	} else if marks.has("listMapKey") {
		e.reportf("%s.%s.%s: map keys without a list type", src.path, decl.name, field.Name())
	}
	for _, marker := range []string{"mapType", "structType"} {
		if value := marks.first(marker); value != "" {
			words = append(words, "map="+value)
		}
	}
	return words
}

// patch returns the strategy and key of strategic merge patch. The server reads the tags.
func (e *extractor) patch(src *source, decl *declaration, field *types.Var, tags reflect.StructTag, marks markers) []string {
	strategy, key := tags.Get("patchStrategy"), tags.Get("patchMergeKey")
	if strategy != marks.first("patchStrategy") || key != marks.first("patchMergeKey") {
		e.reportf("%s.%s.%s: tag says patch %q %q, marker says %q %q", src.path, decl.name, field.Name(),
			strategy, key, marks.first("patchStrategy"), marks.first("patchMergeKey"))
	}
	if strategy == "" && key == "" {
		return nil
	}
	word := "patch=" + strategy
	if key != "" {
		word += "(" + key + ")"
	}
	return []string{word}
}

var refPattern = regexp.MustCompile(`^ref\((.*)\)$`)

// defaultValue returns a default as JSON. A ref is replaced by the value of its constant.
func (e *extractor) defaultValue(src *source, decl *declaration, field *types.Var, text string) string {
	found := refPattern.FindStringSubmatch(text)
	if found == nil {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			e.reportf("%s.%s.%s: default %s is not JSON", src.path, decl.name, field.Name(), text)
		}
		return text
	}
	path, name := src.path, found[1]
	if dot := strings.LastIndex(name, "."); dot >= 0 {
		path, name = name[:dot], name[dot+1:]
	}
	other, err := e.loader.load(path)
	if err == nil {
		if constant, ok := other.types.Scope().Lookup(name).(*types.Const); ok {
			return constantJSON(constant.Val())
		}
	}
	e.reportf("%s.%s.%s: no constant %s", src.path, decl.name, field.Name(), found[1])
	return "null"
}

func constantJSON(value constant.Value) string {
	if value.Kind() == constant.String {
		text, _ := json.Marshal(constant.StringVal(value))
		return string(text)
	}
	return value.ExactString()
}

// declareAlias writes a named type that is not a struct, with its constants in declaration order.
func (e *extractor) declareAlias(src *source, decl *declaration, obj *types.TypeName, marks markers) {
	underlying := obj.Type().Underlying()
	line := "alias " + decl.name + " " + e.typeText(src.path, underlying, &decl.references)
	if src.hasCustomJSON(decl.name) {
		line += " custom"
	}
	if e.messages[src.path+"."+decl.name] != nil {
		line += " message"
	}
	if basic, ok := underlying.(*types.Basic); ok && basic.Kind() == types.String {
		if values := src.constants(obj); len(values) > 0 {
			if marks.has("enum") {
				line += " closed"
			}
			line += " enum=" + strings.Join(values, "|")
		}
	}
	decl.text = []string{line}
}

// constants returns the distinct exported string constants of a type.
func (s *source) constants(obj *types.TypeName) []string {
	type positionedValue struct {
		pos   token.Pos
		value string
	}
	var all []positionedValue
	scope := s.types.Scope()
	for _, name := range scope.Names() {
		c, ok := scope.Lookup(name).(*types.Const)
		if ok && c.Exported() && types.Identical(c.Type(), obj.Type()) && c.Val().Kind() == constant.String {
			all = append(all, positionedValue{c.Pos(), constant.StringVal(c.Val())})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].pos < all[j].pos })
	var values []string
	for _, p := range all {
		if !contains(values, p.value) {
			values = append(values, p.value)
		}
	}
	return values
}
