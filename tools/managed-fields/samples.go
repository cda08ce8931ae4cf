package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

// neverOwned are the fields that no manager owns.
var neverOwned = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"),
	fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata", "name"),
	fieldpath.MakePathOrDie("metadata", "namespace"),
)

// ownedFields returns a line for each sample of a kind whose schema client-go has: its name and the fields that an
// apply owns.
func ownedFields(folder string) string {
	types := applyconfigurations.NewTypeConverter(scheme.Scheme)
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	must(err)
	var lines strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(err)
		first, _, _ := strings.Cut(string(text), "\n---\n")
		sample := &unstructured.Unstructured{}
		must(yaml.Unmarshal([]byte(first), &sample.Object))
		if !scheme.Scheme.Recognizes(sample.GroupVersionKind()) {
			continue
		}
		typed, err := types.ObjectToTyped(sample)
		if err != nil && strings.Contains(err.Error(), "no type found") {
			continue
		}
		must(err)
		set, err := typed.ToFieldSet()
		must(err)
		fields, err := set.Difference(neverOwned).ToJSON()
		must(err)
		fmt.Fprintf(&lines, "%s %s\n", strings.TrimSuffix(filepath.Base(file), ".yaml"), fields)
	}
	return lines.String()
}
