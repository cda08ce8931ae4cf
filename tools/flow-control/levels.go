package main

import (
	"context"
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"time"
	"unsafe"

	api "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/util/flowcontrol/debug"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	"k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/utils/ptr"
)

// levelScenario is a server with a limit of seats, and what happens to its priority levels.
type levelScenario struct {
	Name   string
	Server int
	Steps  []levelStep
}

// levelStep happens `After` nanoseconds after the step before. The priority levels change to `Levels`, or the demands of
// seats change to `Demands`, or the limits are adjusted. `Busy` names the levels that have requests from now on.
// `Limits` are the limits of all levels after a change or an adjustment, and `FairFrac` is the metric of this name,
// rounded to nine digits.
type levelStep struct {
	After    int64                             `json:",omitempty"`
	Levels   []*api.PriorityLevelConfiguration `json:",omitempty"`
	Demands  map[string]float64                `json:",omitempty"`
	Busy     []string                          `json:",omitempty"`
	Adjust   bool                              `json:",omitempty"`
	FairFrac float64                           `json:",omitempty"`
	Limits   map[string]levelLimits            `json:",omitempty"`
}

// levelLimits are the limits of a level and the moments of its demand since the adjustment before: nominal, lower, upper
// and current limit, denominator of ratios, maximum of a request's seats (0 without queues), high watermark, average,
// deviation, smoothed demand, target. The target of the exempt level is null, because upstream shows the target of any
// other level there.
type levelLimits [11]any

// fakeQueueSets makes queue sets without requests. Their demands are set by a scenario.
type fakeQueueSets struct {
	sets map[string]*fakeQueueSet
}

type fakeQueueSet struct {
	queuing     fq.QueuingConfig
	dispatching fq.DispatchingConfig
	demand      metrics.Gauge
	busy        bool
}

type fakeCompleter struct {
	factory *fakeQueueSets
	set     *fakeQueueSet
	queuing fq.QueuingConfig
}

func (f *fakeQueueSets) BeginConstruction(q fq.QueuingConfig, _ metrics.RatioedGaugePair, _ metrics.RatioedGauge, demand metrics.Gauge) (fq.QueueSetCompleter, error) {
	return fakeCompleter{f, &fakeQueueSet{demand: demand}, q}, nil
}

func (c fakeCompleter) Complete(d fq.DispatchingConfig) fq.QueueSet {
	c.set.queuing, c.set.dispatching = c.queuing, d
	if c.factory != nil {
		c.factory.sets[c.queuing.Name] = c.set
	}
	return c.set
}

func (s *fakeQueueSet) BeginConfigChange(q fq.QueuingConfig) (fq.QueueSetCompleter, error) {
	return fakeCompleter{nil, s, q}, nil
}

func (s *fakeQueueSet) IsIdle() bool                 { return !s.busy }
func (s *fakeQueueSet) Dump(bool) debug.QueueSetDump { return debug.QueueSetDump{} }
func (s *fakeQueueSet) StartRequest(context.Context, *request.WorkEstimate, uint64, string, string, any, any, fq.QueueNoteFn) (fq.Request, bool) {
	panic("no requests")
}

// limits reads the limits of all levels that the controller has.
func (c *controller) limits(sets *fakeQueueSets) map[string]levelLimits {
	values := gauges()
	limits := map[string]levelLimits{}
	// Metrics keep levels that are gone.
	for _, key := range reflect.ValueOf(c.Interface).Elem().FieldByName("priorityLevelStates").MapKeys() {
		level := key.String()
		set := sets.sets[level]
		of := func(name string) float64 { return values[name][level] }
		row := levelLimits{
			of("nominal_limit_seats"), of("lower_limit_seats"), of("upper_limit_seats"), of("current_limit_seats"),
			set.dispatching.ConcurrencyDenominator, c.GetMaxSeats(level), of("demand_seats_high_watermark"),
			of("demand_seats_average"), of("demand_seats_stdev"), of("demand_seats_smoothed"), nil,
		}
		if row[3] != float64(set.dispatching.ConcurrencyLimit) {
			panic("the limit of a queue set is not in the metrics")
		}
		if set.queuing.DesiredNumQueues >= 0 {
			row[10] = of("target_seats")
		}
		limits[level] = row
	}
	return limits
}

