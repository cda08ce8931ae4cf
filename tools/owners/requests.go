package main

import (
	"encoding/json"
	"math/rand"
)

// object is JSON.
type object = map[string]any

// request is one write. Its verbs are those of the tests: apply, force, create, replace, merge.
type request struct {
	verb, manager, subresource string
	body                       object
}

// requests makes the requests for one object.
func (r recording) requests(dice *rand.Rand) []request {
	var requests []request
	if r.first != nil {
		requests = append(requests, request{"apply", "base", "", r.first})
	}
	for range length {
		verb := pick(dice, "create", "apply", "apply", "apply", "force", "replace", "merge")
		subresource := pick(dice, r.through...)
		body := r.body(dice, subresource)
		manager := pick(dice, r.appliers...)
		if verb != "apply" && verb != "force" {
			manager = pick(dice, "one", "four")
			if r.sends && dice.Intn(5) == 0 {
				sent := object{"metadata": object{"managedFields": entries(dice, r.kind.apiVersion())}}
				body = merged(body, sent).(object)
			}
		}
		if data, ok := body["data"].(object); ok && verb == "merge" && dice.Intn(3) == 0 {
			data["a"] = nil
		}
		if (verb == "replace" || verb == "merge") && subresource != "scale" {
			// A merge patch replaces lists as a whole.
			body = completed(body, r.first).(object)
		}
		requests = append(requests, request{verb, manager, subresource, body})
	}
	return requests
}

func pick[T any](dice *rand.Rand, of ...T) T { return of[dice.Intn(len(of))] }

// some sets a member of an object now and then.
func some(dice *rand.Rand, of object, key string, value any) {
	if dice.Intn(3) == 0 {
		of[key] = value
	}
}

// texts has some of the keys.
func texts(dice *rand.Rand, keys ...string) object {
	of := object{}
	for _, key := range keys {
		if dice.Intn(2) == 0 {
			of[key] = pick(dice, "1", "2")
		}
	}
	return of
}

// items has an item for some of the names, in any order.
func items(dice *rand.Rand, item func(string) any, names ...string) []any {
	list := []any{}
	for _, i := range dice.Perm(len(names)) {
		if dice.Intn(2) == 0 {
			list = append(list, item(names[i]))
		}
	}
	return list
}

func metadata(dice *rand.Rand, of object) {
	metadata := object{}
	some(dice, metadata, "labels", texts(dice, "l", "m"))
	some(dice, metadata, "annotations", texts(dice, "n", "o"))
	some(dice, metadata, "finalizers", items(dice, func(name string) any { return name }, "x/a", "x/b", "x/c"))
	some(dice, metadata, "ownerReferences", items(dice, func(uid string) any {
		owner := object{"apiVersion": "v1", "kind": "Pod", "name": pick(dice, "p", "q"), "uid": uid}
		some(dice, owner, "controller", false)
		return owner
	}, "1", "2"))
	if len(metadata) > 0 {
		of["metadata"] = metadata
	}
}

func configMap(dice *rand.Rand, _ string) object {
	of := object{}
	metadata(dice, of)
	if dice.Intn(4) > 0 {
		of["data"] = texts(dice, "a", "b", "c")
	}
	some(dice, of, "binaryData", object{pick(dice, "d", "e"): pick(dice, "AQ==", "Ag==")})
	return of
}

// upgraded is a config map that may say what kubectl applied before.
func upgraded(dice *rand.Rand, subresource string) object {
	of := configMap(dice, subresource)
	config := merged(configMap(dice, subresource), object{"apiVersion": pick(dice, "v1", "v1", "v1", "v2"), "kind": "ConfigMap"})
	text, _ := json.Marshal(config)
	applied := pick(dice, string(text), string(text), string(text), string(text), "{", "", "[]",
		`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":1}}`, `{"apiVersion":"v1","data":{"a":"1"}}`)
	if dice.Intn(3) == 0 {
		annotations := object{"kubectl.kubernetes.io/last-applied-configuration": applied}
		of = merged(of, object{"metadata": object{"annotations": annotations}}).(object)
	}
	return of
}

