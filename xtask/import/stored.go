package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/types"
	"regexp"
	"strings"
)

const storedLegend = `# The types of versions that are not served, but may be in etcd, where they are not those of the version that reads them
# (the words "stored" of resources.txt). Written by "cargo xtask import-catalog" from the modules below; do not edit.
#
# The format is that of types.txt, with what decoding needs: strings have no names, and there is one word, default=JSON. A type
# that has the same fields in the served version is that of the served version.
`

// A storedVersion is a kind at a version that is only read from storage.
type storedVersion struct {
	kind         string
	path, served string
}

var resourcePattern = regexp.MustCompile(`^  ([a-z]\S*) (\S+) (?:namespaced|cluster)(.*)$`)

// storedVersions reads the words "stored" of the resources of the catalog.
func storedVersions(file string) ([]storedVersion, error) {
	lines, err := resourceLines(file)
	if err != nil {
		return nil, err
	}
	var found []storedVersion
	for _, line := range lines {
		for _, word := range line.words {
			list, ok := strings.CutPrefix(word, "stored=")
			if !ok {
				continue
			}
			for _, stored := range strings.Split(list, ",") {
				found = append(found, storedVersion{line.kind, packagePath(stored), line.path})
			}
		}
	}
	return found, nil
}

// packagePath returns the import path of the types of an API version.
func packagePath(text string) string {
	group, version, _ := strings.Cut(text, "/")
	name, _, _ := strings.Cut(group, ".")
	switch name {
	case "apiextensions":
		return "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/" + version
	case "apiregistration":
		return "k8s.io/kube-aggregator/pkg/apis/apiregistration/" + version
	case "internal":
		name = "apiserverinternal"
	}
	return apiModule + "/" + name + "/" + version
}

// A typePair is a type of a stored version and the type at the same place in the served version, which may be nil.
type typePair struct{ stored, served *types.TypeName }

// A storedExtractor declares the types of stored versions that differ from the types of the served versions.
type storedExtractor struct {
	*extractor
	// The packages of the stored versions with those of their served versions.
	packages map[string]string
	declared map[string][]*declaration
	seen     map[*types.TypeName]bool
	queue    []typePair
}

func writeStored(out *bufio.Writer, modules map[string]string, versions []string, resources string) error {
	list, err := storedVersions(resources)
	if err != nil {
		return err
	}
	e := &storedExtractor{
		extractor: &extractor{loader: newLoader(modules), kinds: map[string]bool{}, messages: map[string]map[string]bool{}},
		packages:  map[string]string{},
		declared:  map[string][]*declaration{},
		seen:      map[*types.TypeName]bool{},
	}
	for _, version := range list {
		var pair [2]*types.TypeName
		for i, path := range []string{version.path, version.served} {
			src, err := e.loader.load(path)
			if err != nil {
				return err
			}
			if err := e.findMessages(src); err != nil {
				return err
			}
			if !contains(registeredTypes(src), version.kind) {
				return fmt.Errorf("%s does not register %s", path, version.kind)
			}
			pair[i] = src.types.Scope().Lookup(version.kind).(*types.TypeName)
		}
		e.packages[version.path] = version.served
		e.kinds[version.path+"."+version.kind] = true
		if !e.isSame(pair[0].Type(), pair[1].Type(), map[typePair]bool{}) {
			e.queue = append(e.queue, typePair{pair[0], pair[1]})
		}
	}
	for len(e.queue) > 0 {
		pair := e.queue[0]
		e.queue = e.queue[1:]
		if !e.seen[pair.stored] {
			e.seen[pair.stored] = true
			e.declareStored(pair)
		}
	}
	if len(e.problems) > 0 {
		return fmt.Errorf("the importer does not support parts of the sources:\n  %s", strings.Join(e.problems, "\n  "))
	}
	fmt.Fprint(out, storedLegend)
	for _, version := range versions {
		fmt.Fprintf(out, "# source: %s\n", version)
	}
	e.write(out, e.declared)
	return nil
}

