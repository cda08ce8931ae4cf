package main

import (
	"encoding/json"
	"math/rand"
)

// object is JSON.
type object = map[string]any

// request is one write. The verbs are those of the tests: apply, force, create, replace, merge.
type request struct {
	verb, manager, subresource string
	body                       object
}

// requests generates the requests for one object.
func (r recording) requests(random *rand.Rand) []request {
	var requests []request
	if r.base != nil {
		requests = append(requests, request{"apply", "base", "", r.base})
	}
	for range maxRequests {
		verb := pick(random, "create", "apply", "apply", "apply", "force", "replace", "merge")
		subresource := pick(random, r.subresources...)
		body := r.body(random, subresource)
		manager := pick(random, r.managers...)
		if verb != "apply" && verb != "force" {
			manager = pick(random, "one", "four")
			if r.sendsManagedFields && random.Intn(5) == 0 {
				sent := object{"metadata": object{"managedFields": entries(random, r.kind.apiVersion())}}
				body = mergePatch(body, sent).(object)
			}
		}
		if data, ok := body["data"].(object); ok && verb == "merge" && random.Intn(3) == 0 {
			data["a"] = nil
		}
		if (verb == "replace" || verb == "merge") && subresource != "scale" {
			// A merge patch replaces lists as a whole.
			body = union(body, r.base).(object)
		}
		requests = append(requests, request{verb, manager, subresource, body})
	}
	return requests
}

func pick[T any](random *rand.Rand, of ...T) T { return of[random.Intn(len(of))] }

// maybeSet sets a member of an object with a probability of 1/3.
func maybeSet(random *rand.Rand, of object, key string, value any) {
	if random.Intn(3) == 0 {
		of[key] = value
	}
}

// randomStrings returns an object with a random subset of the keys.
func randomStrings(random *rand.Rand, keys ...string) object {
	of := object{}
	for _, key := range keys {
		if random.Intn(2) == 0 {
			of[key] = pick(random, "1", "2")
		}
	}
	return of
}

// randomItems returns items for a random subset of the names, in random order.
func randomItems(random *rand.Rand, item func(string) any, names ...string) []any {
	list := []any{}
	for _, i := range random.Perm(len(names)) {
		if random.Intn(2) == 0 {
			list = append(list, item(names[i]))
		}
	}
	return list
}

func metadata(random *rand.Rand, of object) {
	metadata := object{}
	maybeSet(random, metadata, "labels", randomStrings(random, "l", "m"))
	maybeSet(random, metadata, "annotations", randomStrings(random, "n", "o"))
	maybeSet(random, metadata, "finalizers", randomItems(random, func(name string) any { return name }, "x/a", "x/b", "x/c"))
	maybeSet(random, metadata, "ownerReferences", randomItems(random, func(uid string) any {
		owner := object{"apiVersion": "v1", "kind": "Pod", "name": pick(random, "p", "q"), "uid": uid}
		maybeSet(random, owner, "controller", false)
		return owner
	}, "1", "2"))
	if len(metadata) > 0 {
		of["metadata"] = metadata
	}
}

func configMap(random *rand.Rand, _ string) object {
	of := object{}
	metadata(random, of)
	if random.Intn(4) > 0 {
		of["data"] = randomStrings(random, "a", "b", "c")
	}
	maybeSet(random, of, "binaryData", object{pick(random, "d", "e"): pick(random, "AQ==", "Ag==")})
	return of
}

// configMapWithLastApplied returns a ConfigMap that may have kubectl's last-applied-configuration annotation.
func configMapWithLastApplied(random *rand.Rand, subresource string) object {
	of := configMap(random, subresource)
	config := mergePatch(configMap(random, subresource), object{"apiVersion": pick(random, "v1", "v1", "v1", "v2"), "kind": "ConfigMap"})
	text, _ := json.Marshal(config)
	applied := pick(random, string(text), string(text), string(text), string(text), "{", "", "[]",
		`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":1}}`, `{"apiVersion":"v1","data":{"a":"1"}}`)
	if random.Intn(3) == 0 {
		annotations := object{"kubectl.kubernetes.io/last-applied-configuration": applied}
		of = mergePatch(of, object{"metadata": object{"annotations": annotations}}).(object)
	}
	return of
}

func account(random *rand.Rand, _ string) object {
	of := object{}
	metadata(random, of)
	maybeSet(random, of, "secrets", randomItems(random, func(name string) any {
		secret := object{"name": name}
		maybeSet(random, secret, "namespace", pick(random, "x", "y"))
		return secret
	}, "a", "b", "c"))
	maybeSet(random, of, "imagePullSecrets", randomItems(random, func(name string) any { return object{"name": name} }, "a", "b"))
	maybeSet(random, of, "automountServiceAccountToken", pick(random, true, false))
	return of
}

func condition(random *rand.Rand) func(string) any {
	return func(name string) any {
		return object{"type": name, "status": pick(random, "True", "False"), "reason": pick(random, "A", "B")}
	}
}

func node(random *rand.Rand, _ string) object {
	of, spec, status := object{}, object{}, object{}
	if random.Intn(2) == 0 {
		metadata(random, of)
	}
	maybeSet(random, spec, "unschedulable", true)
	maybeSet(random, spec, "taints", []any{object{"key": pick(random, "k", "l"), "effect": "NoSchedule"}})
	maybeSet(random, of, "spec", spec)
	maybeSet(random, status, "phase", pick(random, "Pending", "Running"))
	maybeSet(random, status, "conditions", randomItems(random, condition(random), "Ready", "Disk"))
	maybeSet(random, status, "images", []any{object{"names": []any{pick(random, "i", "j")}, "sizeBytes": 1}})
	maybeSet(random, status, "addresses", randomItems(random, func(name string) any {
		return object{"type": name, "address": pick(random, "a", "b")}
	}, "Hostname", "InternalIP"))
	if len(status) > 0 {
		of["status"] = status
	}
	return of
}

