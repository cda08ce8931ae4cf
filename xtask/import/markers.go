package main

import (
	"go/ast"
	"regexp"
	"strings"
)

// markers are the `+name=value` lines of a comment. A name may occur more than once.
type markers map[string][]string

var markerLine = regexp.MustCompile(`^\+([A-Za-z0-9:_-]+)(?:\([^)]*\))?(?:=(.*))?$`)

// parse adds the marker lines of a comment group.
func (m markers) parse(group *ast.CommentGroup) {
	if group == nil {
		return
	}
	for _, comment := range group.List {
		text := strings.TrimPrefix(comment.Text, "//")
		for _, line := range strings.Split(text, "\n") {
			line = strings.Trim(line, " \t*/")
			if found := markerLine.FindStringSubmatch(line); found != nil {
				m[found[1]] = append(m[found[1]], strings.TrimSpace(found[2]))
			}
		}
	}
}

func (m markers) has(name string) bool { return len(m[name]) > 0 }

func (m markers) first(name string) string {
	if m.has(name) {
		return m[name][0]
	}
	return ""
}

// markersOf returns the markers of a declaration: the markers in its doc comment, and in the comment block one blank
// line above it, which Kubernetes' generators read too.
func (s *source) markersOf(l *loader, doc *ast.CommentGroup, declared ast.Node, file *ast.File) markers {
	found := markers{}
	found.parse(doc)
	top := l.fset.Position(declared.Pos()).Line
	if doc != nil {
		top = l.fset.Position(doc.Pos()).Line
	}
	for _, group := range file.Comments {
		if l.fset.Position(group.End()).Line == top-2 {
			found.parse(group)
		}
	}
	return found
}
