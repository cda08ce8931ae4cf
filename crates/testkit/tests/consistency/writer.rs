//! A client that makes, changes and deletes objects in every way that there is, without knowing what others do.

use std::sync::atomic::Ordering;

use pintle_testkit::{Protocol, Response};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::kind::{KINDS, Kind, NAMES, NAMESPACES};
use crate::object::revision;
use crate::world::{Ledger, Line, World, Written, count};

/// What a writer does next.
enum Write {
    /// A request, and the mark that it leaves if it succeeds.
    Change(&'static str, String, &'static str, String, Option<u64>),
    /// A deletion of one object or of a selection.
    Delete(String),
}

/// A writer of one round.
pub(crate) struct Writer {
    dice: Dice,
    /// What its marks are counted from.
    marks: u64,
    filler: usize,
}

impl Writer {
    pub(crate) fn new(seed: u64, round: usize, number: usize, filler: usize) -> Self {
        let part = round * 100 + number;
        Self { dice: Dice::of(seed, "writer", part), marks: part as u64 * 1_000_000, filler }
    }

    /// Writes so many times.
    pub(crate) async fn write(mut self, world: &World, protocol: Protocol, times: usize) -> Self {
        let mut line = Line::open(world, protocol);
        for _ in 0..times {
            let at = self.dice.roll(KINDS.len());
            let ledger = &world.ledgers[at];
            ledger.keep_step().await;
            let write = self.next(&KINDS[at], &mut line).await;
            let ask = match &write {
                Write::Change(method, path, media_type, body, _) => {
                    line.client.request(method, path).body(media_type, body.clone())
                }
                Write::Delete(path) => line.client.request("DELETE", path),
            };
            match ask.try_send().await {
                // What is stopping may say so; the write may have happened.
                Ok(answer) if answer.status == 503 => count(&ledger.unknown),
                // What is killed may still say that its task ended; then it is soon gone.
                Ok(answer) if answer.status == 500 => {
                    count(&ledger.unknown);
                    line.reopen(world, &answer.text()).await;
                }
                Ok(answer) => heed(ledger, &write, &answer),
                Err(broken) => {
                    count(&ledger.unknown);
                    line.reopen(world, &broken).await;
                }
            }
        }
        self
    }

    async fn next(&mut self, kind: &'static Kind, line: &mut Line) -> Write {
        self.marks += 1;
        let mark = self.marks;
        let namespace = kind.namespaced.then(|| *self.dice.pick(&NAMESPACES));
        let name = format!("x{}", self.dice.roll(NAMES));
        let collection = kind.path(namespace);
        let path = format!("{collection}/{name}");
        let json = "application/json";
        match self.dice.roll(20) {
            0..5 => Write::Change("POST", collection, json, self.object(kind, &name).to_string(), Some(mark)),
            5..8 => Write::Change("PUT", path, json, self.object(kind, &name).to_string(), Some(mark)),
            8..10 => match self.read(line, &path).await {
                Some(mut object) => {
                    object["metadata"]["labels"] = self.labels();
                    Write::Change("PUT", path, json, object.to_string(), Some(mark))
                }
                None => Write::Change("POST", collection, json, self.object(kind, &name).to_string(), Some(mark)),
            },
            10..13 => {
                let mut labels = self.labels();
                if labels["pick"].is_null() {
                    labels["pick"] = Value::Null;
                }
                let patch = json!({"metadata": {"labels": labels}}).to_string();
                let strategic = self.dice.one_in(2);
                let media_type = if strategic { "strategic-merge" } else { "merge" };
                let media_type = match media_type {
                    "merge" => "application/merge-patch+json",
                    _ => "application/strategic-merge-patch+json",
                };
                Write::Change("PATCH", path, media_type, patch, Some(mark))
            }
            13 => {
                let patch = json!([{"op": "replace", "path": "/metadata/labels", "value": self.labels()}]);
                Write::Change("PATCH", path, "application/json-patch+json", patch.to_string(), Some(mark))
            }
            14 | 15 if kind.aside.is_some() => match &kind.aside {
                Some(aside) => {
                    let body = (*self.dice.pick(aside.bodies)).to_owned();
                    Write::Change(aside.method, format!("{path}/{}", aside.subresource), aside.media_type, body, None)
                }
                None => Write::Delete(path),
            },
            16 if self.dice.one_in(8) => {
                Write::Delete(format!("{collection}?gracePeriodSeconds=0&labelSelector=shade%3Dc,pick%21%3Dyes"))
            }
            _ => Write::Delete(format!("{path}?gracePeriodSeconds=0")),
        }
    }

