//! Simulations of queue sets. A replay does the recorded operations in their order and writes the same text.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use pintle_flow_control::{
    Arrival, Dealer, LimitResponse, Moment, Phase, QueueSet, RatioGauge, RequestId, SchemaSeries, SeatSeconds,
    WorkEstimate,
};

use crate::{is_near, recorded};

/// A simulation.
struct Replay {
    set: QueueSet,
    limit: usize,
    /// The work that each request really takes.
    cost: SeatSeconds,
    now: Moment,
    hashes: Vec<u64>,
    /// The requests by their numbers; `None` for rejected requests.
    requests: Vec<Option<RequestId>>,
    estimates: Vec<WorkEstimate>,
    schema: Arc<SchemaSeries>,
    demand: RatioGauge,
    /// The seats of upstream that wait although no request waits for them. If upstream lowers the final seats of a request
    /// at its dispatch, then it counts only the remaining seats as no longer waiting.
    leaked: usize,
}

impl Replay {
    fn new(config: &[i64], charges_actual_cost: bool) -> Self {
        let limit = config[3] as usize;
        let mut set = QueueSet::new(limit_response(config), limit, Moment::START);
        set.charge_actual_cost(charges_actual_cost);
        Self {
            set,
            limit,
            cost: if charges_actual_cost { SeatSeconds::ZERO } else { SeatSeconds::MAX },
            now: Moment::START,
            hashes: Vec::new(),
            requests: Vec::new(),
            estimates: Vec::new(),
            schema: Arc::new(SchemaSeries::new("schema")),
            demand: RatioGauge::new(&[1.0], Moment::START),
            leaked: 0,
        }
    }

    /// Does an operation and returns its line.
    fn operation(&mut self, letter: &str, numbers: &[i64]) -> String {
        self.now = self.now.plus(Duration::from_nanos(numbers[0] as u64));
        let mut line = letter.to_owned();
        let given = match letter {
            "d" => &numbers[..1],
            _ => numbers,
        };
        for number in given {
            let _ = write!(line, " {number}");
        }
        match letter {
            "a" => self.arrive(&mut line, numbers),
            "f" => {
                self.set.finish(self.now, self.request(numbers[1]), Some(self.cost));
                self.write_idle(&mut line);
            }
            "l" => {
                assert_eq!(self.set.phase(self.request(numbers[1])), Some(Phase::Lingering), "{line}");
                assert_eq!(self.set.next_release(), Some(self.now), "{line}");
                self.set.advance(self.now);
                assert_eq!(self.set.phase(self.request(numbers[1])), None, "{line}");
            }
            "c" => {
                assert!(self.set.cancel(self.now, self.request(numbers[1])), "{line}");
                line += " time-out";
                self.write_idle(&mut line);
            }
            "g" => {
                self.limit = numbers[4] as usize;
                self.set.configure(self.now, limit_response(&numbers[1..]), self.limit);
            }
            _ => self.write_dump(&mut line),
        }
        self.write_dispatched(&mut line);
        self.demand.set(self.set.seat_demand() + self.leaked, self.now);
        line
    }

    fn request(&self, number: i64) -> RequestId {
        self.requests[number as usize].expect("an accepted request")
    }

    fn arrive(&mut self, line: &mut String, numbers: &[i64]) {
        let flow = numbers[1] as usize;
        let estimate = WorkEstimate {
            initial_seats: numbers[2] as u64,
            final_seats: numbers[3] as u64,
            additional_latency: Duration::from_nanos(numbers[4] as u64),
        };
        let arrival = Arrival {
            schema: Arc::clone(&self.schema),
            distinguisher: &flow.to_string(),
            hash: Some(self.hashes[flow]),
            estimate,
        };
        self.estimates.push(estimate);
        match self.set.start(self.now, arrival) {
            Ok(id) => self.requests.push(Some(id)),
            Err(reason) => {
                self.requests.push(None);
                let _ = write!(line, " {}", reason.name());
                self.write_idle(line);
            }
        }
    }

    fn write_idle(&self, line: &mut String) {
        if self.set.is_idle() {
            line.push_str(" idle");
        }
    }

    /// Writes the requests that the operation has dispatched.
    fn write_dispatched(&mut self, line: &mut String) {
        let dispatched: Vec<RequestId> = self.set.take_dispatched().collect();
        let number = |id: &RequestId| self.requests.iter().position(|other| *other == Some(*id)).expect("a request");
        let mut numbers: Vec<usize> = dispatched.iter().map(number).collect();
        // A request that passes no queue is not listed.
        if let Some(Some(last)) = self.requests.last()
            && line.starts_with('a')
            && self.set.queue_of(*last).is_none()
        {
            numbers.push(self.requests.len() - 1);
        }
        if !numbers.is_empty() {
            line.push_str(" >");
        }
        for number in numbers {
            let _ = write!(line, " {number}");
            let WorkEstimate { initial_seats, final_seats, .. } = self.estimates[number];
            if self.set.queue_of(self.request(number as i64)).is_some() {
                let lowered = final_seats.min(self.limit as u64);
                self.leaked += (initial_seats.max(final_seats) - initial_seats.max(lowered)) as usize;
            }
        }
    }