func (s levelScenario) answered() levelScenario {
	// The order in which the controller visits the levels is random. An answer that depends on it is not recorded.
	var answers []levelScenario
	for range 5 {
		metrics.Reset()
		clock := newClock()
		sets := &fakeQueueSets{map[string]*fakeQueueSet{}}
		controller := newController(clock, sets, s.Server)
		answer := levelScenario{s.Name, s.Server, nil}
		for _, step := range s.Steps {
			clock.now = clock.now.Add(time.Duration(step.After))
			for level, seats := range step.Demands {
				sets.sets[level].demand.Set(seats)
			}
			if step.Busy != nil {
				for name, set := range sets.sets {
					set.busy = false
					for _, busy := range step.Busy {
						set.busy = set.busy || name == busy
					}
				}
			}
			switch {
			case step.Levels != nil:
				controller.digest(step.Levels, nil)
			case step.Adjust:
				controller.adjust()
			}
			if step.Levels != nil || step.Adjust {
				step.Limits = controller.limits(sets)
				// The last digits depend on the order of the levels.
				step.FairFrac = math.Round(gauges()["seat_fair_frac"][""]*1e9) / 1e9
			}
			answer.Steps = append(answer.Steps, step)
		}
		answers = append(answers, answer)
	}
	for _, answer := range answers {
		for number, step := range answer.Steps {
			for level, limits := range step.Limits {
				other := answers[0].Steps[number].Limits[level]
				if limits[3] != other[3] {
					panic(fmt.Sprintf("%s: the limit of %s depends on the order of the levels", s.Name, level))
				}
			}
		}
	}
	return answers[0]
}

func lending(name string, shares, lendable int32, borrowing *int32, queuing *api.QueuingConfiguration) *api.PriorityLevelConfiguration {
	level := limited(name, shares, queuing)
	level.Spec.Limited.LendablePercent = &lendable
	level.Spec.Limited.BorrowingLimitPercent = borrowing
	return level
}

func exempt(shares, lendable *int32) *api.PriorityLevelConfiguration {
	return &api.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "exempt"},
		Spec: api.PriorityLevelConfigurationSpec{
			Type: api.PriorityLevelEnablementExempt, Exempt: &api.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: shares, LendablePercent: lendable},
		},
	}
}

const period = int64(10 * time.Second)

