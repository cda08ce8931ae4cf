package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// An objectTable has the errors of the variants of an object: in each one value is changed.
type objectTable struct {
	Package  string       `json:"package"`
	Type     string       `json:"type"`
	Object   any          `json:"object"`
	Update   bool         `json:"update,omitempty"`
	Disabled bool         `json:"disabled,omitempty"`
	Cases    []objectCase `json:"cases"`
}

// An objectCase is a change of the object: another value at the path, no value, or the items of the list repeated.
type objectCase struct {
	At     []string `json:"at,omitempty"`
	Value  any      `json:"value,omitempty"`
	Repeat int      `json:"repeat,omitempty"`
	Beta   []string `json:"beta,omitempty"`
	Stable []string `json:"stable,omitempty"`
}

// The options of the tags of both packages.
var options = []string{"CompositePodGroup", "DRAPartitionableDevicesType", "PodGroupPreemptionPolicy", "TopologyAwareWorkloadScheduling"}

const (
	request = `"deviceClassName":"c","selectors":[{"cel":{"expression":"true"}}],"allocationMode":"ExactCount","count":1,` +
		`"tolerations":[{"key":"a/b","operator":"Exists","effect":"NoExecute"}],"derivedAttributes":[{"name":"a.b/c","expression":"1"}]`
	opaque = `"opaque":{"driver":"d.example.com","parameters":{"a":1}}`
	slice  = `{"driver":"d.example.com","pool":{"name":"p","generation":1,"resourceSliceCount":1},"partitionTypeAttribute":"a.b/c",` +
		`"skipNodeOperations":["NodePrepareResources"],"sharedCounters":[{"name":"s","counters":{"k":{"value":"1"}}}],` +
		`"devices":[{"name":"d","attributes":{"a":{"int":1}},"consumesCounters":[{"counterSet":"s","counters":{"k":{"value":"1"}}}],` +
		`"taints":[{"key":"k","effect":"NoSchedule"}],"bindingConditions":["b"],"bindingFailureConditions":["f"],` +
		`"nodeAllocatableResources":{"cpu":{"mapping":{"deviceMultiplier":"1"},"overhead":{"perPod":"1"}}}}]}`
	claim = `{"devices":{"requests":[{"name":"r","exactly":{` + request + `}},{"name":"q","firstAvailable":[{"name":"f",` + request + `}]}],` +
		`"constraints":[{"requests":["r"],"matchAttribute":"a.b/c","distinctAttribute":"a.b/d"}],"config":[{"requests":["r"],` + opaque + `}]}}`
	status = `{"allocation":{"devices":{"results":[{"request":"r","driver":"d.example.com","pool":"p","device":"d",` +
		`"tolerations":[{"key":"a/b","operator":"Exists","effect":"NoExecute"}],"bindingConditions":["b"],"bindingFailureConditions":["f"],` +
		`"shareID":"01234567-89ab-cdef-0123-456789abcdef","skipNodeOperations":["*"]}],` +
		`"config":[{"source":"FromClaim","requests":["r"],` + opaque + `}]}},"reservedFor":[{"resource":"pods","name":"n","uid":"u"}],` +
		`"devices":[{"driver":"d.example.com","pool":"p","device":"d","shareID":"01234567-89ab-cdef-0123-456789abcdef",` +
		`"networkData":{"interfaceName":"i","ips":["10.0.0.1/8"],"hardwareAddress":"h"}}]}`
	class = `{"selectors":[{"cel":{"expression":"true"}}],"config":[{` + opaque + `}],"extendedResourceName":"a.b/c"}`

	constraints = `"schedulingConstraints":{"topology":[{"key":"a/b"}]}`
	disruption  = `"disruptionMode":{"single":{}}`
	priorities  = `"priorityClassName":"c","priority":1,"preemptionPolicy":"Never"`
	claims      = `"resourceClaims":[{"name":"c","resourceClaimName":"c"}]`
	template    = `{"name":"t","schedulingPolicy":{"gang":{"minCount":1}},` + constraints + `,` + claims + `,` + disruption + `,` + priorities + `}`
	composite   = `"schedulingPolicy":{"gang":{"minGroupCount":1}},` + constraints + `,` + disruption + `,` + priorities
	group       = `{"spec":{"parentCompositePodGroupName":"p","workloadRef":{"workloadName":"w","templateName":"t"},` +
		`"schedulingPolicy":{"gang":{"minCount":1}},` + constraints + `,` + claims + `,` + disruption + `,` + priorities + `},` +
		`"status":{"resourceClaimStatuses":[{"name":"c","resourceClaimName":"c"}]}}`
	compositeGroup = `{"spec":{"parentCompositePodGroupName":"p","workloadRef":{"workloadName":"w","templateName":"t"},` + composite + `}}`
	workload       = `{"spec":{"controllerRef":{"apiGroup":"a.b","kind":"k","name":"n"},"podGroupTemplates":[` + template + `]}}`
	workloads      = `{"spec":{"compositePodGroupTemplates":[{"name":"t",` + composite + `,"podGroupTemplates":[` + template + `],` +
		`"compositePodGroupTemplates":[{"name":"u",` + composite + `}]}]}}`
)

