package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// A source is one loaded package: its syntax (for tags and comments) and its types (for resolved names and
// constants).
type source struct {
	path  string
	dir   string
	files []*ast.File
	types *types.Package
	info  *types.Info
}

// A loader reads packages of the pinned modules. All other packages are empty: only names and constants of the API
// modules are needed, and the type checker ignores errors about missing declarations.
type loader struct {
	fset    *token.FileSet
	modules map[string]string
	sources map[string]*source
	foreign map[string]*types.Package
}

// pinnedModules returns the directories of the modules that go.mod pins. The go command downloads missing ones.
func pinnedModules() (dirs map[string]string, versions []string, err error) {
	cmd := exec.Command("go", "mod", "download", "-json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go mod download: %w", err)
	}
	dirs = map[string]string{}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for decoder.More() {
		var module struct{ Path, Version, Dir, Error string }
		if err := decoder.Decode(&module); err != nil {
			return nil, nil, err
		}
		if module.Error != "" {
			return nil, nil, fmt.Errorf("%s: %s", module.Path, module.Error)
		}
		dirs[module.Path] = module.Dir
		versions = append(versions, module.Path+" "+module.Version)
	}
	sort.Strings(versions)
	return dirs, versions, nil
}

func newLoader(modules map[string]string) *loader {
	return &loader{
		fset:    token.NewFileSet(),
		modules: modules,
		sources: map[string]*source{},
		foreign: map[string]*types.Package{},
	}
}

// dir returns the directory of an import path, or "" if it is outside of the pinned modules.
func (l *loader) dir(path string) string {
	for module, dir := range l.modules {
		if path == module || strings.HasPrefix(path, module+"/") {
			return filepath.Join(dir, strings.TrimPrefix(path, module))
		}
	}
	return ""
}

// Import implements types.Importer.
func (l *loader) Import(path string) (*types.Package, error) {
	if l.dir(path) == "" {
		if l.foreign[path] == nil {
			l.foreign[path] = foreignPackage(path)
		}
		return l.foreign[path], nil
	}
	src, err := l.load(path)
	if err != nil {
		return nil, err
	}
	return src.types, nil
}

// foreignPackage returns a placeholder for a package that is not read. It declares the only foreign types that API
// structs embed.
func foreignPackage(path string) *types.Package {
	pkg := types.NewPackage(path, filepath.Base(path))
	if path == "time" {
		name := types.NewTypeName(token.NoPos, pkg, "Time", nil)
		types.NewNamed(name, types.NewStruct(nil, nil), nil)
		pkg.Scope().Insert(name)
		name = types.NewTypeName(token.NoPos, pkg, "Duration", nil)
		types.NewNamed(name, types.Typ[types.Int64], nil)
		pkg.Scope().Insert(name)
	}
	pkg.MarkComplete()
	return pkg
}

func (l *loader) load(path string) (*source, error) {
	if src, ok := l.sources[path]; ok {
		return src, nil
	}
	src := &source{path: path, dir: l.dir(path)}
	l.sources[path] = src
	context := build.Default
	context.GOOS, context.GOARCH, context.CgoEnabled = "linux", "amd64", false
	listed, err := context.ImportDir(src.dir, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range listed.GoFiles {
		file, err := parser.ParseFile(l.fset, filepath.Join(src.dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		src.files = append(src.files, file)
	}
	src.info = &types.Info{Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{
		Importer:         l,
		IgnoreFuncBodies: true,
		FakeImportC:      true,
		Error:            func(error) {},
	}
	src.types, _ = config.Check(path, l.fset, src.files, src.info)
	return src, nil
}
