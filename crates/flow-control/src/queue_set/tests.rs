//! Tests of the queue set under a simulated clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;

fn queue(queues: usize, hand_size: usize, queue_length_limit: usize) -> LimitResponse {
    LimitResponse::Queue { dealer: Dealer::new(queues, hand_size).expect("valid sizes"), queue_length_limit }
}

fn seats(initial_seats: u64, final_seats: u64, milliseconds: u64) -> WorkEstimate {
    WorkEstimate { initial_seats, final_seats, additional_latency: Duration::from_millis(milliseconds) }
}

fn at(milliseconds: u64) -> Moment {
    Moment::from_nanoseconds(milliseconds * 1_000_000)
}

/// A queue set whose flows have the hash of their names, or the hash that is their name.
struct Subject {
    queues: QueueSet,
    series: Arc<SchemaSeries>,
}

impl Subject {
    fn new(limit_response: LimitResponse, limit: usize) -> Self {
        let queues = QueueSet::new(limit_response, limit, Moment::START);
        Self { queues, series: Arc::new(SchemaSeries::new("s")) }
    }

    fn start(&mut self, milliseconds: u64, flow: &str, estimate: WorkEstimate) -> Result<RequestId, RejectReason> {
        let arrival = Arrival { schema: self.series.clone(), distinguisher: flow, hash: flow.parse().ok(), estimate };
        let result = self.queues.start(at(milliseconds), arrival);
        self.check_sums();
        result
    }

    fn started(&mut self, milliseconds: u64, flow: &str, estimate: WorkEstimate) -> RequestId {
        self.start(milliseconds, flow, estimate).expect("the request is not rejected")
    }

    fn finish(&mut self, milliseconds: u64, id: RequestId) {
        self.queues.finish(at(milliseconds), id, None);
        self.check_sums();
    }

    fn is_executing(&self, id: RequestId) -> bool {
        self.queues.phase(id) == Some(Phase::Executing)
    }

    /// Checks the numbers that the queue set maintains against its requests.
    fn check_sums(&self) {
        let queues = &self.queues;
        let of = |phase: Phase| queues.requests.iter().filter(move |request| request.phase == phase);
        assert_eq!(queues.waiting, of(Phase::Waiting).count());
        assert_eq!(queues.executing, of(Phase::Executing).count());
        assert_eq!(queues.seats_waiting, of(Phase::Waiting).map(Request::max_seats).sum::<usize>());
        let in_use = || queues.requests.iter().filter(|request| request.phase != Phase::Waiting);
        assert_eq!(queues.seats_in_use, in_use().map(Request::max_seats).sum::<usize>());
        let queued = in_use().filter(|request| request.queue.is_some());
        assert_eq!(queues.queued_seats_in_use, queued.map(Request::max_seats).sum::<usize>());
        assert_eq!(queues.active_queues, queues.queues.iter().filter(|queue| queue.is_active()).count());
        let waiting: Vec<_> =
            (0..queues.queues.len()).filter(|index| !queues.queues[*index].waiting.is_empty()).collect();
        assert_eq!(queues.waiting_queues, waiting);
        let can_begin = |request: &Request| queues.seats_for(request).is_some();
        if queues.keeps_seats_free && queues.seats_in_use < queues.concurrency_limit {
            assert!(!of(Phase::Waiting).any(can_begin), "a request waits although it could begin");
        }
        let of_flows = queues.flow_uses().map(|flow| flow.seats_in_use).sum::<usize>();
        assert_eq!(of_flows, queues.seats_in_use);
        for (index, queue) in queues.queues.iter().enumerate() {
            let here = |phase| of(phase).filter(move |request| request.queue == Some(index));
            assert_eq!(
                (queue.waiting.len(), queue.executing),
                (here(Phase::Waiting).count(), here(Phase::Executing).count())
            );
            let in_use = in_use().filter(|request| request.queue == Some(index));
            assert_eq!(queue.seats_in_use, in_use.map(Request::max_seats).sum::<usize>());
            let work = here(Phase::Waiting).fold(SeatSeconds::ZERO, |sum, request| sum.plus(request.total_work));
            assert_eq!(queue.waiting_work, work);
        }
    }
}

/// Clients that send a request as soon as the request before has ended.
struct Client {
    flow: &'static str,
    count: usize,
    /// The duration of a request, in milliseconds.
    duration: u64,
    seats: u64,
    /// The work that a request reports, in seat-seconds.
    cost: f64,
    /// The time between two requests, in milliseconds.
    pause: u64,
}