// A storedField has the facts of a field that decoding needs.
type storedField struct {
	name, omit, number, value string
	goType                    types.Type
}

// fields returns the fields of a struct in declaration order. Fields without a name in JSON are named after their type.
func (e *storedExtractor) fields(obj *types.TypeName) []storedField {
	src, err := e.loader.load(obj.Pkg().Path())
	if err != nil {
		return nil
	}
	spec, file, _ := src.find(obj.Name())
	if spec == nil {
		return nil
	}
	syntax, ok := spec.Type.(*ast.StructType)
	if other, isCopy := spec.Type.(*ast.SelectorExpr); isCopy {
		src, syntax = e.copied(other, file)
		ok = syntax != nil
	}
	if !ok {
		e.reportf("%s.%s: cannot follow its definition", obj.Pkg().Path(), obj.Name())
		return nil
	}
	structure := obj.Type().Underlying().(*types.Struct)
	scratch := &declaration{pkg: src.path, name: obj.Name()}
	var fields []storedField
	i := 0
	for _, group := range syntax.Fields.List {
		for range max(len(group.Names), 1) {
			line, field := e.field(src, scratch, structure.Field(i), structure.Tag(i), group), structure.Field(i)
			i++
			if line == "" {
				continue
			}
			words := strings.SplitN(strings.TrimSpace(line), " ", 4)
			name := strings.TrimRight(words[0], "?~")
			found := storedField{name: name, omit: words[0][len(name):], number: words[2], goType: field.Type()}
			if len(words) > 3 {
				if _, value, ok := strings.Cut(words[3], "default="); ok {
					found.value = value
				}
			}
			fields = append(fields, found)
		}
	}
	return fields
}

// isSame returns true if a type of a stored version can be decoded as the served version's type. The served type must
// have all its fields, with the same names, numbers, types and defaults.
func (e *storedExtractor) isSame(stored, served types.Type, assumed map[typePair]bool) bool {
	switch stored := types.Unalias(stored).(type) {
	case *types.Pointer:
		served, ok := types.Unalias(served).(*types.Pointer)
		return ok && e.isSame(stored.Elem(), served.Elem(), assumed)
	case *types.Slice:
		served, ok := types.Unalias(served).Underlying().(*types.Slice)
		return ok && e.isSame(stored.Elem(), served.Elem(), assumed)
	case *types.Map:
		served, ok := types.Unalias(served).Underlying().(*types.Map)
		return ok && e.isSame(stored.Elem(), served.Elem(), assumed)
	case *types.Basic:
		return types.Identical(stored, types.Unalias(served).Underlying())
	case *types.Named:
		if types.Identical(stored, served) {
			return true
		}
		other, ok := types.Unalias(served).(*types.Named)
		if _, isStruct := stored.Underlying().(*types.Struct); !isStruct {
			if ok && (e.message(stored.Obj()) != e.message(other.Obj())) || !ok && e.message(stored.Obj()) {
				return false
			}
			return e.isSame(stored.Underlying(), served, assumed)
		}
		if !ok || e.packages[stored.Obj().Pkg().Path()] == "" || e.isCustom(stored.Obj()) != e.isCustom(other.Obj()) {
			return false
		}
		pair := typePair{stored.Obj(), other.Obj()}
		if assumed[pair] {
			return true
		}
		assumed[pair] = true
		servedFields := map[string]storedField{}
		for _, field := range e.fields(other.Obj()) {
			servedFields[field.name] = field
		}
		for _, field := range e.fields(stored.Obj()) {
			partner, ok := servedFields[field.name]
			if !ok || partner.number != field.number || partner.value != field.value ||
				!e.isSame(field.goType, partner.goType, assumed) {
				return false
			}
		}
		return true
	}
	return types.Identical(stored, served)
}

// isCustom returns true if a type has its own JSON encoding. The served version must have one too: types.txt cannot
// express more.
func (e *storedExtractor) isCustom(obj *types.TypeName) bool {
	src, err := e.loader.load(obj.Pkg().Path())
	return err == nil && src.hasCustomJSON(obj.Name())
}

