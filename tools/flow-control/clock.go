package main

import (
	"container/heap"
	"time"

	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/eventclock"
)

// start is the time at which every simulation begins.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// simulatedClock runs events one after the other in the order of their times. The events of upstream, which end additional
// latencies, come before other events of their time. Otherwise events of one time run in the order in which they were
// scheduled. So each simulation has exactly one result.
type simulatedClock struct {
	now    time.Time
	events eventHeap
	count  int
	// wrap may replace an event that the queue set schedules.
	wrap func(eventclock.EventFunc) eventclock.EventFunc
}

type event struct {
	time   time.Time
	rank   int
	number int
	run    eventclock.EventFunc
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if !h[i].time.Equal(h[j].time) {
		return h[i].time.Before(h[j].time)
	}
	if h[i].rank != h[j].rank {
		return h[i].rank < h[j].rank
	}
	return h[i].number < h[j].number
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func newClock() *simulatedClock { return &simulatedClock{now: start} }

func (c *simulatedClock) at(t time.Time, run func()) {
	c.push(t, 1, func(time.Time) { run() })
}

func (c *simulatedClock) after(d time.Duration, run func()) { c.at(c.now.Add(d), run) }

func (c *simulatedClock) push(t time.Time, rank int, run eventclock.EventFunc) {
	heap.Push(&c.events, event{t, rank, c.count, run})
	c.count++
}

// runUntil runs the events up to the limit, and all events without a limit.
func (c *simulatedClock) runUntil(limit *time.Time) {
	for len(c.events) > 0 && (limit == nil || !c.events[0].time.After(*limit)) {
		next := heap.Pop(&c.events).(event)
		if next.time.After(c.now) {
			c.now = next.time
		}
		next.run(c.now)
	}
	if limit != nil {
		c.now = *limit
	}
}

func (c *simulatedClock) Now() time.Time                  { return c.now }
func (c *simulatedClock) Since(t time.Time) time.Duration { return c.now.Sub(t) }
func (c *simulatedClock) Sleep(time.Duration)             { panic("nothing sleeps in a simulation") }
func (c *simulatedClock) EventAfterDuration(f eventclock.EventFunc, d time.Duration) {
	c.EventAfterTime(f, c.now.Add(d))
}
func (c *simulatedClock) EventAfterTime(f eventclock.EventFunc, t time.Time) {
	if c.wrap != nil {
		f = c.wrap(f)
	}
	c.push(t, 0, f)
}