const CLIENT: Client = Client { flow: "1", count: 1, duration: 100, seats: 1, cost: 0.0, pause: 0 };

/// Simulates clients for some seconds. Returns the seat-seconds of each flow, and its longest wait in milliseconds.
fn simulate(queues: &mut Subject, clients: &[Client], seconds: u64) -> BTreeMap<&'static str, (f64, u64)> {
    let mut shares: BTreeMap<_, _> = clients.iter().map(|client| (client.flow, (0.0, 0))).collect();
    // Events in the order of time: a client starts a request, or ends the request that it has begun.
    let mut events = BTreeSet::new();
    for (index, client) in clients.iter().enumerate() {
        events.extend((0..client.count).map(|number| (0, index, number, None)));
    }
    let mut waiting = BTreeMap::new();
    while let Some((now, index, number, request)) = events.pop_first().filter(|(now, ..)| *now < seconds * 1000) {
        let client = &clients[index];
        if let Some(id) = request {
            let cost = (client.cost > 0.0).then(|| SeatSeconds::from_f64(client.cost));
            queues.queues.finish(at(now), id, cost);
            queues.check_sums();
            events.insert((now + client.pause, index, number, None));
        } else {
            let id = queues.started(now, client.flow, seats(client.seats, 0, 0));
            waiting.insert(id, (now, index, number));
        }
        let dispatched: Vec<_> = queues.queues.take_dispatched().collect();
        for id in dispatched {
            let (arrived, index, number) = waiting.remove(&id).expect("a request that waits");
            let client = &clients[index];
            events.insert((now + client.duration, index, number, Some(id)));
            let (share, longest) = shares.entry(client.flow).or_default();
            *share += client.seats as f64 * client.duration as f64 / 1000.0;
            *longest = (*longest).max(now - arrived);
        }
    }
    shares
}

fn assert_near(found: f64, expect: f64, tolerance: f64) {
    assert!((found - expect).abs() <= expect * tolerance, "{found} instead of {expect}");
}

#[test]
fn flows_have_equal_shares_whatever_their_requests_are() {
    let check = |clients: &[Client], limit: usize, expect: &[f64]| {
        let mut queues = Subject::new(queue(9, 1, 1000), limit);
        let shares = simulate(&mut queues, clients, 60);
        for ((share, _), expect) in shares.values().zip(expect) {
            assert_near(*share, *expect, 0.02);
        }
    };
    let other = Client { flow: "2", ..CLIENT };
    check(&[Client { count: 8, ..CLIENT }, Client { count: 40, ..other }], 4, &[120.0, 120.0]);
    check(&[Client { count: 8, ..CLIENT }, Client { count: 8, duration: 300, ..other }], 4, &[120.0, 120.0]);
    check(&[Client { count: 8, ..CLIENT }, Client { count: 8, seats: 3, ..other }], 6, &[180.0, 180.0]);
    // A flow that needs less than its share gets all that it needs.
    check(&[Client { count: 1, ..CLIENT }, Client { count: 8, ..other }], 4, &[60.0, 180.0]);
}

#[test]
fn requests_beyond_the_limits_are_rejected() {
    let one = seats(1, 0, 0);
    let mut queues = Subject::new(queue(2, 1, 2), 1);
    let first = queues.started(0, "0", one);
    let waiting: Vec<_> = (1..=4).map(|flow| queues.started(flow, if flow < 3 { "0" } else { "1" }, one)).collect();
    assert_eq!(queues.start(5, "0", one), Err(RejectReason::QueueFull));
    assert!(queues.is_executing(first) && !waiting.iter().any(|id| queues.is_executing(*id)));
    assert!(queues.queues.cancel(at(6), waiting[0]));
    queues.check_sums();
    assert!(!queues.queues.cancel(at(6), waiting[0]) && !queues.queues.cancel(at(6), first));
    queues.started(7, "0", one);
    queues.finish(8, first);
    // The other queue has not been served yet.
    assert!(queues.is_executing(waiting[2]) && queues.queues.waiting() == 3);
    let counts = [RejectReason::ConcurrencyLimit, RejectReason::QueueFull, RejectReason::TimeOut]
        .map(|reason| queues.series.rejected[reason as usize].get());
    assert_eq!(counts, [0, 1, 1]);
    let flow = queues.queues.flow_uses().find(|flow| flow.distinguisher == "0").expect("a flow");
    assert_eq!((flow.executed, flow.rejected), (1, 2));

    let mut queues = Subject::new(LimitResponse::Reject, 2);
    let wide = queues.started(0, "0", seats(5, 0, 0));
    assert_eq!(queues.start(0, "0", one), Err(RejectReason::ConcurrencyLimit));
    queues.finish(1, wide);
    let two = [queues.started(1, "0", one), queues.started(1, "0", one)];
    assert!(two.iter().all(|id| queues.is_executing(*id)));
    assert_eq!(queues.start(2, "0", one), Err(RejectReason::ConcurrencyLimit));

    let mut queues = Subject::new(LimitResponse::Exempt, 0);
    assert!((0..100).all(|_| queues.start(0, "0", seats(10, 0, 0)).is_ok()));
}

