package main

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// info is the part of a request that estimates depend on.
type info struct {
	Verb        string
	Group       string `json:",omitempty"`
	Resource    string `json:",omitempty"`
	Subresource string `json:",omitempty"`
	Namespace   string `json:",omitempty"`
	Name        string `json:",omitempty"`
}

func (i info) request() *apirequest.RequestInfo {
	return &apirequest.RequestInfo{
		IsResourceRequest: i.Resource != "", Verb: i.Verb, APIGroup: i.Group, APIVersion: "v1", Resource: i.Resource,
		Subresource: i.Subresource, Namespace: i.Namespace, Name: i.Name,
	}
}

// estimate is a request, what the server knows, and the seats that upstream estimates. The latency is in nanoseconds.
// `MaxSeats` is the limit of the priority level; zero is no limit. `Count` is `stale` or `unknown`, or empty if the
// number of objects and their average size are known.
type estimate struct {
	info
	Query    string `json:",omitempty"`
	MaxSeats uint64
	Count    string `json:",omitempty"`
	Objects  int64  `json:",omitempty"`
	Size     int64  `json:",omitempty"`
	Watches  int    `json:",omitempty"`
	Initial  uint64
	Final    uint64 `json:",omitempty"`
	Latency  int64  `json:",omitempty"`
}

func (e estimate) estimated() estimate {
	objects := func(string) (storage.Stats, error) {
		stats := storage.Stats{ObjectCount: e.Objects, EstimatedAverageObjectSizeBytes: e.Size}
		switch e.Count {
		case "stale":
			return stats, request.ObjectCountStaleErr
		case "unknown":
			return storage.Stats{}, request.ObjectCountNotFoundErr
		case "error":
			return storage.Stats{}, errors.New("error")
		}
		return stats, nil
	}
	watches := func(*apirequest.RequestInfo) int { return e.Watches }
	seats := func(string) uint64 { return e.MaxSeats }
	estimator := request.NewWorkEstimator(objects, watches, request.DefaultWorkEstimatorConfig(), seats)
	r := httptest.NewRequest("GET", "http://server/?"+e.Query, nil)
	r = r.WithContext(apirequest.WithRequestInfo(r.Context(), e.request()))
	answer := estimator.EstimateWork(r, "schema", "level")
	e.Initial, e.Final, e.Latency = answer.InitialSeats, answer.FinalSeats, answer.AdditionalLatency.Nanoseconds()
	return e
}

// presentEtcd has all features that kube-apiserver asks for.
type presentEtcd struct {
	etcdfeature.FeatureSupportChecker
}

func (presentEtcd) Supports(storage.Feature) bool { return true }

