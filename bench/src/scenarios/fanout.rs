//! Watch fan-out: many watchers of one collection, and writers that create in it as fast as they are answered or at a
//! steady pace. What a delivered event costs is found by difference to the same creates without watchers. How late it is
//! counts from when the create was due to when the last watcher has it: the revisions in the answers tell which event
//! came of which create.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use parking_lot::Mutex;

use super::PROTOBUF;
use super::create::creates;
use crate::Result;
use crate::client::{Protocol, accepting, get};
use crate::load::{Load, Percentiles, Round, Witness, median, middle};
use crate::objects::{config_maps, revision};
use crate::peer::{self, Peer};
use crate::plan::Plan;
use crate::scenario::{Bench, Scenario};
use crate::target::{Server, Target};
use crate::watchers::{Arrivals, Framing, Watching};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "fanout",
    does: "100 and 1,000 watchers of one collection, writers at full speed and at 10/s",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

/// Clients that create.
const WRITERS: usize = 16;

/// Watchers and writers of one measurement.
struct Case {
    name: &'static str,
    watchers: usize,
    protocol: Protocol,
    framing: Framing,
    /// Creates per second; as many as are answered if there is none.
    pace: Option<f64>,
    /// Microseconds of the server's CPU that a delivered event may cost, and events per second at least.
    cost: f64,
    rate: Option<f64>,
    peer: Peer,
}

const FULL_SPEED: Case = Case {
    name: "100 watchers, full speed",
    watchers: 100,
    protocol: Protocol::Http1,
    framing: Framing::Lines,
    pace: None,
    cost: 2.0,
    rate: Some(200_000.0),
    peer: peer::EVENT_FULL_SPEED,
};

const CASES: [Case; 5] = [
    FULL_SPEED,
    Case { name: "1,000 watchers, full speed", watchers: 1000, ..FULL_SPEED },
    Case {
        name: "100 watchers, full speed, Protobuf over HTTP/2",
        protocol: Protocol::Http2,
        framing: Framing::Lengths,
        ..FULL_SPEED
    },
    Case { name: "1,000 watchers, full speed, Protobuf", watchers: 1000, framing: Framing::Lengths, ..FULL_SPEED },
    Case {
        name: "1,000 watchers, 10 writes/s",
        watchers: 1000,
        pace: Some(10.0),
        cost: 15.0,
        rate: None,
        peer: peer::EVENT_PACED,
        ..FULL_SPEED
    },
];

async fn run(bench: &mut Bench) -> Result<()> {
    let mut target = bench.target().await?;
    bench.report.section(format!("watch: creates of 1 KiB ConfigMaps by {WRITERS} clients, delivered to all watchers"));
    for (at, case) in CASES.iter().enumerate() {
        // One long round of what comes at a pace, short ones of what is as fast as it may be.
        let (rounds, time) =
            if case.pace.is_some() { (1, bench.plan.open) } else { (bench.plan.rounds, bench.plan.time) };
        let (mut alone, mut watched) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let quiet = target.namespace(&format!("quiet-{at}-{round}")).await?;
            alone.push(Write::load(case, time).run(&target.server, &creates(&quiet, "w".to_owned())).await?);
            watched.push(fan_out(&mut target, case, time, &bench.plan, &format!("watch-{at}-{round}")).await?);
        }
        report(bench, case, median(alone), watched);
    }
    target.finish().await
}

