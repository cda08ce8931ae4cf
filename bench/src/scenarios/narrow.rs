//! Very many watches, each interested in little: the pods of a namespace, of a name, of a node. What they cost while
//! nothing happens, and what an event costs that one of them wants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;

use crate::Result;
use crate::client::{Outgoing, Protocol, get, patch};
use crate::load::{Load, Round, Script};
use crate::objects::{create, pod, pods, revision};
use crate::report::thousands;
use crate::scenario::{Bench, Scenario};
use crate::target::{Server, Target};
use crate::watchers::{Watchers, Watching};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "narrow",
    does: "10,000 open watches with narrow interest: memory, CPU per event, CPU while idle",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

/// Watches that get events; all others get none.
const WANTED: usize = 10;

/// What a watch is interested in.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Interest {
    Namespace(String),
    Name { namespace: String, name: String },
    Node(String),
}

impl Interest {
    /// The watch from a revision on.
    fn watch(&self, revision: u64) -> Outgoing {
        let from = format!("watch=true&resourceVersion={revision}");
        get(match self {
            Interest::Namespace(namespace) => format!("{}?{from}", pods(namespace)),
            Interest::Name { namespace, name } => {
                format!("{}?{from}&fieldSelector=metadata.name%3D{name}", pods(namespace))
            }
            Interest::Node(node) => format!("/api/v1/pods?{from}&fieldSelector=spec.nodeName%3D{node}"),
        })
    }
}

/// A pod whose changes exactly one watch wants, by its path, and that watch's interest.
struct Wanted {
    path: String,
    interest: Interest,
}

async fn run(bench: &mut Bench) -> Result<()> {
    let count = bench.plan.watches;
    bench.report.section(format!(
        "{} watches of pods by namespace, name and node, {WANTED} of which get events, {WANTED} clients write",
        thousands(count as f64)
    ));
    for (protocol, name, limit) in [(Protocol::Http1, "HTTP/1.1", 48.0), (Protocol::Http2, "HTTP/2 streams", 8.0)] {
        let mut target = bench.target().await?;
        let wanted = wanted(&mut target).await?;
        let server = target.server.clone();
        let list = server.connect().await?.fetch(get("/api/v1/pods?limit=1"), StatusCode::OK).await?;
        let from = revision(&list).ok_or("the list has no resourceVersion")?;
        let watching = Watching::over(protocol);
        let hot = watching.open(&server, wanted.iter().map(|wanted| wanted.interest.watch(from))).await?;
        let mut few = Vec::new();
        for _ in 0..bench.plan.rounds {
            few.push(events(&server, &wanted, &hot, bench.plan.time).await?);
        }
        let before = server.settled(&bench.plan).await?;
        let shared = format!("{}-shared", target.prefix());
        let idle = (WANTED..count).map(|number| idle(number, &shared).watch(from));
        let opening = Instant::now();
        let cold = watching.open(&server, idle).await?;
        let opened = (count - WANTED) as f64 / opening.elapsed().as_secs_f64();
        let after = server.settled(&bench.plan).await?;
        let (cpu, rest) = (server.meter.cpu()?, Instant::now());
        tokio::time::sleep(bench.plan.idle).await;
        let share = server.meter.cpu_since(cpu)?.map(|cpu| cpu.as_secs_f64() / rest.elapsed().as_secs_f64() * 100.0);
        let mut many = Vec::new();
        for _ in 0..bench.plan.rounds {
            many.push(events(&server, &wanted, &hot, bench.plan.time).await?);
        }

        let report = &mut bench.report;
        let each = after
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before) as f64 / 1e3 / (count - WANTED) as f64);
        let note = format!("opened at {opened:.0}/s");
        report.row_if(format!("{name}: memory of an idle watch"), each, "KB", |row| row.at_most(limit).note(note));
        report.row_if(format!("{name}: CPU while nothing happens"), share, "% of a core", |row| row);
        let (few, many) = (cheapest(few), cheapest(many));
        if let (Some(few), Some(much)) = (few.micros(), many.micros()) {
            let note = format!("{few:.1} µs with {WANTED}, the write included");
            let name = format!("{name}: CPU per event beside that with {WANTED} watches");
            report.row(name, much / few, "").cpu(Some(much)).at_most(2.0).note(note);
        }
        if cold.events() > 0 {
            return Err(format!("{} events came to watches that want none", cold.events()).into());
        }
        cold.close().await;
        hot.close().await;
        target.finish().await?;
    }
    Ok(())
}

/// Creates the pods that are wanted.
async fn wanted(target: &mut Target) -> Result<Vec<Wanted>> {
    let shared = target.namespace("shared").await?;
    let mut wanted = Vec::new();
    for number in 0..WANTED {
        let name = format!("wanted-{number}");
        let (namespace, node, interest) = match number % 3 {
            0 => {
                let own = target.namespace(&format!("own-{number}")).await?;
                (own.clone(), "elsewhere".to_owned(), Interest::Namespace(own))
            }
            1 => {
                let interest = Interest::Name { namespace: shared.clone(), name: name.clone() };
                (shared.clone(), "elsewhere".to_owned(), interest)
            }
            _ => {
                let node = format!("{}-node-{number}", target.prefix());
                (shared.clone(), node.clone(), Interest::Node(node))
            }
        };
        let request = create(pods(&namespace), pod(&name, &node, number as u64));
        target.server.connect().await?.exchange(request, StatusCode::CREATED).await?;
        wanted.push(Wanted { path: format!("{}/{name}", pods(&namespace)), interest });
    }
    Ok(wanted)
}

/// An interest in what never happens.
fn idle(number: usize, shared: &str) -> Interest {
    match number % 3 {
        0 => Interest::Namespace(format!("idle-{number}")),
        1 => Interest::Name { namespace: shared.to_owned(), name: format!("idle-{number}") },
        _ => Interest::Node(format!("idle-{number}")),
    }
}

/// Changes the wanted pods, each by a client of its own, as fast as they are answered, and waits until their watchers
/// know.
async fn events(server: &Server, wanted: &[Wanted], watchers: &Watchers, time: Duration) -> Result<Round> {
    let paths: Arc<[String]> = wanted.iter().map(|wanted| wanted.path.clone()).collect();
    let before = watchers.events();
    let script: Script = Arc::new(move |client, sent| {
        // What was never written before, or the write would be none.
        let body = format!(r#"{{"metadata":{{"annotations":{{"example.com/changed":"{before}-{sent}"}}}}}}"#);
        Some(patch(paths[client].as_str(), "application/merge-patch+json", body))
    });
    let round = Load::closed(WANTED, time).run(server, &script).await?;
    watchers.wait_for(before + round.done).await?;
    Ok(round)
}

/// The round that took the least CPU: what disturbs a round only ever adds.
fn cheapest(rounds: Vec<Round>) -> Round {
    rounds.into_iter().min_by_key(|round| round.cpu).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(interest: Interest, path: &str) {
        assert_eq!(interest.watch(7).uri().to_string(), path);
    }

    #[test]
    fn interests() {
        check(idle(3, "s"), "/api/v1/namespaces/idle-3/pods?watch=true&resourceVersion=7");
        check(
            idle(4, "s"),
            "/api/v1/namespaces/s/pods?watch=true&resourceVersion=7&fieldSelector=metadata.name%3Didle-4",
        );
        check(idle(5, "s"), "/api/v1/pods?watch=true&resourceVersion=7&fieldSelector=spec.nodeName%3Didle-5");
    }
}