type generated[T any] func(context.Context, operation.Operation, *field.Path, *T, *T) field.ErrorList

// objects records the errors of the generated functions that k8s.io/api has.
func objects() {
	object("resource/v1", "ResourceSliceSpec", slice, resourcev1.Validate_ResourceSliceSpec)
	object("resource/v1", "ResourceClaimSpec", claim, resourcev1.Validate_ResourceClaimSpec)
	object("resource/v1", "ResourceClaimStatus", status, resourcev1.Validate_ResourceClaimStatus)
	object("resource/v1", "DeviceClassSpec", class, resourcev1.Validate_DeviceClassSpec)
	object("scheduling/v1alpha3", "PodGroup", group, schedulingv1alpha3.Validate_PodGroup)
	object("scheduling/v1alpha3", "CompositePodGroup", compositeGroup, schedulingv1alpha3.Validate_CompositePodGroup)
	object("scheduling/v1alpha3", "Workload", workload, schedulingv1alpha3.Validate_Workload)
	object("scheduling/v1alpha3", "Workload", workloads, schedulingv1alpha3.Validate_Workload)
}

// object records creates and updates of the variants of an object, and creates without the options.
func object[T any](pkg, name, text string, call generated[T]) {
	var top any
	must(json.Unmarshal([]byte(text), &top))
	changes := append([]objectCase{{}}, variants(top, nil)...)
	for _, t := range []objectTable{{}, {Update: true}, {Disabled: true}} {
		t.Package, t.Type, t.Object = pkg, name, top
		op := operation.Operation{Type: operation.Create, Options: map[string]bool{}}
		for _, option := range options {
			op.Options[option] = !t.Disabled
		}
		var old *T
		if t.Update {
			op.Type, old = operation.Update, typed[T](top)
		}
		for _, change := range changes {
			errs := call(ctx, op, nil, typed[T](changed(top, change.At, change)), old)
			for _, err := range validate.FilterEnforcedDeclarativeErrors(ctx, errs, true) {
				if err.IsBeta() {
					change.Beta = append(change.Beta, err.Error())
				} else {
					change.Stable = append(change.Stable, err.Error())
				}
			}
			t.Cases = append(t.Cases, change)
		}
		line, err := json.Marshal(t)
		must(err)
		fmt.Fprintf(out, "%s\n", line)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func typed[T any](value any) *T {
	text, err := json.Marshal(value)
	must(err)
	object := new(T)
	must(json.Unmarshal(text, object))
	return object
}

// variants returns the changes of a tree.
func variants(value any, at []string) (list []objectCase) {
	add := func(c objectCase) {
		c.At = slices.Clone(at)
		list = append(list, c)
	}
	if len(at) > 0 {
		if _, err := strconv.Atoi(at[len(at)-1]); err != nil {
			add(objectCase{})
		}
	}
	switch value := value.(type) {
	case map[string]any:
		var keys []string
		for key := range value {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		for _, key := range keys {
			list = append(list, variants(value[key], append(slices.Clone(at), key))...)
		}
	case []any:
		add(objectCase{Repeat: 2})
		add(objectCase{Repeat: 33})
		for i := range value {
			list = append(list, variants(value[i], append(slices.Clone(at), strconv.Itoa(i)))...)
		}
	case string:
		if _, err := strconv.Atoi(value); err != nil {
			for _, other := range []string{"", "a.b/d", "UPPER_", "-", "kubernetes.io/x"} {
				add(objectCase{Value: other})
			}
		}
	case float64:
		for _, other := range []float64{0, -1, 2, 2000000000} {
			add(objectCase{Value: other})
		}
	}
	return list
}

// changed returns a tree with a change.
func changed(value any, at []string, change objectCase) any {
	if len(change.At) == 0 {
		return value
	}
	if len(at) == 0 {
		if list, ok := value.([]any); ok && change.Repeat > 0 {
			return slices.Repeat(list, change.Repeat)
		}
		return change.Value
	}
	switch value := value.(type) {
	case map[string]any:
		other := map[string]any{}
		for key, inner := range value {
			other[key] = inner
		}
		if other[at[0]] = changed(value[at[0]], at[1:], change); other[at[0]] == nil {
			delete(other, at[0])
		}
		return other
	case []any:
		i, err := strconv.Atoi(at[0])
		must(err)
		other := slices.Clone(value)
		other[i] = changed(value[i], at[1:], change)
		return other
	}
	return value
}
