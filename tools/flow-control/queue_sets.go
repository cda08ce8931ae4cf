package main

import (
	"fmt"
	"math/rand"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/util/shufflesharding"
)

// queueSets records simulations of queue sets: the parameters of upstream's tests and random ones. A simulation is:
//
//	# DESCRIPTION
//	set QUEUES LENGTH HAND LIMIT                 the configuration; QUEUES is 0 without queues and -1 for an exempt level
//	flow NUMBER HASH
//	a TIME FLOW INITIAL FINAL LATENCY [REASON]   a request arrives, and is rejected for the REASON
//	f TIME REQUEST                               a request ends its execution
//	l TIME REQUEST                               the additional latency of a request ends
//	c TIME REQUEST REASON                        the context of a waiting request ends
//	g TIME QUEUES LENGTH HAND LIMIT              the configuration changes
//	d TIME R WAITING EXECUTING SEATS-WAITING SEATS-IN-USE REJECTED CANCELLED QUEUES
//	    INDEX:NEXT-DISPATCH-R:WAITING:EXECUTING:SEATS-IN-USE:INITIAL-SEATS:MAX-SEATS:WORK...
//	                                             a dump of the queue set and of its queues that are in use
//	demand AVERAGE DEVIATION MAXIMUM             the moments of the demand of seats over the whole simulation
//
// TIME is in nanoseconds since the line before, and latencies are in nanoseconds. Requests have numbers in the order of
// their arrivals. R and WORK are in units of 1e-8 seat-seconds. A line may end with `idle`, if the queue set answered
// that it is idle, and with `> REQUEST...`, the requests that the operation dispatched, in this order.
func queueSets() []byte {
	var out strings.Builder
	for _, s := range upstreamScenarios() {
		out.WriteString(s)
	}
	for seed := int64(1); seed <= 70; seed++ {
		out.WriteString(randomScenario(seed))
	}
	return []byte(out.String())
}

// client runs threads that each send one request after the other.
type client struct {
	hash           uint64
	threads, calls int
	execute, think time.Duration
	initial, final uint64
	latency        time.Duration
	// split lets half of the threads begin in the middle of the scenario, with half of the calls.
	split bool
}

func uniform(description string, config configuration, duration time.Duration, clients ...client) string {
	hashes := make([]uint64, len(clients))
	for i, c := range clients {
		hashes[i] = c.hash
	}
	s := newSimulation(description, config, hashes...)
	for i, c := range clients {
		if c.initial == 0 {
			c.initial = 1
		}
		if c.final == 0 {
			c.final = 1
		}
		for thread := range c.threads {
			calls := c.calls
			delay := time.Duration(90*thread + 20*i)
			if c.split && thread >= c.threads/2 {
				delay += duration / 2
				calls /= 2
			}
			var call func(number int)
			call = func(number int) {
				if number == calls {
					return
				}
				s.arrive(arrival{
					flow: i, initial: c.initial, final: c.final, latency: c.latency, execute: c.execute,
					dispatched: func() { s.clock.after(c.execute+c.think, func() { call(number + 1) }) },
				})
			}
			s.clock.after(delay, func() { call(0) })
		}
	}
	return s.run(duration/3, duration)
}