// workEstimates records estimates, a row of JSON each.
func workEstimates() []byte {
	// Without etcd's progress notifications, consistent lists do not come from the watch cache.
	etcdfeature.DefaultFeatureSupportChecker = presentEtcd{etcdfeature.DefaultFeatureSupportChecker}
	var rows []estimate
	add := func(e estimate) { rows = append(rows, e.estimated()) }
	list := info{Verb: "list", Group: "foo.bar", Resource: "events"}
	named := list
	named.Name = "a"
	queries := []string{
		"", "limit=1", "limit=100", "limit=399", "limit=500&continue=a", "continue=a", "resourceVersion=0", "resourceVersion=0&limit=50",
		"resourceVersion=1", "resourceVersion=1&limit=50", "resourceVersion=1&resourceVersionMatch=Exact",
		"resourceVersion=1&resourceVersionMatch=Exact&limit=399", "resourceVersion=1&resourceVersionMatch=NotOlderThan",
		"resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=10", "resourceVersionMatch=foo", "resourceVersionMatch=Exact",
		"resourceVersion=foo&resourceVersionMatch=Exact&limit=399", "resourceVersion=foo", "labelSelector=a%3Db", "labelSelector=a%3Db&limit=20",
		"fieldSelector=metadata.name%3Da", "fieldSelector=spec.nodeName%3Da&resourceVersion=0", "labelSelector=a&resourceVersion=1&resourceVersionMatch=Exact",
		"labelSelector=a&resourceVersion=1&resourceVersionMatch=Exact&limit=20", "limit=-1", "limit=a", "timeoutSeconds=a", "limit=0&resourceVersion=00",
		"labelSelector=)&resourceVersion=0", "unknown=1", "continue=a&resourceVersion=0", "continue=a&resourceVersion=1&limit=7",
		"resourceVersion=0&limit=a", "watch=x", "allowWatchBookmarks=3",
	}
	for _, query := range queries {
		for _, known := range [][2]int64{{0, 0}, {1, 0}, {79, 10_000}, {799, 10_000}, {5000, 900}, {100_000, 20_000}} {
			for _, seats := range []uint64{0, 10} {
				add(estimate{info: list, Query: query, MaxSeats: seats, Objects: known[0], Size: known[1]})
			}
		}
		add(estimate{info: named, Query: query, MaxSeats: 100, Objects: 700, Size: 150_001})
		add(estimate{info: list, Query: query, MaxSeats: 7, Count: "stale", Objects: 1, Size: 1})
		add(estimate{info: list, Query: query, MaxSeats: 200, Count: "stale", Objects: 1, Size: 1})
		add(estimate{info: list, Query: query, MaxSeats: 10, Count: "unknown"})
		add(estimate{info: list, Query: query, MaxSeats: 1, Count: "error"})
	}
	watch := info{Verb: "watch", Group: "foo.bar", Resource: "events"}
	for _, query := range append(queries,
		"sendInitialEvents=true", "sendInitialEvents=false", "sendInitialEvents=true&resourceVersion=1&resourceVersionMatch=NotOlderThan",
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "sendInitialEvents=false&resourceVersion=1",
		"sendInitialEvents=false&resourceVersion=0", "sendInitialEvents=x&resourceVersion=1", "sendInitialEvents=", "sendInitialEvents",
		"resourceVersion=12&timeoutSeconds=5",
	) {
		add(estimate{info: watch, Query: query, MaxSeats: 0, Objects: 79, Size: 10_000})
		add(estimate{info: watch, Query: query, MaxSeats: 4, Objects: 5000, Size: 10_000})
		add(estimate{info: watch, Query: query, MaxSeats: 0, Count: "unknown"})
	}
	for size := int64(1); size <= 3_000_000; size = size*3 + 7 {
		for _, objects := range []int64{1, 3, 50, 1234} {
			for _, query := range []string{"", "limit=3", "resourceVersion=1&resourceVersionMatch=Exact", "labelSelector=a&limit=3&resourceVersion=1&resourceVersionMatch=Exact"} {
				add(estimate{info: list, Query: query, Objects: objects, Size: size})
			}
		}
	}
	for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection", "get", "connect", "proxy", "bind", ""} {
		for _, watches := range []int{0, 1, 9, 10, 11, 19, 20, 25, 50, 99, 100, 101, 120, 1000, 12345} {
			for _, seats := range []uint64{0, 1, 3, 10, 25} {
				if seats != 0 && verb != "create" && verb != "patch" {
					continue
				}
				add(estimate{info: info{Verb: verb, Group: "foo.bar", Resource: "foos", Namespace: "n", Name: "a"}, MaxSeats: seats, Watches: watches})
			}
		}
	}
	for _, subresource := range []string{"token", "status", ""} {
		for _, resource := range []string{"serviceaccounts", "pods"} {
			add(estimate{info: info{Verb: "create", Resource: resource, Subresource: subresource, Namespace: "n", Name: "a"}, Watches: 5000})
		}
	}
	add(estimate{info: info{Verb: "get"}, Watches: 5000})
	add(estimate{info: info{Verb: "post"}, Watches: 5000})
	return jsonLines(rows)
}