#[test]
fn seats_are_held_for_the_additional_latency() {
    let mut queues = Subject::new(queue(1, 1, 10), 2);
    let first = queues.started(0, "0", seats(1, 2, 10));
    assert_eq!(queues.queues.seats_in_use(), 2);
    let second = queues.started(1, "0", seats(1, 0, 0));
    queues.finish(5, first);
    assert_eq!((queues.queues.phase(first), queues.queues.next_release()), (Some(Phase::Lingering), Some(at(15))));
    assert!(!queues.is_executing(second));
    queues.queues.advance(at(15));
    queues.check_sums();
    assert!(queues.is_executing(second) && queues.queues.phase(first).is_none());
    // The request begins at the time of the release, although the time is noticed later.
    let third = queues.started(20, "0", seats(1, 2, 10));
    queues.finish(21, second);
    queues.finish(25, third);
    let fourth = queues.started(26, "0", seats(2, 0, 0));
    queues.queues.advance(at(100));
    assert_eq!(queues.queues.requests.get(fourth).map(|request| request.started), Some(at(35)));
}

#[test]
fn wide_requests_wait_for_all_seats() {
    let mut queues = Subject::new(queue(2, 1, 10), 3);
    let narrow = queues.started(0, "0", seats(1, 0, 0));
    let wide = queues.started(0, "1", seats(1, 8, 10));
    assert!(!queues.is_executing(wide));
    assert_eq!(queues.series.no_accommodation.get(), 1);
    queues.finish(1, narrow);
    assert!(queues.is_executing(wide));
    // Final seats beyond the limit are replaced by a longer time.
    let estimate = queues.queues.requests.get(wide).map(|request| request.estimate);
    let additional_latency = Duration::from_nanos(80_000_000 / 3);
    assert_eq!(estimate, Some(WorkEstimate { initial_seats: 1, final_seats: 3, additional_latency }));
    assert_eq!(queues.queues.seat_demand(), 3);
}

#[test]
fn surplus_queues_are_removed_when_they_are_empty() {
    let mut queues = Subject::new(queue(4, 1, 10), 1);
    let mut requests: VecDeque<_> =
        (0..8).map(|flow| queues.started(0, &(flow % 4).to_string(), seats(1, 0, 0))).collect();
    queues.queues.configure(at(1), queue(2, 1, 10), 1);
    assert_eq!(queues.queues.queues.len(), 4);
    let mut ended = 0;
    while let Some(next) = requests.iter().position(|id| queues.is_executing(*id)) {
        ended += 1;
        queues.finish(ended, requests.remove(next).expect("a request"));
    }
    assert_eq!((ended, queues.queues.queues.len(), queues.queues.is_idle()), (8, 2, true));
    // A level that gets rid of its queues still serves the requests in them.
    let requests = [(); 3].map(|()| queues.started(20, "0", seats(1, 0, 0)));
    queues.queues.configure(at(21), LimitResponse::Reject, 1);
    assert_eq!(queues.start(21, "0", seats(1, 0, 0)), Err(RejectReason::ConcurrencyLimit));
    for id in requests {
        assert!(queues.is_executing(id));
        queues.finish(22, id);
    }
    assert!(queues.queues.is_idle());
}

#[test]
fn the_progress_meter_is_set_back_before_it_overflows() {
    let mut queues = Subject::new(queue(2, 1, 10), 1000);
    queues.started(0, "0", seats(1000, 0, 0));
    let waiting = queues.started(1, "1", seats(1000, 0, 0));
    let year = 365 * 24 * 3600 * 1000;
    queues.queues.advance(at(5 * year));
    let before = queues.queues.current_r();
    queues.queues.advance(at(10 * year));
    // The readings of the requests are too old to be set back.
    assert_eq!(queues.queues.epoch_advances(), [1, 0]);
    assert!(queues.queues.current_r() < before);
    assert!(queues.queues.cancel(at(10 * year), waiting));
    queues.check_sums();
}