func upstreamScenarios() []string {
	const second = time.Second
	scenarios := []string{
		uniform("baseline", configuration{9, 8, 3, 1}, 20*second, client{hash: 1001001001, threads: 1, calls: 21, execute: second}),
		uniform("exempt, limit 0", configuration{-1, 2, 3, 0}, 40*second,
			client{hash: 1001001001, threads: 5, calls: 20, execute: second, think: second, initial: 3}),
		uniform("exempt, limit 2", configuration{-1, 2, 3, 2}, 40*second,
			client{hash: 1001001001, threads: 5, calls: 20, execute: second, think: second, initial: 3}),
		uniform("uniform flows, hand size 1", configuration{9, 8, 1, 4}, 50*second,
			client{hash: 1001001001, threads: 8, calls: 20, execute: second, think: second - 1},
			client{hash: 2002002002, threads: 8, calls: 20, execute: second, think: second - 1}),
		uniform("uniform flows, hand size 3", configuration{8, 16, 3, 4}, 60*second,
			client{hash: 400900100100, threads: 8, calls: 30, execute: second, think: second - 1},
			client{hash: 300900200200, threads: 8, calls: 30, execute: second, think: second - 1}),
		uniform("different flows, equal shares", configuration{9, 8, 1, 4}, 40*second,
			client{hash: 1001001001, threads: 8, calls: 20, execute: second, think: second},
			client{hash: 2002002002, threads: 7, calls: 30, execute: second, think: second / 2}),
		uniform("different flows, unequal shares", configuration{9, 6, 1, 3}, 20*second,
			client{hash: 1001001001, threads: 4, calls: 20, execute: second, think: second - 1},
			client{hash: 2002002002, threads: 2, calls: 20, execute: second, think: second - 1}),
		uniform("different widths", configuration{64, 13, 7, 6}, 20*second,
			client{hash: 10010010010010, threads: 13, calls: 10, execute: second, think: second - 1},
			client{hash: 20020020020020, threads: 7, calls: 10, execute: second, think: second - 1, initial: 2}),
		uniform("windup", configuration{9, 6, 1, 3}, 40*second,
			client{hash: 1001001001, threads: 2, calls: 40, execute: second, think: -1},
			client{hash: 2002002002, threads: 2, calls: 40, execute: second, think: -1, split: true}),
		uniform("without queues", configuration{limit: 4}, 13*second,
			client{hash: 1001001001, threads: 6, calls: 10, execute: second, think: 57 * time.Millisecond},
			client{hash: 2002002002, threads: 4, calls: 15, execute: second, think: 750 * time.Millisecond}),
	}
	tooWide := []client{}
	for i, hash := range []uint64{40040040040040, 50050050050050, 60060060060060, 70070070070070, 90090090090090} {
		c := client{hash: hash, threads: 15, calls: 7, execute: second, think: second - 1, initial: 2}
		if i == 4 {
			c.initial = 7
		}
		tooWide = append(tooWide, c)
	}
	scenarios = append(scenarios, uniform("too wide", configuration{64, 35, 7, 6}, 75*second, tooWide...))
	// R overflows here unless the epoch advances.
	const quarter = 91 * 24 * time.Hour
	scenarios = append(scenarios, uniform("years", configuration{9, 8, 1, 2000}, 40*quarter,
		client{hash: 1001001001, threads: 8, calls: 20, execute: quarter, think: quarter, initial: 500},
		client{hash: 2002002002, threads: 7, calls: 30, execute: quarter, think: quarter / 2, initial: 500}))
	for _, times := range [][2]time.Duration{{second, 0}, {0, second}, {second, second / 2}, {second / 2, second}} {
		for clients := 1; clients <= 2; clients++ {
			for _, seats := range [][2]int{{1, 1}, {1, 2}, {2, 2}} {
				c := client{threads: 1, calls: 12, execute: second, think: times[0], final: uint64(seats[0]), latency: times[1]}
				first, other := c, c
				first.hash, other.hash = 1001001001, 2002002002
				scenarios = append(scenarios, uniform(
					fmt.Sprintf("think %v, latency %v, final seats %d, limit %d, clients %d", times[0], times[1], seats[0], seats[1], clients),
					configuration{9, 8, 3, seats[1]}, 24*second, []client{first, other}[:clients]...))
			}
		}
	}
	scenarios = append(scenarios, contextCancel())
	for limit := 1; limit <= 3; limit++ {
		scenarios = append(scenarios, drain(limit))
	}
	return scenarios
}

