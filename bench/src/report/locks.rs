//! How long the server held its locks, from its metrics. The table has a line for each lock.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::text::{number, thousands};

/// The metric. Only a server with the feature `lock-hold-times` has it.
const METRIC: &str = "pintle_lock_holds_total{";
/// The budget for the 99.9th percentile of a lock's hold time, in microseconds.
const BUDGET: f64 = 50.0;

/// A lock and how it is taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LockUse {
    file: String,
    /// The type of the guarded data.
    guarded: String,
    mode: String,
}

/// The number of holds by their time in nanoseconds.
type Counts = BTreeMap<u64, u64>;

#[derive(Clone, Debug, Default)]
struct Times {
    /// Processor time of the thread.
    cpu: Counts,
    wall: Counts,
}

/// How long locks were held.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockHolds(BTreeMap<LockUse, Times>);

fn quantile(counts: &Counts, share: f64) -> f64 {
    let total: u64 = counts.values().sum();
    let wanted = (total as f64 * share).ceil();
    let mut seen = 0;
    let found = counts.iter().find(|(_, count)| {
        seen += **count;
        seen as f64 >= wanted
    });
    found.map_or(0.0, |(nanoseconds, _)| *nanoseconds as f64 / 1e3)
}

/// The name of a type without its modules.
fn short(name: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for character in name.chars() {
        match character {
            ':' => word.clear(),
            character if character.is_alphanumeric() || character == '_' => word.push(character),
            other => {
                out.push_str(&std::mem::take(&mut word));
                out.push(other);
            }
        }
    }
    out + &word
}

impl LockHolds {
    /// Reads the metrics of a server.
    pub(crate) fn read(metrics: &str) -> Self {
        let mut holds = Self::default();
        for line in metrics.lines().filter_map(|line| line.strip_prefix(METRIC)) {
            let label = |name: &str| {
                let from = line.find(&format!("{name}=\""))? + name.len() + 2;
                line[from..].split('"').next()
            };
            let count = line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok());
            let nanoseconds = label("nanoseconds").and_then(|text| text.parse().ok());
            let labels = (label("clock"), label("guarded"), label("mode"), label("place"));
            let (Some(count), Some(nanoseconds)) = (count, nanoseconds) else { continue };
            let (Some(clock), Some(guarded), Some(mode), Some(place)) = labels else { continue };
            let file = place.rsplit_once(':').map_or(place, |(file, _)| file).to_owned();
            let times =
                holds.0.entry(LockUse { file, guarded: guarded.to_owned(), mode: mode.to_owned() }).or_default();
            let counts = if clock == "cpu" { &mut times.cpu } else { &mut times.wall };
            *counts.entry(nanoseconds).or_default() += count as u64;
        }
        holds
    }

    /// True if nothing was recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the holds that a server has recorded between two reads.
    pub(crate) fn add(&mut self, after: &Self, before: &Self) {
        for (lock, times) in &after.0 {
            let own = self.0.entry(lock.clone()).or_default();
            let earlier = before.0.get(lock);
            for (own, counts, earlier) in [
                (&mut own.cpu, &times.cpu, earlier.map(|times| &times.cpu)),
                (&mut own.wall, &times.wall, earlier.map(|times| &times.wall)),
            ] {
                for (nanoseconds, count) in counts {
                    let earlier = earlier.and_then(|counts| counts.get(nanoseconds)).copied().unwrap_or_default();
                    if *count > earlier {
                        *own.entry(*nanoseconds).or_default() += count - earlier;
                    }
                }
            }
        }
        self.0.retain(|_, times| !times.cpu.is_empty());
    }

    /// Adds a table in Markdown, unless nothing was recorded.
    pub(super) fn markdown(&self, out: &mut String) {
        if self.is_empty() {
            return;
        }
        out.push_str("\n| lock | taken in | held | CPU p50 | CPU p99.9 | CPU longest | wall p50 | wall p99 |\n|");
        out.push_str(&"---|".repeat(8));
        out.push('\n');
        for (LockUse { file, guarded, mode }, Times { cpu, wall }) in &self.0 {
            let held: u64 = cpu.values().sum();
            let micros = |counts: &Counts, share: f64| format!("{} µs", number(quantile(counts, share)));
            let mark = if quantile(cpu, 0.999) > BUDGET { " (long)" } else { "" };
            let _ = writeln!(
                out,
                "| `{}`, {mode} | {} | {} | {} | {}{mark} | {} | {} | {} |",
                short(guarded),
                file.trim_start_matches("crates/"),
                thousands(held as f64),
                micros(cpu, 0.5),
                micros(cpu, 0.999),
                micros(cpu, 1.0),
                micros(wall, 0.5),
                micros(wall, 0.99),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_between_two_reads_are_a_table() {
        let line = |nanoseconds: u64, count: u64| {
            format!(
                "pintle_lock_holds_total{{guarded=\"a::B<c::d::E>\",mode=\"read\",place=\"crates/f/src/g.rs:7\",clock=\"cpu\",nanoseconds=\"{nanoseconds}\"}} {count}\n"
            )
        };
        let before = LockHolds::read(&format!("# HELP x\n{}", line(1000, 5)));
        let after = LockHolds::read(&format!("other 1\n{}{}", line(1000, 2005), line(80_000, 1)));
        assert!(LockHolds::read("other 1\n").is_empty() && !before.is_empty());
        let mut holds = LockHolds::default();
        holds.add(&after, &before);
        let mut out = String::new();
        holds.markdown(&mut out);
        let line = "| `B<E>`, read | f/src/g.rs | 2,001 | 1.00 µs | 1.00 µs | 80.0 µs | 0.00 µs | 0.00 µs |";
        assert_eq!(out.lines().last(), Some(line));
    }
}