func account(dice *rand.Rand, _ string) object {
	of := object{}
	metadata(dice, of)
	some(dice, of, "secrets", items(dice, func(name string) any {
		secret := object{"name": name}
		some(dice, secret, "namespace", pick(dice, "x", "y"))
		return secret
	}, "a", "b", "c"))
	some(dice, of, "imagePullSecrets", items(dice, func(name string) any { return object{"name": name} }, "a", "b"))
	some(dice, of, "automountServiceAccountToken", pick(dice, true, false))
	return of
}

func condition(dice *rand.Rand) func(string) any {
	return func(name string) any {
		return object{"type": name, "status": pick(dice, "True", "False"), "reason": pick(dice, "A", "B")}
	}
}

func node(dice *rand.Rand, _ string) object {
	of, spec, status := object{}, object{}, object{}
	if dice.Intn(2) == 0 {
		metadata(dice, of)
	}
	some(dice, spec, "unschedulable", true)
	some(dice, spec, "taints", []any{object{"key": pick(dice, "k", "l"), "effect": "NoSchedule"}})
	some(dice, of, "spec", spec)
	some(dice, status, "phase", pick(dice, "Pending", "Running"))
	some(dice, status, "conditions", items(dice, condition(dice), "Ready", "Disk"))
	some(dice, status, "images", []any{object{"names": []any{pick(dice, "i", "j")}, "sizeBytes": 1}})
	some(dice, status, "addresses", items(dice, func(name string) any {
		return object{"type": name, "address": pick(dice, "a", "b")}
	}, "Hostname", "InternalIP"))
	if len(status) > 0 {
		of["status"] = status
	}
	return of
}

// template is what a deployment cannot be without.
var template = object{"spec": object{
	"selector": object{"matchLabels": object{"l": "x"}},
	"template": object{
		"metadata": object{"labels": object{"l": "x"}},
		"spec": object{
			"containers": []any{object{"name": "c", "image": "i"}},
			"volumes":    []any{object{"name": "v", "emptyDir": object{}}},
		},
	},
}}

// podTemplate writes lists of many sorts. A container always has the same image, without which nothing is valid.
func podTemplate(dice *rand.Rand, _ string) object {
	spec := object{}
	containers := items(dice, func(name string) any { return container(dice, name) }, "a", "b", "c")
	if len(containers) > 0 {
		spec["containers"] = containers
	}
	some(dice, spec, "imagePullSecrets", items(dice, func(name string) any { return object{"name": name} }, "s", "t"))
	some(dice, spec, "hostAliases", items(dice, func(ip string) any {
		return object{"ip": ip, "hostnames": items(dice, func(name string) any { return name }, "h", "i")}
	}, "10.0.0.1", "10.0.0.2"))
	some(dice, spec, "nodeSelector", texts(dice, "n", "o"))
	some(dice, spec, "tolerations", items(dice, func(key string) any {
		return object{"key": key, "operator": "Exists"}
	}, "k", "l"))
	of := object{"spec": object{"template": object{"spec": spec}}}
	if dice.Intn(3) == 0 {
		of = merged(of, object{"spec": object{"template": object{"metadata": object{"annotations": texts(dice, "n", "o")}}}}).(object)
	}
	return of
}

func container(dice *rand.Rand, name string) object {
	of := object{"name": name, "image": map[string]string{"a": "i", "b": "i:1", "c": "i"}[name]}
	some(dice, of, "args", items(dice, func(name string) any { return name }, "x", "y"))
	some(dice, of, "env", items(dice, func(name string) any {
		return object{"name": name, "value": pick(dice, "1", "2")}
	}, "A", "A", "B", "C"))
	some(dice, of, "ports", items(dice, func(number string) any {
		port := object{"containerPort": 80 + int(number[0]-'0')}
		if protocol := pick(dice, "TCP", "UDP", ""); protocol != "" {
			port["protocol"] = protocol
		}
		return port
	}, "0", "0", "1"))
	some(dice, of, "volumeMounts", items(dice, func(path string) any {
		mount := object{"name": "v", "mountPath": path}
		some(dice, mount, "readOnly", true)
		return mount
	}, "/a", "/b"))
	some(dice, of, "resources", object{"limits": object{"cpu": pick(dice, "1", "1000m", "2")}})
	return of
}

