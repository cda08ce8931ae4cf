package main

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/eventclock"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	"k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/component-base/metrics/legacyregistry"
)

// configuration is the configuration of a queue set.
type configuration struct {
	queues, length, hand, limit int
}

// arrival is a request. It is cancelled after the time `cancel`, if that is positive and the request still waits.
type arrival struct {
	flow                     int
	initial, final           uint64
	latency, execute, cancel time.Duration
	// dispatched is called when the request begins to execute.
	dispatched func()
}

// simulation drives one queue set with a simulated clock and writes each operation and its effects.
type simulation struct {
	clock       *simulatedClock
	set         fq.QueueSet
	hashes      []uint64
	demand      fq.Integrator
	requests    []*simulatedRequest
	dispatched  []*simulatedRequest
	queueless   bool
	cancelling  bool
	finishing   *simulatedRequest
	out         strings.Builder
	last        time.Time
	rejected    map[string]float64
	description string
}

type simulatedRequest struct {
	arrival
	number          int
	waiting         bool
	cancelContext   context.CancelFunc
	started, finish chan struct{}
	ended           chan bool
}

// noGauge ignores all values.
type noGauge struct{}

func (noGauge) Set(float64)            {}
func (noGauge) Inc()                   {}
func (noGauge) Dec()                   {}
func (noGauge) Add(float64)            {}
func (noGauge) SetToCurrentTime()      {}
func (noGauge) SetDenominator(float64) {}

func dispatching(limit int) fq.DispatchingConfig {
	return fq.DispatchingConfig{ConcurrencyLimit: limit, ConcurrencyDenominator: max(limit, 1)}
}

func (c configuration) queuing() fq.QueuingConfig {
	return fq.QueuingConfig{Name: "level", DesiredNumQueues: c.queues, QueueLengthLimit: c.length, HandSize: c.hand}
}

func newSimulation(description string, config configuration, hashes ...uint64) *simulation {
	metrics.Reset()
	clock := newClock()
	s := &simulation{clock: clock, hashes: hashes, last: start, rejected: map[string]float64{}}
	s.demand = fq.NewNamedIntegrator(clock, "demand")
	completer, err := queueset.NewQueueSetFactory(clock).BeginConstruction(config.queuing(),
		metrics.RatioedGaugePair{RequestsWaiting: noGauge{}, RequestsExecuting: noGauge{}}, noGauge{}, s.demand)
	if err != nil {
		panic(err)
	}
	s.set = completer.Complete(dispatching(config.limit))
	s.queueless = config.queues < 1
	// Only the end of a request with additional latency makes the queue set schedule an event.
	clock.wrap = func(release eventclock.EventFunc) eventclock.EventFunc {
		number := s.finishing.number
		return func(now time.Time) {
			s.operation("l", number)
			release(now)
			s.settle()
		}
	}
	fmt.Fprintf(&s.out, "# %s\nset %d %d %d %d\n", description, config.queues, config.length, config.hand, config.limit)
	for number, hash := range hashes {
		fmt.Fprintf(&s.out, "flow %d %d\n", number, hash)
	}
	return s
}

// operation begins the line of an operation: its letter, the nanoseconds since the operation before, and its values.
func (s *simulation) operation(letter string, values ...any) {
	fmt.Fprintf(&s.out, "%s %d", letter, s.clock.now.Sub(s.last).Nanoseconds())
	for _, value := range values {
		fmt.Fprintf(&s.out, " %v", value)
	}
	s.last = s.clock.now
}

// settle ends the line with the requests that the operation dispatched, and lets them execute.
func (s *simulation) settle() {
	if len(s.dispatched) > 0 {
		s.out.WriteString(" >")
	}
	dispatched := s.dispatched
	s.dispatched = nil
	for _, r := range dispatched {
		fmt.Fprintf(&s.out, " %d", r.number)
		<-r.started
		s.clock.after(r.execute, func() { s.end(r) })
		if r.arrival.dispatched != nil {
			r.arrival.dispatched()
		}
	}
	s.out.WriteByte('\n')
}