// watchCount is a request and the number of registered watches that it interests.
type watchCount struct {
	// Watch is set in a row that registers a watch, and Forget in a row that ends the watch of the row with this number.
	Watch   *info  `json:",omitempty"`
	Query   string `json:",omitempty"`
	Forget  *int   `json:",omitempty"`
	Request *info  `json:",omitempty"`
	Count   int
}

// watchCounts records the answers of a watch tracker, a row of JSON for each operation.
func watchCounts() []byte {
	tracker := flowcontrol.NewWatchTracker()
	var rows []watchCount
	forget := map[int]flowcontrol.ForgetWatchFunc{}
	watch := func(query string, i info) {
		i.Verb = "watch"
		r := httptest.NewRequest("GET", "http://server/?"+query, nil)
		r = r.WithContext(apirequest.WithRequestInfo(r.Context(), i.request()))
		forget[len(rows)] = tracker.RegisterWatch(r)
		rows = append(rows, watchCount{Watch: &i, Query: query})
	}
	ask := func() {
		for _, verb := range []string{"create", "delete", "list", "get", "watch", "proxy", "deletecollection"} {
			for _, request := range []info{
				{Resource: "pods"}, {Resource: "pods", Namespace: "a"}, {Resource: "pods", Namespace: "a", Name: "x"},
				{Resource: "pods", Namespace: "b", Name: "x"}, {Resource: "nodes", Name: "x"}, {Resource: "nodes"},
				{Group: "foo", Resource: "pods", Namespace: "a"}, {Resource: "pods", Namespace: "a", Name: "x", Subresource: "status"},
				{Resource: "secrets", Namespace: "a", Name: "x"}, {Resource: "secrets", Namespace: "a"},
			} {
				if verb != "create" && verb != "delete" && request.Name == "" {
					continue
				}
				request.Verb = verb
				rows = append(rows, watchCount{Request: &request, Count: tracker.GetInterestedWatchCount(request.request())})
			}
		}
	}
	ask()
	for _, i := range []info{
		{Resource: "pods"}, {Resource: "pods", Namespace: "a"}, {Resource: "pods", Namespace: "a", Name: "x"},
		{Resource: "nodes"}, {Resource: "nodes", Name: "x"}, {Group: "foo", Resource: "pods"}, {Resource: "secrets", Namespace: "a", Name: "x"},
		{Resource: "secrets"}, {Resource: "pods", Namespace: "b"},
	} {
		watch("", i)
	}
	ask()
	for _, query := range []string{
		"fieldSelector=spec.nodeName%3Da", "fieldSelector=spec.nodeName%3D", "fieldSelector=spec.nodeName!%3Da", "fieldSelector=status.phase%3DRunning",
		"fieldSelector=spec.nodeName%3Da,status.phase%3DRunning", "fieldSelector=%2C%2C%3D", "labelSelector=a", "labelSelector=%29", "limit=a",
	} {
		watch(query, info{Resource: "pods"})
		watch(query, info{Resource: "nodes"})
		for _, resource := range []string{"pods", "nodes"} {
			request := info{Verb: "update", Resource: resource, Namespace: strings.Repeat("n", len(resource)%2)}
			rows = append(rows, watchCount{Request: &request, Count: tracker.GetInterestedWatchCount(request.request())})
		}
	}
	for number := 0; number < len(rows); number++ {
		if end := forget[number]; end != nil {
			end()
			rows = append(rows, watchCount{Forget: &number})
			for _, resource := range []string{"pods", "nodes"} {
				request := info{Verb: "create", Resource: resource, Namespace: "a"}
				rows = append(rows, watchCount{Request: &request, Count: tracker.GetInterestedWatchCount(request.request())})
			}
		}
	}
	for number := range rows {
		if rows[number].Forget != nil && forget[*rows[number].Forget] == nil {
			panic(fmt.Sprint("no watch ", number))
		}
	}
	return jsonLines(rows)
}