func deployment(dice *rand.Rand, subresource string) object {
	of, spec, status := object{}, object{}, object{}
	if dice.Intn(3) > 0 {
		spec["replicas"] = pick(dice, 0, 1, 2, 3)
	}
	if subresource == "scale" {
		return object{"spec": spec}
	}
	if dice.Intn(3) == 0 {
		metadata(dice, of)
	}
	some(dice, spec, "paused", pick(dice, true, false))
	some(dice, spec, "minReadySeconds", pick(dice, 1, 2))
	of["spec"] = spec
	some(dice, status, "unavailableReplicas", pick(dice, 1, 2))
	some(dice, status, "conditions", items(dice, condition(dice), "Available", "Progressing"))
	some(dice, of, "status", status)
	return of
}

// entries are managers that an update brings along. Some cannot be read.
func entries(dice *rand.Rand, apiVersion string) []any {
	none := object{}
	sets := []any{
		object{"f:metadata": object{"f:labels": object{"f:l": none}}},
		object{"f:metadata": object{"f:finalizers": object{".": none, `v:"x/a"`: none}}},
		object{"f:metadata": object{"f:ownerReferences": object{`k:{"uid":"1"}`: object{".": none, "f:name": none}}}},
		object{"f:data": object{".": none, "f:a": none, "f:z": none}},
		none,
	}
	list := []any{}
	for range pick(dice, 0, 1, 1, 1, 2, 3) {
		if dice.Intn(8) == 0 {
			list = append(list, none)
			continue
		}
		entry := object{
			"manager": pick(dice, "one", "two", "four", "five"), "operation": pick(dice, "Apply", "Update"),
			"apiVersion": apiVersion, "fieldsType": "FieldsV1", "fieldsV1": pick(dice, sets...),
		}
		switch dice.Intn(16) {
		case 0:
			entry["apiVersion"] = pick(dice, "v0", "other/v1", "")
		case 1:
			entry["operation"] = pick(dice, "", "Create")
		case 2:
			entry["fieldsType"] = pick(dice, "", "FieldsV2")
		case 3:
			entry["fieldsV1"] = pick[any](dice, object{"data": none}, object{"f:data": 1}, object{"k:{}": none})
		case 4, 5:
			entry["subresource"] = "status"
		case 6, 7:
			entry["time"] = "2023-01-01T00:00:00Z"
		case 8:
			delete(entry, "fieldsV1")
		}
		list = append(list, entry)
	}
	return list
}

// merged is JSON with a merge patch (RFC 7386) applied.
func merged(base, patch any) any {
	changes, ok := patch.(object)
	if !ok {
		return patch
	}
	result := object{}
	if base, ok := base.(object); ok {
		for key, value := range base {
			result[key] = value
		}
	}
	for key, value := range changes {
		if value == nil {
			delete(result, key)
		} else {
			result[key] = merged(result[key], value)
		}
	}
	return result
}

// completed is what is in either of two trees; of named items, too.
func completed(base, more any) any {
	switch more := more.(type) {
	case object:
		result := object{}
		if base, ok := base.(object); ok {
			for key, value := range base {
				result[key] = value
			}
		}
		for key, value := range more {
			result[key] = completed(result[key], value)
		}
		return result
	case []any:
		list, _ := base.([]any)
		result := append([]any{}, list...)
		for _, item := range more {
			there := false
			for _, other := range list {
				there = there || other.(object)["name"] == item.(object)["name"]
			}
			if !there {
				result = append(result, item)
			}
		}
		return result
	}
	return more
}
