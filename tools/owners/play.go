package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
)

// play makes requests and writes down what comes of them.
func (k *kind) play(requests []request) []string {
	// Entries are sorted by seconds: all requests are to be of the same one.
	for time.Now().Nanosecond() > 600e6 {
		time.Sleep(10 * time.Millisecond)
	}
	var lines []string
	var live runtime.Object
	before := ""
	for _, of := range requests {
		creates := of.verb == "create"
		applies := of.verb == "apply" || of.verb == "force"
		if live == nil && (!creates && !applies || of.subresource != "") || live != nil && creates {
			continue
		}
		through := ""
		if of.subresource != "" {
			through = " /" + of.subresource
		}
		lines = append(lines, fmt.Sprintf("%s %s%s %s", of.verb, of.manager, through, encoded(of.body)))
		written, err := k.write(of, live)
		if err != nil {
			said := strings.Split(err.Error(), "\n")
			if strings.HasSuffix(said[0], "errors:") {
				// They come as Go walks through maps.
				sort.Strings(said[1:])
			}
			for _, line := range said {
				lines = append(lines, "  ! "+line)
			}
			continue
		}
		live = k.stored(of.subresource, written, live)
		state := strings.Join(append([]string{"  = " + shown(live)}, owners(live)...), "\n")
		if state == before {
			lines = append(lines, "  same")
		} else {
			lines = append(lines, state)
		}
		before = state
	}
	return lines
}

// write asks the field manager what a request makes of the live object, or of none.
func (k *kind) write(of request, live runtime.Object) (runtime.Object, error) {
	if of.subresource == "scale" {
		return k.scale(of, live)
	}
	base := live
	if live == nil {
		base = empty(k.gvk)
	}
	return write(k.managers[of.subresource], k.gvk, of, base)
}

func write(manager *managedfields.FieldManager, gvk schema.GroupVersionKind, of request, live runtime.Object) (runtime.Object, error) {
	live = live.DeepCopyObject()
	named := object{"kind": gvk.Kind, "apiVersion": gvk.GroupVersion().String(), "metadata": object{"name": "o"}}
	body := merged(named, of.body).(object)
	switch of.verb {
	case "apply", "force":
		return manager.Apply(live, &unstructured.Unstructured{Object: body}, of.manager, of.verb == "force")
	case "merge":
		body = merged(tree(live), of.body).(object)
	}
	return manager.UpdateNoErrors(live, decoded(gvk, body), of.manager), nil
}

// stored is a written object as it is read again.
func (k *kind) stored(subresource string, written, live runtime.Object) runtime.Object {
	prepare(subresource, written, live)
	written.GetObjectKind().SetGroupVersionKind(k.gvk)
	accessor, err := meta.Accessor(written)
	must(err)
	accessor.SetUID("u")
	accessor.SetName("o")
	accessor.SetNamespace(k.namespace)
	accessor.SetCreationTimestamp(metav1.Unix(1700000000, 0))
	stored := decoded(k.gvk, tree(written))
	// What differs in the times of entries alone is not stored (upstream: IgnoreManagedFieldsTimestampsTransformer).
	if live != nil && reflect.DeepEqual(timeless(stored), timeless(live)) {
		return live
	}
	return stored
}

func timeless(of runtime.Object) object {
	result := tree(of)
	entries, _ := result["metadata"].(object)["managedFields"].([]any)
	for _, entry := range entries {
		delete(entry.(object), "time")
	}
	return result
}

// shown is an object without its names and what is always there.
func shown(of runtime.Object) string {
	result := tree(of)
	delete(result, "kind")
	delete(result, "apiVersion")
	for part, names := range map[string][]string{
		"metadata": {"managedFields", "uid", "creationTimestamp", "name", "namespace"},
		"spec":     {"selector", "strategy", "revisionHistoryLimit", "progressDeadlineSeconds"},
		"status":   {"nodeInfo", "daemonEndpoints"},
	} {
		members, ok := result[part].(object)
		for _, name := range names {
			delete(members, name)
		}
		if ok && len(members) == 0 && part != "spec" {
			delete(result, part)
		}
	}
	return encoded(result)
}

// owners are the entries of an object.
func owners(of runtime.Object) []string {
	accessor, err := meta.Accessor(of)
	must(err)
	var lines []string
	for _, entry := range accessor.GetManagedFields() {
		var words strings.Builder
		fmt.Fprintf(&words, "  - %s %s %s", entry.Manager, entry.Operation, entry.APIVersion)
		if entry.Subresource != "" {
			words.WriteString(" /" + entry.Subresource)
		}
		if entry.Time == nil {
			words.WriteString(" untimed")
		}
		lines = append(lines, words.String()+": "+strings.Join(paths(tree(entry.FieldsV1), ""), " "))
	}
	return lines
}

// paths are the fields of a set as conflicts write them.
func paths(set object, path string) []string {
	if len(set) == 0 {
		return []string{path}
	}
	var found []string
	for _, key := range sorted(set) {
		kind, name, _ := strings.Cut(key, ":")
		below, _ := set[key].(object)
		switch kind {
		case "f":
			found = append(found, paths(below, path+"."+name)...)
		case "k":
			var keys object
			must(json.Unmarshal([]byte(name), &keys))
			var parts []string
			for _, key := range sorted(keys) {
				parts = append(parts, key+"="+encoded(keys[key]))
			}
			found = append(found, paths(below, path+"["+strings.Join(parts, ",")+"]")...)
		case "v":
			found = append(found, paths(below, path+"[="+name+"]")...)
		default:
			found = append(found, path)
		}
	}
	return found
}

func sorted(of object) []string {
	var keys []string
	for key := range of {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func empty(gvk schema.GroupVersionKind) runtime.Object {
	made, err := scheme.Scheme.New(gvk)
	must(err)
	return made
}

func decoded(gvk schema.GroupVersionKind, from object) runtime.Object {
	made := empty(gvk)
	must(json.Unmarshal([]byte(encoded(from)), made))
	made.GetObjectKind().SetGroupVersionKind(gvk)
	defaults{}.Default(made)
	return made
}

func encoded(of any) string {
	text, err := json.Marshal(of)
	must(err)
	return string(text)
}

func tree(of any) object {
	var result object
	must(json.Unmarshal([]byte(encoded(of)), &result))
	return result
}

// must ends the program: a recording with a mistake in it is none.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