// drain removes queues while the virtual ends of their requests are equal, so that the order of the queues decides.
func drain(limit int) string {
	s := newSimulation(fmt.Sprintf("queues that drain, limit %d", limit), configuration{6, 10, 1, limit}, 0, 1, 2, 3, 4, 5)
	s.clock.after(0, func() {
		for round := range 6 {
			for flow := range 6 {
				if round < 3 || flow%(limit+1) == 0 {
					s.arrive(arrival{flow: flow, initial: 1, execute: 3 * time.Millisecond})
				}
			}
		}
	})
	s.clock.after(4*time.Millisecond, func() { s.configure(configuration{2, 10, 1, limit}) })
	return s.run(10 * time.Millisecond)
}

// contextCancel cancels a request that waits for another one.
func contextCancel() string {
	s := newSimulation("context cancel", configuration{11, 11, 1, 1}, 1, 2)
	s.clock.after(0, func() {
		s.arrive(arrival{flow: 0, initial: 1, execute: 2 * time.Second})
		s.arrive(arrival{flow: 1, initial: 1, execute: time.Second, cancel: time.Second})
	})
	return s.run()
}

// randomScenario makes a scenario from a seed. Its sort follows from the seed, so that each sort occurs often.
func randomScenario(seed int64) string {
	random := rand.New(rand.NewSource(seed))
	one := func(chance float64) bool { return random.Float64() < chance }
	pick := func(numbers ...int) int { return numbers[random.Intn(len(numbers))] }
	config := configuration{
		queues: pick(1, 2, 3, 4, 8, 9, 16, 50, 64, 128),
		length: pick(1, 2, 5, 10, 50),
		limit:  1 + random.Intn(12),
	}
	hand := func(queues int) int {
		hand := 1 + random.Intn(min(queues, 8))
		for shufflesharding.RequiredEntropyBits(queues, hand) > shufflesharding.MaxHashBits {
			hand--
		}
		return hand
	}
	config.hand = hand(config.queues)
	wide := seed%2 == 0
	lingering := seed%3 == 0
	changing := seed%5 < 2
	cancelling := seed%4 < 2
	if seed%17 == 0 {
		config.queues = 0
	}
	hashes := make([]uint64, 1+random.Intn(8))
	for i := range hashes {
		hashes[i] = random.Uint64()
	}
	s := newSimulation(fmt.Sprintf("random %d", seed), config, hashes...)
	// Half of the scenarios have many events of the same time.
	grain := time.Duration(pick(1, int(time.Millisecond), int(10*time.Millisecond)))
	moment := func(most time.Duration) time.Duration {
		return (1 + time.Duration(random.Int63n(int64(most)))/grain) * grain
	}
	const length = 2 * time.Second
	for i := 0; i < 110; i++ {
		a := arrival{flow: random.Intn(len(hashes)), initial: 1, execute: moment(time.Duration(pick(2, 40, 150, 400)) * time.Millisecond)}
		if one(0.3) {
			a.flow = 0
		}
		if wide && one(0.3) {
			a.initial = uint64(1 + random.Intn(config.limit+3))
		}
		if lingering && one(0.4) {
			a.final = uint64(random.Intn(config.limit + 4))
			a.latency = moment(100 * time.Millisecond)
		}
		if cancelling && one(0.3) {
			a.cancel = moment(300 * time.Millisecond)
		}
		s.clock.after(moment(length), func() { s.arrive(a) })
	}
	if changing {
		changed := config
		for range 1 + random.Intn(4) {
			if one(0.7) {
				changed.limit = random.Intn(14)
			}
			// Upstream removes a queue once more, or panics, if two of its requests linger when it is removed.
			if one(0.5) && changed.queues > 0 {
				changed.queues = pick(1, 2, 3, 4, 8, 9, 16, 50, 64, 128)
				if lingering {
					changed.queues = max(changed.queues, config.queues)
				}
				config.queues = changed.queues
				changed.hand = hand(changed.queues)
				changed.length = pick(1, 2, 5, 10, 50)
			}
			next := changed
			s.clock.after(moment(length), func() { s.configure(next) })
		}
		// A limit of zero would keep requests forever.
		changed.limit = max(changed.limit, 2)
		s.clock.after(length+length/2, func() { s.configure(changed) })
	}
	return s.run(length/4, length/2, length)
}