fn report(bench: &mut Bench, case: &Case, alone: Round, watched: Vec<Watched>) {
    let kept = middle(watched.iter().filter_map(|round| round.kept));
    let creates = middle(watched.iter().map(|round| round.creates));
    let answered = middle(watched.iter().map(|round| round.after_answer));
    let mut late: Vec<u32> = watched.iter().flat_map(|round| round.late.iter().copied()).collect();
    late.sort_unstable();
    let late = Percentiles::of(&late);
    let events = median(watched.into_iter().map(|round| round.events).collect());

    let note = format!("{:.0} creates/s", events.rate() / case.watchers as f64);
    let row = bench.report.row(format!("{}: events", case.name), events.rate(), "/s").note(note);
    if let Some(rate) = case.rate {
        row.at_least(rate);
    }
    let total = events.micros();
    let cost = total.zip(alone.micros()).map(|(total, alone)| (total - alone / case.watchers as f64).max(0.0));
    bench.report.row_if(format!("{}: CPU per event", case.name), cost, "µs", |row| {
        let note = format!("{:.2} µs with the creates; {creates:.0} creates a round", total.unwrap_or_default());
        row.cpu(cost).peer(case.peer).micros_at_most(case.cost).note(note)
    });
    let note = format!("from the create's answer p50 {answered:.2} ms");
    let row = bench.report.row(format!("{}: last watcher has it, p99", case.name), late.p99, "ms");
    row.since_due(late).note(note);
    if case.pace.is_none() && case.framing == Framing::Lines {
        let name = format!("{}: memory kept per create", case.name);
        bench.report.row(name, kept, "bytes").note("resident, with the object itself");
    }
}

/// What a round with watchers saw.
struct Watched {
    /// Events, as if each were a request.
    events: Round,
    creates: f64,
    /// How long after each create was due the last watcher had it, in microseconds.
    late: Vec<u32>,
    /// The median of how long after the create's answer that was, in milliseconds.
    after_answer: f64,
    /// Resident bytes that came with each create.
    kept: Option<f64>,
}

/// A create that was answered.
struct Write {
    revision: u64,
    due: Instant,
    answered: Instant,
}

impl Write {
    /// The creates of a case.
    fn load(case: &Case, time: Duration) -> Load {
        match case.pace {
            None => Load::closed(WRITERS, time),
            Some(rate) => Load::open(WRITERS, rate, time),
        }
        .expecting(StatusCode::CREATED)
    }
}

async fn fan_out(target: &mut Target, case: &Case, time: Duration, plan: &Plan, name: &str) -> Result<Watched> {
    let namespace = target.namespace(name).await?;
    let server: &Server = &target.server;
    // Those that every namespace has are there already.
    let list = server.connect().await?.fetch(get(config_maps(&namespace)), StatusCode::OK).await?;
    let from = revision(&list).ok_or("the list has no resourceVersion")?;
    let path = format!("{}?watch=true&resourceVersion={from}", config_maps(&namespace));
    let arrivals = Arrivals::new();
    let watching = Watching::over(case.protocol).framed(case.framing).noting(&arrivals);
    let requests = (0..case.watchers).map(|_| match case.framing {
        Framing::Lines => get(path.as_str()),
        Framing::Lengths => accepting(path.as_str(), PROTOBUF),
    });
    let watchers = watching.open(server, requests).await?;
    let before = server.settled(plan).await?;

    let writes = Arc::new(Mutex::new(Vec::new()));
    let witness: Witness = {
        let writes = writes.clone();
        Arc::new(move |answer| {
            let revision = revision(answer.body).unwrap_or_default();
            writes.lock().push(Write { revision, due: answer.due, answered: answer.answered });
        })
    };
    let (started, cpu) = (Instant::now(), server.meter.cpu()?);
    let load = Write::load(case, time).witnessed(witness);
    let creates = load.run(server, &creates(&namespace, "w".to_owned())).await?.done;
    watchers.wait_for(creates * case.watchers as u64).await?;
    let (elapsed, cpu) = (started.elapsed(), server.meter.cpu_since(cpu)?);
    let after = server.settled(plan).await?;
    watchers.close().await;

    let mut writes = std::mem::take(&mut *writes.lock());
    // Events come in the order of their revisions.
    writes.sort_unstable_by_key(|write| write.revision);
    let late = |since: fn(&Write) -> Instant| {
        let numbered = writes.iter().enumerate();
        numbered.filter_map(|(number, write)| arrivals.after(number, since(write))).collect::<Vec<u32>>()
    };
    let after_answer = middle(late(|write| write.answered).into_iter().map(|micros| f64::from(micros) / 1e3));
    let kept = after.zip(before).map(|(after, before)| after.saturating_sub(before) as f64 / creates.max(1) as f64);
    let events = Round { done: creates * case.watchers as u64, elapsed, cpu, ..Round::default() };
    Ok(Watched { events, creates: creates as f64, late: late(|write| write.due), after_answer, kept })
}
