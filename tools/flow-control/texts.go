package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	api "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	"k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/ptr"
)

// metricText is a metric. The help has the stability. Buckets are the finite upper bounds of a histogram.
type metricText struct {
	Name, Help, Type string
	Labels           []string
	Buckets          []float64 `json:",omitempty"`
}

// metricTexts records the metrics of API Priority and Fairness, a row of JSON each.
func metricTexts() []byte {
	ctx := context.Background()
	clock := newClock()
	controller := newController(clock, queueset.NewQueueSetFactory(clock), 600)
	controller.digest(nil, nil)
	controller.adjust()
	for _, gauge := range []func() metrics.RatioedGauge{metrics.GetWaitingReadonlyConcurrency, metrics.GetExecutingMutatingConcurrency} {
		gauge().Set(1)
	}
	metrics.AddRequestsInQueues(ctx, "level", "schema", 1)
	metrics.AddSeatsInQueues(ctx, "level", "schema", 1)
	metrics.AddRequestsExecuting(ctx, "level", "schema", 1)
	metrics.SetCurrentR("level", 1)
	metrics.SetDispatchMetrics("level", 1, 1, 1, 1, 1, 1)
	metrics.AddSeatConcurrencyInUse("level", "schema", 1)
	metrics.AddReject(ctx, "level", "schema", "time-out")
	metrics.AddDispatch(ctx, "level", "schema")
	metrics.ObserveQueueLength(ctx, "level", "schema", 1)
	metrics.ObserveWaitingDuration(ctx, "level", "schema", "true", time.Second)
	metrics.ObserveExecutionDuration(ctx, "level", "schema", time.Second)
	metrics.ObserveWatchCount(ctx, "level", "schema", 1)
	metrics.AddEpochAdvance(ctx, "level", true)
	metrics.ObserveWorkEstimatedSeats("level", "schema", 1)
	metrics.AddDispatchWithNoAccommodation("level", "schema")
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		panic(err)
	}
	var rows []metricText
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "apiserver_flowcontrol_") {
			continue
		}
		row := metricText{family.GetName(), family.GetHelp(), strings.ToLower(family.GetType().String()), []string{}, nil}
		for _, label := range family.Metric[0].Label {
			row.Labels = append(row.Labels, label.GetName())
		}
		if histogram := family.Metric[0].Histogram; histogram != nil {
			for _, bucket := range histogram.Bucket {
				row.Buckets = append(row.Buckets, bucket.GetUpperBound())
			}
		}
		rows = append(rows, row)
	}
	return jsonLines(rows)
}

// dumped is a state of a controller and its dumps. The lines of a dump are sorted after the first one, because their
// order is partly random; the padding is upstream's.
type dumped struct {
	Server   int
	Levels   []*api.PriorityLevelConfiguration
	Schemas  []*api.FlowSchema
	Requests []dumpedRequest
	// Now is the time of the dumps in nanoseconds after the start.
	Start string
	Now   int64
	// Dumps are the texts by path and query.
	Dumps map[string][]string
}

// dumpedRequest arrives `At` nanoseconds after the start, and if it executes then it ends after `Execute` nanoseconds.
// It never ends if that is zero. If `Cancel` is not zero then its context ends after that time.
type dumpedRequest struct {
	At, Execute, Cancel int64
	digest
	Initial, Final uint64
	Latency        int64
}