// message returns true if a type that is not a struct is a Protobuf message.
func (e *storedExtractor) message(obj *types.TypeName) bool {
	_, isStruct := obj.Type().Underlying().(*types.Struct)
	return !isStruct && obj.Pkg() != nil && e.messages[obj.Pkg().Path()+"."+obj.Name()] != nil
}

// declareStored declares a struct or a message of a stored version.
func (e *storedExtractor) declareStored(pair typePair) {
	decl := &declaration{pkg: pair.stored.Pkg().Path(), name: pair.stored.Name()}
	e.declared[decl.pkg] = append(e.declared[decl.pkg], decl)
	if _, ok := pair.stored.Type().Underlying().(*types.Struct); !ok {
		text := e.storedType(decl.pkg, pair.stored.Type().Underlying(), nil)
		decl.text = []string{"alias " + decl.name + " " + text + " message"}
		return
	}
	if e.isCustom(pair.stored) {
		e.reportf("%s.%s has JSON of its own that the served version does not have", decl.pkg, decl.name)
	}
	head := "struct " + decl.name
	if e.kinds[decl.pkg+"."+decl.name] {
		head += " kind"
	}
	decl.text = []string{head}
	served := map[string]types.Type{}
	if pair.served != nil {
		for _, field := range e.fields(pair.served) {
			served[field.name] = field.goType
		}
	}
	for _, field := range e.fields(pair.stored) {
		line := "  " + field.name + field.omit + " " + e.storedType(decl.pkg, field.goType, served[field.name]) + " " + field.number
		if field.value != "" {
			line += " default=" + field.value
		}
		decl.text = append(decl.text, line)
	}
	e.checkNumbers(decl)
}

// storedType formats the type of a field. A struct that is the same in the served version is the served struct; other
// structs are declared.
func (e *storedExtractor) storedType(from string, stored, served types.Type) string {
	if served != nil {
		served = types.Unalias(served)
	}
	switch stored := types.Unalias(stored).(type) {
	case *types.Pointer:
		if other, ok := served.(*types.Pointer); ok {
			served = other.Elem()
		}
		return "*" + e.storedType(from, stored.Elem(), served)
	case *types.Slice:
		if other, ok := served.(*types.Slice); ok {
			return "[]" + e.storedType(from, stored.Elem(), other.Elem())
		}
		return "[]" + e.storedType(from, stored.Elem(), nil)
	case *types.Map:
		if other, ok := served.(*types.Map); ok {
			return "map[string]" + e.storedType(from, stored.Elem(), other.Elem())
		}
		return "map[string]" + e.storedType(from, stored.Elem(), nil)
	case *types.Named:
		obj := stored.Obj()
		if _, isStruct := stored.Underlying().(*types.Struct); !isStruct && !e.message(obj) {
			return e.storedType(from, stored.Underlying(), served)
		}
		if other := e.partner(obj, served); e.packages[obj.Pkg().Path()] != "" {
			if other != nil && !e.message(obj) && e.isSame(stored, other.Type(), map[typePair]bool{}) {
				return shortName(other.Pkg().Path()) + "." + other.Name()
			}
			e.queue = append(e.queue, typePair{obj, other})
		}
		if obj.Pkg().Path() == from {
			return obj.Name()
		}
		return shortName(obj.Pkg().Path()) + "." + obj.Name()
	}
	return e.typeText(from, stored, new([]*types.TypeName))
}

// partner returns the type of the served version that may be the same as a type of a stored version. It is the type of
// the same field, or else the type with the same name.
func (e *storedExtractor) partner(obj *types.TypeName, served types.Type) *types.TypeName {
	if other, ok := served.(*types.Named); ok {
		return other.Obj()
	}
	src, err := e.loader.load(e.packages[obj.Pkg().Path()])
	if err != nil {
		return nil
	}
	other, _ := src.types.Scope().Lookup(obj.Name()).(*types.TypeName)
	return other
}
