package main

import (
	"fmt"
	"go/types"
	"os"
	"strings"
)

const optionalLegend = `# The types of the versions of the built-in API that are off by default, beside those of types.txt, in its format. Written by
# "cargo xtask import-catalog" from the modules below; do not edit. They are the kinds of the versions that resources.txt calls
# disabled, with what they refer to.
`

// A resourceLine is a resource in the file of resources.
type resourceLine struct {
	path, kind string
	disabled   bool
	words      []string
}

// resourceLines reads the resources of the catalog.
func resourceLines(file string) ([]resourceLine, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var found []resourceLine
	var group, version, rest string
	for _, line := range strings.Split(string(text), "\n") {
		if named, ok := strings.CutPrefix(line, "group "); ok {
			group, _, _ = strings.Cut(named, " ")
		} else if named, ok := strings.CutPrefix(line, "version "); ok {
			version, rest, _ = strings.Cut(named, " ")
		} else if resource := resourcePattern.FindStringSubmatch(line); resource != nil {
			path := packagePath(group + "/" + version)
			found = append(found, resourceLine{path, resource[2], strings.HasSuffix(rest, " disabled"), strings.Fields(resource[3])})
		}
	}
	return found, nil
}

// optionalRoots returns the kinds of the versions that are off by default, and their lists.
func (e *extractor) optionalRoots(resources string) ([]*types.TypeName, error) {
	lines, err := resourceLines(resources)
	if err != nil {
		return nil, err
	}
	var roots []*types.TypeName
	for _, line := range lines {
		if !line.disabled {
			continue
		}
		src, err := e.read(line.path)
		if err != nil {
			return nil, err
		}
		names := []string{line.kind, line.kind + "List"}
		for _, name := range names {
			if !contains(registeredTypes(src), name) {
				return nil, fmt.Errorf("%s does not register %s", line.path, name)
			}
			e.kinds[line.path+"."+name] = true
		}
		roots = append(roots, e.lookUp(src, names)...)
	}
	return roots, nil
}

// without returns the declarations that are not among others.
func without(all, others map[string][]*declaration) map[string][]*declaration {
	known := map[string]bool{}
	for path, list := range others {
		for _, decl := range list {
			known[path+"."+decl.name] = true
		}
	}
	rest := map[string][]*declaration{}
	for path, list := range all {
		for _, decl := range list {
			if !known[path+"."+decl.name] {
				rest[path] = append(rest[path], decl)
			}
		}
	}
	return rest
}