#[test]
fn flows_of_dear_requests_get_less_if_that_is_charged() {
    let check = |charges: bool, dear: f64| {
        let mut queues = Subject::new(queue(8, 1, 100), 2);
        queues.queues.charge_actual_cost(charges);
        // Both flows seem to be equal, but a request of flow 2 takes four times as much as it seems.
        let clients = [Client { count: 4, ..CLIENT }, Client { flow: "2", count: 4, cost: 0.4, ..CLIENT }];
        let shares = simulate(&mut queues, &clients, 60);
        assert_near(shares["2"].0, dear, 0.05);
        assert_near(shares["1"].0, 120.0 - dear, 0.05);
    };
    check(false, 60.0);
    check(true, 24.0);
}

#[test]
fn a_single_client_is_charged_although_its_queue_is_idle_between_its_requests() {
    let check = |charges: bool, range: std::ops::Range<f64>| {
        let mut queues = Subject::new(queue(8, 1, 100), 1);
        queues.queues.charge_actual_cost(charges);
        let clients = [Client { count: 2, ..CLIENT }, Client { flow: "2", cost: 1.0, pause: 1, ..CLIENT }];
        let shares = simulate(&mut queues, &clients, 60);
        assert!(range.contains(&shares["2"].0), "{shares:?}");
        // Nobody is shut out.
        assert!(shares["2"].1 < 6000, "{shares:?}");
    };
    check(false, 29.0..31.0);
    check(true, 3.0..8.0);
}

#[test]
fn random_requests_keep_the_sums() {
    run_random_requests(false);
    run_random_requests(true);
}

fn run_random_requests(keeps_seats_free: bool) {
    let mut random = 42_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut queues = Subject::new(queue(8, 3, 5), 10);
    queues.queues.charge_actual_cost(true);
    queues.queues.keep_seats_free(keeps_seats_free);
    let mut requests = Vec::new();
    let mut now = 0;
    for _ in 0..20_000 {
        now += next(3);
        match next(10) {
            0..5 => {
                let flow = next(20).wrapping_mul(7919).to_string();
                requests.extend(queues.start(now, &flow, seats(1 + next(4), next(20), next(4))));
            }
            5..9 if !requests.is_empty() => {
                let id = requests.swap_remove(next(requests.len() as u64) as usize);
                let cost = SeatSeconds::of_nanoseconds(next(100), 1_000_000);
                match queues.queues.phase(id) {
                    Some(Phase::Executing) => queues.queues.finish(at(now), id, Some(cost)),
                    _ => drop(queues.queues.cancel(at(now), id)),
                }
            }
            9 if next(20) == 0 => {
                let response = match next(4) {
                    0 => LimitResponse::Reject,
                    _ => queue(4 + next(8) as usize, 3, 1 + next(6) as usize),
                };
                queues.queues.configure(at(now), response, 1 + next(12) as usize);
            }
            _ => queues.queues.advance(at(now)),
        }
        queues.check_sums();
        let limit = queues.queues.concurrency_limit();
        let has_room =
            queues.queues.waiting() > 0 && queues.queues.executing() == 0 && queues.queues.seats_in_use() < limit;
        assert!(!has_room || queues.queues.next_release().is_some(), "a request waits for nothing");
    }
    for id in requests {
        queues.queues.advance(at(now));
        if !queues.queues.cancel(at(now), id) {
            queues.queues.finish(at(now), id, None);
        }
    }
    queues.queues.advance(at(now + 10_000));
    let executing: Vec<_> = queues.queues.take_dispatched().collect();
    executing.into_iter().for_each(|id| queues.queues.finish(at(now + 10_000), id, None));
    queues.queues.advance(at(now + 1_000_000));
    queues.check_sums();
    assert!(queues.queues.is_idle() && queues.queues.seats_in_use() == 0 && queues.queues.requests.iter().count() == 0);
}

/// A queue set that keeps seats free.
fn with_free_seats(limit_response: LimitResponse, limit: usize) -> Subject {
    let mut queues = Subject::new(limit_response, limit);
    queues.queues.keep_seats_free(true);
    queues
}