// template contains the required fields of a Deployment.
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

// podTemplate sets lists of all list types. A container always has the same image, because it is required.
func podTemplate(random *rand.Rand, _ string) object {
	spec := object{}
	containers := randomItems(random, func(name string) any { return container(random, name) }, "a", "b", "c")
	if len(containers) > 0 {
		spec["containers"] = containers
	}
	maybeSet(random, spec, "imagePullSecrets", randomItems(random, func(name string) any { return object{"name": name} }, "s", "t"))
	maybeSet(random, spec, "hostAliases", randomItems(random, func(ip string) any {
		return object{"ip": ip, "hostnames": randomItems(random, func(name string) any { return name }, "h", "i")}
	}, "10.0.0.1", "10.0.0.2"))
	maybeSet(random, spec, "nodeSelector", randomStrings(random, "n", "o"))
	maybeSet(random, spec, "tolerations", randomItems(random, func(key string) any {
		return object{"key": key, "operator": "Exists"}
	}, "k", "l"))
	of := object{"spec": object{"template": object{"spec": spec}}}
	if random.Intn(3) == 0 {
		of = mergePatch(of, object{"spec": object{"template": object{"metadata": object{"annotations": randomStrings(random, "n", "o")}}}}).(object)
	}
	return of
}

func container(random *rand.Rand, name string) object {
	of := object{"name": name, "image": map[string]string{"a": "i", "b": "i:1", "c": "i"}[name]}
	maybeSet(random, of, "args", randomItems(random, func(name string) any { return name }, "x", "y"))
	maybeSet(random, of, "env", randomItems(random, func(name string) any {
		return object{"name": name, "value": pick(random, "1", "2")}
	}, "A", "A", "B", "C"))
	maybeSet(random, of, "ports", randomItems(random, func(number string) any {
		port := object{"containerPort": 80 + int(number[0]-'0')}
		if protocol := pick(random, "TCP", "UDP", ""); protocol != "" {
			port["protocol"] = protocol
		}
		return port
	}, "0", "0", "1"))
	maybeSet(random, of, "volumeMounts", randomItems(random, func(path string) any {
		mount := object{"name": "v", "mountPath": path}
		maybeSet(random, mount, "readOnly", true)
		return mount
	}, "/a", "/b"))
	maybeSet(random, of, "resources", object{"limits": object{"cpu": pick(random, "1", "1000m", "2")}})
	return of
}

func deployment(random *rand.Rand, subresource string) object {
	of, spec, status := object{}, object{}, object{}
	if random.Intn(3) > 0 {
		spec["replicas"] = pick(random, 0, 1, 2, 3)
	}
	if subresource == "scale" {
		return object{"spec": spec}
	}
	if random.Intn(3) == 0 {
		metadata(random, of)
	}
	maybeSet(random, spec, "paused", pick(random, true, false))
	maybeSet(random, spec, "minReadySeconds", pick(random, 1, 2))
	of["spec"] = spec
	maybeSet(random, status, "unavailableReplicas", pick(random, 1, 2))
	maybeSet(random, status, "conditions", randomItems(random, condition(random), "Available", "Progressing"))
	maybeSet(random, of, "status", status)
	return of
}

// entries returns random managedFields that an update sends. Some are invalid.
func entries(random *rand.Rand, apiVersion string) []any {
	none := object{}
	sets := []any{
		object{"f:metadata": object{"f:labels": object{"f:l": none}}},
		object{"f:metadata": object{"f:finalizers": object{".": none, `v:"x/a"`: none}}},
		object{"f:metadata": object{"f:ownerReferences": object{`k:{"uid":"1"}`: object{".": none, "f:name": none}}}},
		object{"f:data": object{".": none, "f:a": none, "f:z": none}},
		none,
	}
	list := []any{}
	for range pick(random, 0, 1, 1, 1, 2, 3) {
		if random.Intn(8) == 0 {
			list = append(list, none)
			continue
		}
		entry := object{
			"manager": pick(random, "one", "two", "four", "five"), "operation": pick(random, "Apply", "Update"),
			"apiVersion": apiVersion, "fieldsType": "FieldsV1", "fieldsV1": pick(random, sets...),
		}
		switch random.Intn(16) {
		case 0:
			entry["apiVersion"] = pick(random, "v0", "other/v1", "")
		case 1:
			entry["operation"] = pick(random, "", "Create")
		case 2:
			entry["fieldsType"] = pick(random, "", "FieldsV2")
		case 3:
			entry["fieldsV1"] = pick[any](random, object{"data": none}, object{"f:data": 1}, object{"k:{}": none})
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

// mergePatch applies a merge patch (RFC 7386).
func mergePatch(base, patch any) any {
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
			result[key] = mergePatch(result[key], value)
		}
	}
	return result
}

// union merges two values. Lists are merged by the name of their items.
func union(base, more any) any {
	switch more := more.(type) {
	case object:
		result := object{}
		if base, ok := base.(object); ok {
			for key, value := range base {
				result[key] = value
			}
		}
		for key, value := range more {
			result[key] = union(result[key], value)
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
