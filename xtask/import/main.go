// Command import prints the facts of the stable Kubernetes API types in the format of the catalog. The head of its
// output describes the format. It reads the modules that go.mod pins with Go's parser and type checker. With "optional"
// and the file of resources, it prints the types of the versions that are off by default. With "stored" and this file,
// it prints the types of the versions that are only stored, and with "rules" the validation rules of all types.
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

const (
	apiModule = "k8s.io/api"
	metaPath  = "k8s.io/apimachinery/pkg/apis/meta/v1"
	legend    = `# The types of the built-in API, one line a fact. Written by "cargo xtask import-catalog" from the modules below; do not edit.
#
#   package NAME GO-PATH [group="GROUP" version=VERSION] model=OPENAPI-PREFIX
#   alias NAME TYPE [custom] [message] [closed] [enum=A|B|...]   message: a Protobuf message with the items in field 1;
#                                                                closed: published as an enum
#   struct NAME [kind] [custom] [atomic] [union]                 custom: JSON of its own; atomic: apply owns it as a whole
#     NAME TYPE NUMBER [words]                                   in declaration order; NUMBER is Protobuf's, "-" if none
#
# A field's name ends with ? for omitempty and with ~ for omitzero; "=" is a struct inlined in JSON, "-Name" a field that
# JSON does not have. Fields without ? or ~ are required, those with it are not, where no word says otherwise.
# Words: required, optional, list=TYPE(KEYS), map=TYPE, patch=STRATEGY(KEY), gate=FEATURE, discriminator and member (of a
# union), default=JSON. Protobuf's wire type follows from the Go type: the tags' own word for it is not reliable.
`
)

var (
	stable     = regexp.MustCompile(`^v[0-9]+$`)
	apiVersion = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
)

// otherPackages are read in addition to the stable versions of k8s.io/api.
var otherPackages = []string{
	metaPath,
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1",
	"k8s.io/apimachinery/pkg/runtime",
	"k8s.io/apimachinery/pkg/util/intstr",
	"k8s.io/apimachinery/pkg/api/resource",
	"k8s.io/apimachinery/pkg/types",
}

// extraRoots are types that are served or stored, but not registered in their own group.
var extraRoots = map[string][]string{
	"k8s.io/apimachinery/pkg/runtime": {"RawExtension", "TypeMeta", "Unknown"},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "import:", err)
		os.Exit(1)
	}
}

func run() error {
	modules, versions, err := pinnedModules()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	mode, resources := "", ""
	if len(os.Args) == 3 {
		mode, resources = os.Args[1], os.Args[2]
	}
	if mode == "stored" {
		if err := writeStored(out, modules, versions, resources); err != nil {
			return err
		}
		return out.Flush()
	}
	paths, err := stablePackages(modules[apiModule])
	if err != nil {
		return err
	}
	extract := &extractor{loader: newLoader(modules), kinds: map[string]bool{}, messages: map[string]map[string]bool{}}
	var roots []*types.TypeName
	for _, path := range append(paths, otherPackages...) {
		src, err := extract.read(path)
		if err != nil {
			return err
		}
		names := append(registeredTypes(src), extraRoots[path]...)
		for _, name := range names {
			extract.kinds[path+"."+name] = !contains(extraRoots[path], name)
		}
		if path == metaPath {
			names = src.exportedStructs()
		}
		roots = append(roots, extract.lookUp(src, names)...)
	}
	declared, head := extract.declareReachable(roots), legend
	if mode == "rules" {
		all, err := extract.optionalRoots(resources)
		if err != nil {
			return err
		}
		if err := extract.writeRules(out, versions, extract.declareReachable(append(all, roots...))); err != nil {
			return err
		}
		return out.Flush()
	}
	if mode == "optional" {
		all, err := extract.optionalRoots(resources)
		if err != nil {
			return err
		}
		declared, head = without(extract.declareReachable(append(all, roots...)), declared), optionalLegend
	}
	if len(extract.problems) > 0 {
		return fmt.Errorf("the importer does not support parts of the sources:\n  %s", strings.Join(extract.problems, "\n  "))
	}
	fmt.Fprint(out, head)
	for _, v := range versions {
		fmt.Fprintf(out, "# source: %s\n", v)
	}
	extract.write(out, declared)
	return out.Flush()
}

// read loads a package with its Protobuf messages.
func (e *extractor) read(path string) (*source, error) {
	src, err := e.loader.load(path)
	if err != nil {
		return nil, err
	}
	return src, e.findMessages(src)
}

// lookUp returns types of a package by their names.
func (e *extractor) lookUp(src *source, names []string) []*types.TypeName {
	var found []*types.TypeName
	for _, name := range names {
		if obj, ok := src.types.Scope().Lookup(name).(*types.TypeName); ok {
			found = append(found, obj)
		} else {
			e.reportf("%s: no type %s", src.path, name)
		}
	}
	return found
}