#[test]
fn a_flow_leaves_seats_to_others() {
    // The requests of the noisy flows never end. Each flow holds as many seats as it can.
    for (limit, flows, free) in [(45, 1, 5), (49, 1, 5), (45, 2, 2), (49, 10, 0), (7, 1, 0), (1, 1, 0)] {
        let mut queues = with_free_seats(queue(128, 6, 50), limit);
        for _ in 0..50 {
            for flow in 0..flows {
                queues.started(0, &format!("noisy-{flow}"), seats(1, 0, 0));
            }
        }
        assert_eq!(queues.queues.seats_in_use(), limit - free, "{limit} seats, {flows} flows");
        let quiet: Vec<_> = (0..free).map(|_| queues.started(1, "quiet", seats(1, 0, 0))).collect();
        assert!(quiet.iter().all(|id| queues.is_executing(*id)), "{limit} seats, {flows} flows");
    }
}

#[test]
fn a_flow_that_has_to_leave_seats_free_goes_on_when_its_requests_end() {
    let mut queues = with_free_seats(queue(1, 1, 3), 49);
    let running: Vec<_> = (0..6).map(|_| queues.started(0, "noisy", seats(8, 0, 0))).collect();
    assert!(running.iter().all(|id| queues.is_executing(*id)));
    // The last one takes the seats that are left for its flow.
    assert_eq!(queues.queues.seats_in_use(), 44);
    let waiting: Vec<_> = (0..3).map(|_| queues.started(1, "noisy", seats(8, 0, 0))).collect();
    assert!(!waiting.iter().any(|id| queues.is_executing(*id)));
    // The queue is full for this flow, although seats are free.
    assert_eq!(queues.start(2, "noisy", seats(1, 0, 0)), Err(RejectReason::QueueFull));
    // A request of another flow in the same queue has these seats, however many it was estimated.
    let wide = queues.started(2, "wide", seats(8, 0, 0));
    assert!(queues.is_executing(wide));
    assert_eq!(queues.queues.seats_in_use(), 49);
    queues.finish(3, wide);
    assert_eq!(queues.queues.seats_in_use(), 44);
    for (ended, next) in running.iter().zip(&waiting) {
        queues.finish(3, *ended);
        assert!(queues.is_executing(*next));
    }
}

#[test]
fn a_request_that_leaves_a_queue_lets_others_begin() {
    let mut queues = with_free_seats(queue(1, 1, 50), 1);
    let running = queues.started(0, "0", seats(1, 0, 0));
    let first = queues.started(0, "0", seats(1, 0, 0));
    assert!(queues.queues.cancel(at(1), first));
    queues.check_sums();
    queues.finish(2, running);
    assert_eq!(queues.queues.seats_in_use(), 0);
}

#[test]
fn without_free_seats_a_flow_gets_all_seats() {
    let mut queues = Subject::new(queue(128, 6, 50), 45);
    let noisy: Vec<_> = (0..45).map(|_| queues.started(0, "noisy", seats(1, 0, 0))).collect();
    assert!(noisy.iter().all(|id| queues.is_executing(*id)));
    let quiet = queues.started(1, "quiet", seats(1, 0, 0));
    assert!(!queues.is_executing(quiet));
}

#[test]
fn a_flow_pays_for_work_beside_its_requests_in_any_queue() {
    let order = |charged: bool| {
        let mut queues = Subject::new(queue(2, 1, 10), 1);
        queues.queues.charge_actual_cost(true);
        let watch = queues.started(0, "1", seats(1, 0, 0));
        queues.finish(0, watch);
        // A request of flow 0 occupies the only seat.
        let running = queues.started(0, "0", seats(1, 0, 0));
        let (series, work) = (queues.series.clone(), SeatSeconds::of(1, Duration::from_secs(2)));
        if charged {
            queues.queues.charge_flow(at(0), &series, "1", work);
            assert_eq!(queues.queues.flow_uses().map(|flow| flow.actual).max(), Some(work));
        }
        let first = queues.started(1, "1", seats(1, 0, 0));
        let second = queues.started(2, "0", seats(1, 0, 0));
        queues.finish(3, running);
        let is_first = queues.is_executing(first);
        let ended = if is_first { first } else { second };
        assert!(queues.is_executing(ended));
        queues.finish(10, ended);
        // The flow that was charged has its turn when nothing else waits.
        assert!(queues.is_executing(if is_first { second } else { first }));
        is_first
    };
    assert!(order(false));
    assert!(!order(true));
}
