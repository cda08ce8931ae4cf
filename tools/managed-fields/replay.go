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

// replay sends requests to the field manager and returns the recorded results.
func (k *kind) replay(requests []request) []string {
	// Entries are sorted by their time in seconds, so all requests must be in the same second.
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
		lines = append(lines, fmt.Sprintf("%s %s%s %s", of.verb, of.manager, through, encode(of.body)))
		written, err := k.write(of, live)
		if err != nil {
			errorLines := strings.Split(err.Error(), "\n")
			if strings.HasSuffix(errorLines[0], "errors:") {
				// Their order depends on Go's map iteration.
				sort.Strings(errorLines[1:])
			}
			for _, line := range errorLines {
				lines = append(lines, "  ! "+line)
			}
			continue
		}
		live = k.stored(of.subresource, written, live)
		state := strings.Join(append([]string{"  = " + withoutServerFields(live)}, managedFieldsLines(live)...), "\n")
		if state == before {
			lines = append(lines, "  same")
		} else {
			lines = append(lines, state)
		}
		before = state
	}
	return lines
}

// write returns the field manager's result of a request on the live object. live is nil if the object does not exist.
func (k *kind) write(of request, live runtime.Object) (runtime.Object, error) {
	if of.subresource == "scale" {
		return k.scale(of, live)
	}
	base := live
	if live == nil {
		base = newObject(k.gvk)
	}
	return write(k.managers[of.subresource], k.gvk, of, base)
}

func write(manager *managedfields.FieldManager, gvk schema.GroupVersionKind, of request, live runtime.Object) (runtime.Object, error) {
	live = live.DeepCopyObject()
	named := object{"kind": gvk.Kind, "apiVersion": gvk.GroupVersion().String(), "metadata": object{"name": "o"}}
	body := mergePatch(named, of.body).(object)
	switch of.verb {
	case "apply", "force":
		return manager.Apply(live, &unstructured.Unstructured{Object: body}, of.manager, of.verb == "force")
	case "merge":
		body = mergePatch(toMap(live), of.body).(object)
	}
	return manager.UpdateNoErrors(live, decode(gvk, body), of.manager), nil
}

// stored returns a written object as it is stored.
func (k *kind) stored(subresource string, written, live runtime.Object) runtime.Object {
	prepare(subresource, written, live)
	written.GetObjectKind().SetGroupVersionKind(k.gvk)
	accessor, err := meta.Accessor(written)
	must(err)
	accessor.SetUID("u")
	accessor.SetName("o")
	accessor.SetNamespace(k.namespace)
	accessor.SetCreationTimestamp(metav1.Unix(1700000000, 0))
	stored := decode(k.gvk, toMap(written))
	// An object that differs only in the times of managed fields is not stored (upstream:
	// IgnoreManagedFieldsTimestampsTransformer).
	if live != nil && reflect.DeepEqual(withoutTimes(stored), withoutTimes(live)) {
		return live
	}
	return stored
}

func withoutTimes(of runtime.Object) object {
	result := toMap(of)
	entries, _ := result["metadata"].(object)["managedFields"].([]any)
	for _, entry := range entries {
		delete(entry.(object), "time")
	}
	return result
}

// withoutServerFields encodes an object without its names and without fields that are always present.
func withoutServerFields(of runtime.Object) string {
	result := toMap(of)
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
	return encode(result)
}

// managedFieldsLines formats the managed fields of an object.
func managedFieldsLines(of runtime.Object) []string {
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
		lines = append(lines, words.String()+": "+strings.Join(paths(toMap(entry.FieldsV1), ""), " "))
	}
	return lines
}

// paths formats the fields of a set like conflict messages.
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
				parts = append(parts, key+"="+encode(keys[key]))
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

func newObject(gvk schema.GroupVersionKind) runtime.Object {
	created, err := scheme.Scheme.New(gvk)
	must(err)
	return created
}

func decode(gvk schema.GroupVersionKind, from object) runtime.Object {
	created := newObject(gvk)
	must(json.Unmarshal([]byte(encode(from)), created))
	created.GetObjectKind().SetGroupVersionKind(gvk)
	defaults{}.Default(created)
	return created
}

func encode(of any) string {
	text, err := json.Marshal(of)
	must(err)
	return string(text)
}

func toMap(of any) object {
	var result object
	must(json.Unmarshal([]byte(encode(of)), &result))
	return result
}

// must panics, because a recording with an error would be useless.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