// levels records the limits of priority levels, a row of JSON for each scenario.
func levels() []byte {
	type demands = map[string]float64
	change := func(levels ...*api.PriorityLevelConfiguration) levelStep { return levelStep{Levels: levels} }
	demand := func(after int64, d demands) levelStep { return levelStep{After: after, Demands: d} }
	adjust := func(after int64) levelStep { return levelStep{After: after, Adjust: true} }
	all := append(append([]*api.PriorityLevelConfiguration{}, bootstrap.MandatoryPriorityLevelConfigurations...), bootstrap.SuggestedPriorityLevelConfigurations...)
	var rows []levelScenario
	for _, server := range []int{1, 59, 100, 600, 3000} {
		rows = append(rows, levelScenario{fmt.Sprintf("bootstrap, %d", server), server, []levelStep{
			change(all...), adjust(0), demand(0, demands{"workload-low": 1000, "exempt": 3}), adjust(period), adjust(period),
			demand(period/2, demands{"workload-low": 0, "global-default": 50, "catch-all": 20}), adjust(period / 2), adjust(period),
			demand(0, demands{"workload-low": 20, "workload-high": 500, "leader-election": 4, "system": 7}), adjust(period), adjust(period),
			demand(0, demands{"exempt": 900}), adjust(period), demand(0, demands{"exempt": 2}), adjust(period), adjust(period),
		}}.answered())
	}
	rows = append(rows,
		levelScenario{"no objects", 600, []levelStep{{Levels: []*api.PriorityLevelConfiguration{}}, adjust(period), demand(0, demands{"catch-all": 700, "exempt": 5}), adjust(period), adjust(period)}}.answered(),
		levelScenario{"borrowing", 100, []levelStep{
			change(lending("a", 30, 50, ptr.To(int32(100)), nil), lending("b", 30, 90, ptr.To(int32(0)), nil), lending("c", 30, 0, nil, nil)),
			demand(0, demands{"a": 60}), adjust(period), demand(0, demands{"b": 60}), adjust(period), demand(0, demands{"c": 60}), adjust(period),
			demand(0, demands{"a": 0}), adjust(period), demand(0, demands{"b": 0}), adjust(period), adjust(period), adjust(period),
		}}.answered(),
		levelScenario{"levels come and go", 200, []levelStep{
			change(lending("a", 10, 50, nil, nil), exempt(ptr.To(int32(10)), ptr.To(int32(50)))), demand(0, demands{"a": 40, "exempt": 3}), adjust(period),
			change(lending("a", 10, 50, nil, nil), lending("b", 20, 100, ptr.To(int32(50)), nil)), demand(0, demands{"b": 10}), adjust(period),
			{Busy: []string{"b"}}, change(lending("a", 40, 20, nil, nil)), adjust(period), demand(period/3, demands{"b": 0}), {Busy: []string{}},
			change(lending("a", 40, 20, nil, nil)), adjust(period),
			change(lending("b", 20, 0, nil, nil), exempt(nil, nil)), adjust(period), demand(1, demands{"b": 3}), adjust(period - 1),
		}}.answered(),
		levelScenario{"zero shares", 50, []levelStep{
			change(lending("a", 0, 0, nil, nil), lending("b", 5, 100, nil, nil)), demand(0, demands{"a": 10, "b": 1}), adjust(period), adjust(period),
			demand(0, demands{"b": 200}), adjust(period), demand(0, demands{"b": 0, "a": 0}), adjust(period), adjust(period),
		}}.answered(),
		levelScenario{"adjustments without time", 50, []levelStep{
			change(lending("a", 5, 50, nil, nil)), demand(0, demands{"a": 10}), adjust(0), demand(0, demands{"a": 30}), adjust(0), adjust(period), adjust(0),
		}}.answered(),
		levelScenario{"upper limits below the sum", 100, []levelStep{
			change(exempt(ptr.To(int32(50)), nil), lending("a", 20, 60, ptr.To(int32(0)), nil), lending("catch-all", 5, 0, ptr.To(int32(0)), nil)),
			demand(0, demands{"a": 5}), adjust(period), demand(0, demands{"a": 50, "exempt": 20}), adjust(period), adjust(period),
		}}.answered(),
		levelScenario{"short peaks", 50, []levelStep{
			change(lending("a", 5, 50, nil, nil), lending("b", 20, 80, nil, nil)), demand(0, demands{"a": 100}), demand(1_000_000, demands{"a": 0}), adjust(period),
			demand(7, demands{"a": 33}), demand(3_333_333, demands{"a": 0, "b": 12}), demand(12_345, demands{"b": 1}), adjust(period), adjust(period), adjust(period),
		}}.answered(),
	)
	for _, queuing := range []api.QueuingConfiguration{{Queues: 64, HandSize: 6, QueueLengthLimit: 50}, {Queues: 1, HandSize: 1, QueueLengthLimit: 1}, {Queues: 128, HandSize: 8, QueueLengthLimit: 100}} {
		for _, server := range []int{1, 20, 200, 700} {
			rows = append(rows, levelScenario{fmt.Sprintf("seats, hand size %d, server %d", queuing.HandSize, server), server, []levelStep{
				change(lending("a", 10, 0, nil, &queuing), lending("b", 25, 30, nil, &queuing)), change(lending("a", 10, 0, nil, &queuing), lending("b", 25, 30, nil, nil)),
			}}.answered())
		}
	}
	for seed := int64(1); seed <= 25; seed++ {
		rows = append(rows, randomLevels(seed).answered())
	}
	return jsonLines(rows)
}

func randomLevels(seed int64) levelScenario {
	random := rand.New(rand.NewSource(seed))
	s := levelScenario{Name: fmt.Sprintf("random %d", seed), Server: 1 + random.Intn(1000)}
	names := []string{"a", "b", "c", "d", "e"}
	present := map[string]bool{}
	change := func() {
		var step levelStep
		present = map[string]bool{"exempt": true, "catch-all": true}
		for _, name := range names {
			if random.Intn(4) == 0 && len(step.Levels) > 0 {
				continue
			}
			present[name] = true
			var borrowing *int32
			if random.Intn(2) == 0 {
				borrowing = ptr.To(int32(random.Intn(300)))
			}
			step.Levels = append(step.Levels, lending(name, int32(random.Intn(60)), int32(random.Intn(101)), borrowing, nil))
		}
		if random.Intn(2) == 0 {
			step.Levels = append(step.Levels, exempt(ptr.To(int32(random.Intn(20))), ptr.To(int32(random.Intn(101)))))
		}
		step.After = random.Int63n(period)
		s.Steps = append(s.Steps, step)
	}
	change()
	for range 8 {
		left := period
		for range random.Intn(4) {
			step := levelStep{After: random.Int63n(left), Demands: map[string]float64{}}
			left -= step.After
			for _, name := range append([]string{"exempt", "catch-all"}, names...) {
				chosen, seats := random.Intn(3) == 0, float64(random.Intn(1+s.Server/(1+random.Intn(5))))
				if chosen && present[name] {
					step.Demands[name] = seats
				}
			}
			s.Steps = append(s.Steps, step)
		}
		s.Steps = append(s.Steps, levelStep{After: left, Adjust: true})
		if random.Intn(4) == 0 {
			change()
		}
	}
	return s
}