// dumps records the debugging dumps of a state with requests that wait and execute.
func dumps() []byte {
	metrics.Reset()
	clock := newClock()
	controller := newController(clock, queueset.NewQueueSetFactory(clock), 20)
	state := dumped{
		Server: 20, Start: start.Format(time.RFC3339Nano), Now: int64(2 * time.Second), Dumps: map[string][]string{},
		Levels: []*api.PriorityLevelConfiguration{
			limited("queued", 10, &api.QueuingConfiguration{Queues: 4, HandSize: 2, QueueLengthLimit: 3}),
			limited("small", 1, &api.QueuingConfiguration{Queues: 2, HandSize: 1, QueueLengthLimit: 10}),
			lending("idle", 5, 50, ptr.To(int32(100)), &api.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: 10}),
		},
		Schemas: append([]*api.FlowSchema{
			schema("by-user", "queued", 100, api.FlowDistinguisherMethodByUserType, everything(userSubject("jane"), userSubject("bob"))),
			schema("by-namespace", "small", 200, api.FlowDistinguisherMethodByNamespaceType, everything(userSubject("eve"))),
		}, bootstrap.MandatoryFlowSchemas...),
	}
	state.Levels = append(state.Levels, bootstrap.MandatoryPriorityLevelConfigurations...)
	groups := []string{"system:authenticated"}
	second := int64(time.Second)
	add := func(r dumpedRequest) {
		if r.Groups == nil {
			r.Groups = groups
		}
		if r.Initial == 0 {
			r.Initial = 1
		}
		r.At = int64(len(state.Requests)+1) * 1_000_000
		state.Requests = append(state.Requests, r)
	}
	for i := range 20 {
		r := dumpedRequest{digest: digest{User: "jane", info: info{Verb: "list", Resource: "pods", Namespace: "a"}}}
		if i%3 == 1 {
			r.User, r.Initial = "bob", 2
		}
		if i == 2 {
			r.Execute = second / 2
		}
		if i == 14 {
			r.Cancel = second / 2
		}
		add(r)
	}
	for i := range 5 {
		r := dumpedRequest{digest: digest{User: "eve", info: info{Verb: "update", Group: "apps", Resource: "deployments", Namespace: "a", Name: "x", Subresource: "scale"}}}
		if i > 2 {
			r.digest.info, r.Path, r.Final, r.Latency = info{Verb: "get"}, "/metrics", 2, 5_000_000
		}
		add(r)
	}
	add(dumpedRequest{digest: digest{User: "admin", Groups: []string{"system:masters"}, info: info{Verb: "get", Resource: "nodes", Name: "a"}}})
	add(dumpedRequest{digest: digest{User: "someone", info: info{Verb: "watch", Resource: "secrets"}}, Final: 3, Latency: 1_500_000_000})
	add(dumpedRequest{digest: digest{User: "someone", info: info{Verb: "watch", Resource: "secrets"}}, Execute: second / 4})
	controller.digest(state.Levels, state.Schemas)
	for _, r := range state.Requests {
		clock.at(start.Add(time.Duration(r.At)), func() { handleForever(controller, clock, r) })
	}
	now := start.Add(time.Duration(state.Now))
	clock.runUntil(&now)
	// Requests that were dispatched from a queue count themselves.
	time.Sleep(200 * time.Millisecond)

	paths := mux.NewPathRecorderMux("recorder")
	controller.Install(paths)
	for _, name := range []string{"dump_priority_levels", "dump_queues", "dump_requests", "dump_requests?includeRequestDetails=1"} {
		answer := httptest.NewRecorder()
		paths.ServeHTTP(answer, httptest.NewRequest("GET", "/debug/api_priority_and_fairness/"+name, nil))
		lines := strings.Split(strings.TrimSuffix(answer.Body.String(), "\n"), "\n")
		sort.Strings(lines[1:])
		state.Dumps[name] = lines
	}
	text, err := json.MarshalIndent(state, "", " ")
	if err != nil {
		panic(err)
	}
	return append(text, '\n')
}

// handleForever handles a request, and returns when it waits, executes or ends.
func handleForever(c *controller, clock *simulatedClock, r dumpedRequest) {
	ctx, cancel := context.WithCancel(apirequest.WithRequestInfo(apirequest.WithUser(context.Background(), r.upstream().User), r.upstream().RequestInfo))
	settled, finish, ended := make(chan struct{}, 4), make(chan struct{}), make(chan struct{})
	var waiting atomic.Bool
	go func() {
		c.Handle(ctx, r.upstream(), func(*api.FlowSchema, *api.PriorityLevelConfiguration, string) {},
			func() request.WorkEstimate {
				return request.WorkEstimate{InitialSeats: r.Initial, FinalSeats: r.Final, AdditionalLatency: time.Duration(r.Latency)}
			},
			waiting.Store,
			func() {
				settled <- struct{}{}
				<-finish
			})
		close(ended)
	}()
	// A request that waits gives no sign. Time stands still in the simulation, so this cannot change its result.
	select {
	case <-settled:
		if r.Execute > 0 {
			clock.after(time.Duration(r.Execute), func() {
				close(finish)
				<-ended
			})
		}
	case <-ended:
	case <-time.After(200 * time.Millisecond):
		if !waiting.Load() {
			panic("a request neither waits nor executes")
		}
	}
	if r.Cancel == 0 {
		context.AfterFunc(ctx, cancel)
	} else {
		clock.after(time.Duration(r.Cancel), func() {
			cancel()
			<-ended
		})
	}
}