    fn write_dump(&self, line: &mut String) {
        let dump = self.set.dump();
        let in_use = self.set.seats_in_use();
        let waiting = self.set.seat_demand() - in_use + self.leaked;
        let _ = write!(
            line,
            " {} {} {} {waiting} {in_use} {} {} {}",
            units(self.set.current_r()),
            dump.waiting,
            dump.executing,
            dump.rejected,
            dump.cancelled,
            dump.queues.len(),
        );
        self.write_idle(line);
        for (index, queue) in dump.queues.iter().enumerate() {
            if queue.waiting.is_empty() && queue.executing.is_empty() && queue.seats_in_use == 0 {
                continue;
            }
            let initial: u64 = queue.waiting.iter().map(|request| request.estimate.initial_seats).sum();
            let max: u64 = queue.waiting.iter().map(|request| request.estimate.max_seats()).sum();
            let _ = write!(
                line,
                " {index}:{}:{}:{}:{}:{initial}:{max}:{}",
                units(queue.next_dispatch_r),
                queue.waiting.len(),
                queue.executing.len(),
                queue.seats_in_use,
                units(queue.waiting_work),
            );
        }
    }
}

fn limit_response(config: &[i64]) -> LimitResponse {
    match config[0] {
        ..0 => LimitResponse::Exempt,
        0 => LimitResponse::Reject,
        queues => LimitResponse::Queue {
            dealer: Dealer::new(queues as usize, config[2] as usize).expect("valid sizes"),
            queue_length_limit: config[1] as usize,
        },
    }
}

/// The number of units of 10 nanoseconds.
fn units(work: SeatSeconds) -> String {
    let text = work.to_string().replace(['.', 's'], "");
    let digits = text.trim_start_matches('0');
    if digits.is_empty() { "0".to_owned() } else { digits.to_owned() }
}

/// The numbers of a line, up to the first other word.
fn numbers(words: &[&str]) -> Vec<i64> {
    words.iter().map_while(|word| word.parse().ok()).collect()
}

/// The operations of a simulation. Additional latencies that end at the same time are one operation of the queue set, and
/// the first of them.
fn operations<'t>(lines: &[&'t str]) -> Vec<(&'t str, String)> {
    let mut operations: Vec<(&str, String)> = Vec::new();
    for line in lines {
        let (operation, dispatched) = line.split_once(" >").unwrap_or((line, ""));
        if let Some((last, all)) = operations.last_mut()
            && last.starts_with("l ")
            && operation.starts_with("l 0 ")
        {
            all.push_str(dispatched);
        } else {
            operations.push((operation, dispatched.to_owned()));
        }
    }
    operations
}

fn replay(simulation: &str, charges_actual_cost: bool) {
    let lines: Vec<&str> = simulation.lines().collect();
    let name = lines[0];
    let mut replayed: Option<Replay> = None;
    for (number, (operation, dispatched)) in operations(&lines[1..]).into_iter().enumerate() {
        let words: Vec<&str> = operation.split(' ').collect();
        let numbers = numbers(&words[1..]);
        let Some(replay) = &mut replayed else {
            assert_eq!(words[0], "set", "{name}");
            replayed = Some(Replay::new(&numbers, charges_actual_cost));
            continue;
        };
        match words[0] {
            "flow" => replay.hashes.push(words[2].parse().expect("a hash")),
            "demand" => {
                let found = replay.demand.next_period(replay.now);
                let expected: Vec<f64> = words[1..].iter().map(|word| word.parse().expect("a number")).collect();
                let found = [found.average, found.deviation, found.highest as f64];
                let is_equal = found.iter().zip(&expected).all(|(one, other)| is_near(*one, *other));
                assert!(is_equal, "{name}: demand {found:?} instead of {expected:?}");
            }
            letter => {
                let expected = match dispatched.as_str() {
                    "" => operation.to_owned(),
                    dispatched => format!("{operation} >{dispatched}"),
                };
                assert_eq!(replay.operation(letter, &numbers), expected, "{name}, operation {number}");
            }
        }
    }
}

fn replay_all(charges_actual_cost: bool) {
    let text = recorded("queue_sets.txt");
    let simulations: Vec<&str> = text.split("# ").filter(|simulation| !simulation.is_empty()).collect();
    assert!(simulations.len() > 100);
    for simulation in simulations {
        replay(simulation, charges_actual_cost);
    }
}

#[test]
fn requests_are_dispatched_as_upstream_dispatches_them() {
    replay_all(false);
}

#[test]
fn charges_change_nothing_if_no_request_exceeds_its_estimate() {
    replay_all(true);
}