// stablePackages returns the import paths of all GA versions in k8s.io/api.
func stablePackages(dir string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*", "v*", "register.go"))
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, file := range found {
		folder := filepath.Dir(file)
		if stable.MatchString(filepath.Base(folder)) {
			rel, err := filepath.Rel(dir, folder)
			if err != nil {
				return nil, err
			}
			paths = append(paths, apiModule+"/"+filepath.ToSlash(rel))
		}
	}
	sort.Strings(paths)
	return paths, nil
}

// registeredTypes returns the names of the types that the package passes to AddKnownTypes for its own group and
// version.
func registeredTypes(src *source) []string {
	var names []string
	for _, file := range src.files {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || selector.Sel.Name != "AddKnownTypes" || len(call.Args) < 2 {
				return true
			}
			if group, ok := call.Args[0].(*ast.Ident); !ok || group.Name != "SchemeGroupVersion" {
				return true
			}
			for _, argument := range call.Args[1:] {
				unary, ok := argument.(*ast.UnaryExpr)
				if !ok {
					continue
				}
				literal, ok := unary.X.(*ast.CompositeLit)
				if !ok {
					continue
				}
				if name, ok := literal.Type.(*ast.Ident); ok {
					names = append(names, name.Name)
				}
			}
			return true
		})
	}
	return names
}

// exportedStructs returns the structs of a package with at least one field that has a JSON tag.
func (s *source) exportedStructs() []string {
	var names []string
	scope := s.types.Scope()
	for _, name := range scope.Names() {
		obj, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || !obj.Exported() || obj.IsAlias() {
			continue
		}
		structure, ok := obj.Type().Underlying().(*types.Struct)
		if !ok {
			continue
		}
		for i := range structure.NumFields() {
			if strings.Contains(structure.Tag(i), `json:"`) {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

var (
	protoMessage = regexp.MustCompile(`^message (\w+) \{`)
	protoField   = regexp.MustCompile(`^  (?:optional |repeated |map<).* = (\d+)`)
)

// findMessages reads the Protobuf messages of a package with their field numbers. Slices and maps may be messages
// too.
func (e *extractor) findMessages(src *source) error {
	text, err := os.ReadFile(filepath.Join(src.dir, "generated.proto"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var open map[string]bool
	for _, line := range strings.Split(string(text), "\n") {
		if found := protoMessage.FindStringSubmatch(line); found != nil {
			open = map[string]bool{}
			e.messages[src.path+"."+found[1]] = open
		} else if found := protoField.FindStringSubmatch(line); found != nil && open != nil {
			open[found[1]] = true
		}
	}
	return nil
}

// declareReachable declares the roots and all types that they reference.
func (e *extractor) declareReachable(roots []*types.TypeName) map[string][]*declaration {
	seen := map[*types.TypeName]bool{}
	declared := map[string][]*declaration{}
	roots = append([]*types.TypeName{}, roots...)
	for len(roots) > 0 {
		obj := roots[len(roots)-1]
		roots = roots[:len(roots)-1]
		if seen[obj] || obj.Pkg() == nil || e.loader.dir(obj.Pkg().Path()) == "" {
			continue
		}
		seen[obj] = true
		decl := e.declare(obj)
		if decl == nil {
			e.reportf("%s.%s: no declaration", obj.Pkg().Path(), obj.Name())
			continue
		}
		declared[decl.pkg] = append(declared[decl.pkg], decl)
		roots = append(roots, decl.references...)
	}
	return declared
}

// write prints the packages sorted by name, aliases before structs, each sorted by name.
func (e *extractor) write(out *bufio.Writer, declared map[string][]*declaration) {
	var paths []string
	for path := range declared {
		paths = append(paths, path)
	}
	sort.Slice(paths, func(i, j int) bool { return shortName(paths[i]) < shortName(paths[j]) })
	for _, path := range paths {
		src, _ := e.loader.load(path)
		fmt.Fprintf(out, "\npackage %s %s%s\n", shortName(path), path, src.identity())
		list := declared[path]
		sort.Slice(list, func(i, j int) bool {
			if a, b := strings.HasPrefix(list[i].text[0], "alias"), strings.HasPrefix(list[j].text[0], "alias"); a != b {
				return a
			}
			return list[i].name < list[j].name
		})
		for _, decl := range list {
			for _, line := range decl.text {
				fmt.Fprintln(out, line)
			}
		}
	}
}

// identity returns the group, version and OpenAPI prefix of a package.
func (s *source) identity() string {
	text := ""
	marks := markers{}
	for _, file := range s.files {
		for _, group := range file.Comments {
			if group.Pos() < file.Package {
				marks.parse(group)
			}
		}
	}
	group, ok := s.types.Scope().Lookup("GroupName").(*types.Const)
	if last := filepath.Base(s.dir); ok && apiVersion.MatchString(last) {
		text += fmt.Sprintf(" group=%q version=%s", constant.StringVal(group.Val()), last)
	}
	model := marks.first("k8s:openapi-model-package")
	if model == "" {
		model = "io.k8s." + strings.ReplaceAll(strings.TrimPrefix(s.path, "k8s.io/"), "/", ".")
	}
	return text + " model=" + model
}