    /// What is there, if it is.
    async fn read(&mut self, line: &mut Line, path: &str) -> Option<Value> {
        let answer = line.client.request("GET", path).try_send().await.ok()?;
        (answer.status == 200).then(|| answer.json())
    }

    fn labels(&mut self) -> Value {
        let mut labels = json!({"mark": self.marks.to_string(), "shade": self.dice.pick(&["a", "b", "c"])});
        match self.dice.roll(3) {
            0 => {}
            1 => labels["pick"] = json!("no"),
            _ => labels["pick"] = json!("yes"),
        }
        labels
    }

    fn object(&mut self, kind: &Kind, name: &str) -> Value {
        let mut metadata = json!({"name": name, "labels": self.labels()});
        if self.filler > 0 {
            metadata["annotations"] = json!({"filler": "x".repeat(self.filler)});
        }
        kind.object(metadata, self.dice.roll(6))
    }
}

/// Sees to it that there is a change of a kind that nobody else makes, and says at which revision.
pub(crate) async fn settle(world: &World, at: usize, round: usize) -> u64 {
    let (kind, ledger) = (&KINDS[at], &world.ledgers[at]);
    let mut writer = Writer::new(world.seed, round, 99, 0);
    writer.marks += 1;
    let line = Line::open(world, Protocol::Any);
    let collection = kind.path(kind.namespaced.then_some(NAMESPACES[0]));
    let patch = json!({"metadata": {"labels": {"mark": writer.marks.to_string()}}}).to_string();
    let path = format!("{collection}/x0");
    let mark = Some(writer.marks);
    let mut write = Write::Change("PATCH", path, "application/merge-patch+json", patch, mark);
    loop {
        let Write::Change(method, path, media_type, body, _) = &write else { unreachable!("a deletion") };
        let answer = line.client.request(method, path).body(media_type, body.clone()).send().await;
        heed(ledger, &write, &answer);
        if answer.status.is_success() {
            return revision(answer.json()["metadata"]["resourceVersion"].as_str());
        }
        let object = writer.object(kind, "x0").to_string();
        write = Write::Change("POST", collection.clone(), "application/json", object, mark);
    }
}

/// Writes down what an answer says.
fn heed(ledger: &Ledger, write: &Write, answer: &Response) {
    let what = || format!("{}: {}", answer.status, answer.text());
    match (answer.status.as_u16(), write) {
        (200, Write::Delete(path)) => {
            let body = answer.json();
            // A selection is answered with what it found, which others may have deleted first.
            match body["items"].as_array().filter(|_| path.contains("labelSelector")) {
                Some(found) => {
                    ledger.shared.fetch_add(found.len(), Ordering::Relaxed);
                }
                None => count(&ledger.deleted),
            }
        }
        (200 | 201, Write::Change(.., mark)) => {
            let body = answer.json();
            let revision = revision(body["metadata"]["resourceVersion"].as_str());
            if !body["metadata"]["deletionTimestamp"].is_null() {
                // It was being deleted, and this took it away: what is answered was never there.
                count(&ledger.shared);
                return;
            }
            if let Some(mark) = mark {
                assert_eq!(body["metadata"]["labels"]["mark"], mark.to_string(), "{}", what());
            }
            ledger.acknowledge(Written { revision, mark: *mark });
        }
        // It is not there, it is there, somebody was quicker, or what is there must not become this.
        (404 | 409 | 422, _) => {}
        _ => panic!("{}", what()),
    }
}