// allocation is an input of `computeConcurrencyAllocation` and its results.
type allocation struct {
	Sum         int
	Items       []allocationItem
	Allocations []float64 `json:",omitempty"`
	FairProp    float64
	Error       string `json:",omitempty"`
}

// allocationItem has the layout of upstream's type.
type allocationItem struct {
	Target, Lower, Upper float64
}

//go:linkname computeConcurrencyAllocation k8s.io/apiserver/pkg/util/flowcontrol.computeConcurrencyAllocation
func computeConcurrencyAllocation(sum int, items []allocationItem) ([]float64, float64, error)

// allocations records divisions of seats among levels, a row of JSON each.
func allocations() []byte {
	random := rand.New(rand.NewSource(1))
	var rows []allocation
	add := func(sum int, items ...allocationItem) {
		row := allocation{Sum: sum, Items: items}
		found, proportion, err := computeConcurrencyAllocation(sum, items)
		if err != nil {
			row.Error = err.Error()
		} else {
			row.Allocations, row.FairProp = found, proportion
		}
		rows = append(rows, row)
	}
	add(0)
	add(1)
	add(-1, allocationItem{1, 0, 2})
	add(0, allocationItem{1, 0, 2})
	add(5, allocationItem{1, 2, 3})
	add(5, allocationItem{3, 2, 1})
	add(5, allocationItem{3, -1, 1})
	add(5, allocationItem{3, 1, 4})
	add(5, allocationItem{7, 6, 9})
	add(5, allocationItem{5, 5, 9}, allocationItem{0, 0, 3})
	add(12, allocationItem{5, 5, 9}, allocationItem{0, 0, 3})
	add(10, allocationItem{0, 0, 30}, allocationItem{0, 0, 30}, allocationItem{0, 0, 30})
	for range 150 {
		items := make([]allocationItem, 1+random.Intn(7))
		var low, high float64
		for i := range items {
			lower := float64(random.Intn(30))
			upper := lower + float64(random.Intn(60))
			target := lower + math.Trunc(random.Float64()*60*1000)/1000
			if random.Intn(5) == 0 {
				target = lower
			}
			items[i] = allocationItem{target, lower, upper}
			low, high = low+lower, high+upper
		}
		sum := int(low) + random.Intn(int(high-low)+1)
		switch random.Intn(12) {
		case 0:
			sum = int(low) - random.Intn(3)
		case 1:
			sum = int(high) + random.Intn(3)
		}
		add(sum, items...)
	}
	return jsonLines(rows)
}

// retryStep is a second, the number of requests that are dropped in it, and the answer after that.
type retryStep [3]int64

//go:linkname newDroppedRequestsTracker k8s.io/apiserver/pkg/util/flowcontrol.newDroppedRequestsTracker
func newDroppedRequestsTracker(now func() time.Time) unsafe.Pointer

//go:linkname recordDroppedRequest k8s.io/apiserver/pkg/util/flowcontrol.(*droppedRequestsTracker).RecordDroppedRequest
func recordDroppedRequest(tracker unsafe.Pointer, level string)

//go:linkname getRetryAfter k8s.io/apiserver/pkg/util/flowcontrol.(*droppedRequestsTracker).GetRetryAfter
func getRetryAfter(tracker unsafe.Pointer, level string) int64

// retryAfter records the values of the header Retry-After, an array of JSON for each sequence of dropped requests.
func retryAfter() []byte {
	var rows [][]retryStep
	// The later sequences drop the same number of requests in each second.
	for seed := int64(0); seed < 18; seed++ {
		random := rand.New(rand.NewSource(seed))
		second := int64(1_000_000)
		tracker := newDroppedRequestsTracker(func() time.Time { return time.Unix(second, 0) })
		steps := []retryStep{{second, 0, getRetryAfter(tracker, "level")}}
		for range 120 {
			second += int64(random.Intn(3))
			if random.Intn(30) == 0 {
				second += int64(random.Intn(80))
			}
			dropped := int64(random.Intn(int(3 * (seed + 1))))
			if seed >= 12 {
				second, dropped = steps[len(steps)-1][0]+1, seed-11
			}
			for range dropped {
				recordDroppedRequest(tracker, "level")
			}
			steps = append(steps, retryStep{second, dropped, getRetryAfter(tracker, "level")})
		}
		rows = append(rows, steps)
	}
	return jsonLines(rows)
}