func (s *simulation) arrive(a arrival) {
	r := &simulatedRequest{
		arrival: a, number: len(s.requests),
		started: make(chan struct{}), finish: make(chan struct{}), ended: make(chan bool),
	}
	s.requests = append(s.requests, r)
	s.operation("a", a.flow, a.initial, a.final, a.latency.Nanoseconds())
	ctx, cancel := context.WithCancel(genericrequest.WithUser(context.Background(), &user.DefaultInfo{Name: "user"}))
	r.cancelContext = cancel
	noted := func(inQueue bool) {
		r.waiting = inQueue
		if !inQueue && !s.cancelling {
			s.dispatched = append(s.dispatched, r)
		}
	}
	estimate := &request.WorkEstimate{InitialSeats: a.initial, FinalSeats: a.final, AdditionalLatency: a.latency}
	started, idle := s.set.StartRequest(ctx, estimate, s.hashes[a.flow], fmt.Sprint(a.flow), "schema", nil, nil, noted)
	if started == nil {
		fmt.Fprintf(&s.out, " %s", s.rejection())
		s.idle(idle)
		s.settle()
		return
	}
	if s.queueless {
		s.dispatched = append(s.dispatched, r)
	}
	go func() {
		idle := started.Finish(func() {
			r.started <- struct{}{}
			<-r.finish
		})
		r.ended <- idle
	}()
	if a.cancel > 0 {
		s.clock.after(a.cancel, func() { s.cancel(r) })
	}
	s.settle()
}

func (s *simulation) idle(idle bool) {
	if idle {
		s.out.WriteString(" idle")
	}
}

// end ends the execution of a request.
func (s *simulation) end(r *simulatedRequest) {
	s.operation("f", r.number)
	s.finishing = r
	close(r.finish)
	s.idle(<-r.ended)
	s.settle()
	r.cancelContext()
}

// cancel ends the context of a request that waits.
func (s *simulation) cancel(r *simulatedRequest) {
	if !r.waiting {
		return
	}
	s.operation("c", r.number)
	s.cancelling = true
	r.cancelContext()
	idle := <-r.ended
	s.cancelling = false
	fmt.Fprintf(&s.out, " %s", s.rejection())
	s.idle(idle)
	s.settle()
}

func (s *simulation) configure(config configuration) {
	s.operation("g", config.queues, config.length, config.hand, config.limit)
	completer, err := s.set.BeginConfigChange(config.queuing())
	if err != nil {
		panic(err)
	}
	completer.Complete(dispatching(config.limit))
	s.queueless = config.queues < 1
	s.settle()
}

// rejection returns the reason that the last rejection has in the metrics.
func (s *simulation) rejection() string {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		panic(err)
	}
	found := ""
	for _, family := range families {
		if family.GetName() != "apiserver_flowcontrol_rejected_requests_total" {
			continue
		}
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				if label.GetName() == "reason" && metric.Counter.GetValue() != s.rejected[label.GetValue()] {
					s.rejected[label.GetValue()] = metric.Counter.GetValue()
					found += label.GetValue()
				}
			}
		}
	}
	return found
}

// dump writes the state of the queue set and of its queues that are in use.
func (s *simulation) dump() {
	dump := s.set.Dump(false)
	// A dump has no R.
	r := reflect.ValueOf(s.set).Elem().FieldByName("currentR").Uint()
	s.operation("d", r, dump.Waiting, dump.Executing, dump.SeatsWaiting, dump.SeatsInUse, dump.Rejected, dump.Cancelled,
		len(dump.Queues))
	s.idle(s.set.IsIdle())
	for index, queue := range dump.Queues {
		if len(queue.Requests) == 0 && queue.ExecutingRequests == 0 && queue.SeatsInUse == 0 {
			continue
		}
		fmt.Fprintf(&s.out, " %d:%s:%d:%d:%d:%d:%d:%s", index, seatSeconds(queue.NextDispatchR), len(queue.Requests),
			queue.ExecutingRequests, queue.SeatsInUse, queue.QueueSum.InitialSeatsSum, queue.QueueSum.MaxSeatsSum,
			seatSeconds(queue.QueueSum.TotalWorkSum))
	}
	s.out.WriteByte('\n')
}

// seatSeconds turns a text like 1.50000000ss into the number of units of 10 nanoseconds.
func seatSeconds(text string) string {
	digits := strings.TrimLeft(strings.Replace(strings.TrimSuffix(text, "ss"), ".", "", 1), "0")
	if digits == "" {
		return "0"
	}
	return digits
}

// run runs all events. It writes dumps at the given times and at the end.
func (s *simulation) run(dumps ...time.Duration) string {
	for _, after := range dumps {
		limit := start.Add(after)
		s.clock.runUntil(&limit)
		s.dump()
	}
	s.clock.runUntil(nil)
	s.dump()
	results := s.demand.GetResults()
	fmt.Fprintf(&s.out, "demand %v %v %v\n", results.Average, results.Deviation, results.Max)
	return s.out.String()
}
