//! What was measured, as rows: a number with its unit, what one operation cost the server, how long it took, its budget
//! where the design names one, and what the Go peer takes. Printed as a table, as Markdown, as JSON and as a drawing.

mod plot;
mod text;

use serde_json::{Value, json};

use crate::load::{Percentiles, Round};
use crate::machine::Machine;
use crate::peer::Peer;

pub(crate) use text::thousands;

/// What a row is held to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Budget {
    /// The number may be no larger.
    AtMost(f64),
    /// The number may be no smaller.
    AtLeast(f64),
    /// One operation may take so many times less CPU than the peer's, or even less.
    PeerTimes(f64),
}

#[derive(Debug)]
struct Row {
    section: String,
    name: String,
    value: f64,
    unit: &'static str,
    budget: Option<Budget>,
    /// Microseconds of the server's CPU per operation.
    cpu: Option<f64>,
    /// Microseconds of the peer's CPU for the same, where it was measured.
    peer: Option<f64>,
    /// How many times as much CPU the machine took for the same work just before as that where the peer was measured.
    pace: f64,
    latencies: Option<Percentiles>,
    /// True where latencies count from when something was due, whatever the server did meanwhile.
    from_due: bool,
    note: String,
}

impl Row {
    /// How many times the CPU of this server the peer would take here.
    fn times(&self) -> Option<f64> {
        Some(self.peer? * self.pace / self.cpu.filter(|cpu| *cpu > 0.0)?)
    }

    /// How much of its budget is used: up to one, it is met. `None` where there is none or it cannot be judged.
    fn used(&self) -> Option<f64> {
        match self.budget? {
            Budget::AtMost(limit) => Some(self.value / limit),
            Budget::AtLeast(limit) => Some(limit / self.value),
            Budget::PeerTimes(limit) => Some(limit / self.times()?),
        }
    }

    fn met(&self) -> Option<bool> {
        self.used().map(|used| used <= 1.0)
    }
}

/// A row that was just added, to be completed.
pub(crate) struct Added<'r>(&'r mut Row);

impl Added<'_> {
    /// The number may be no larger.
    pub(crate) fn at_most(self, limit: f64) -> Self {
        self.0.budget = Some(Budget::AtMost(limit));
        self
    }

    /// The number is microseconds of CPU, and may be no larger where the peer was measured.
    pub(crate) fn micros_at_most(self, limit: f64) -> Self {
        let limit = limit * self.0.pace;
        self.at_most(limit)
    }

    /// The number may be no smaller.
    pub(crate) fn at_least(self, limit: f64) -> Self {
        self.0.budget = Some(Budget::AtLeast(limit));
        self
    }

    /// Microseconds of the server's CPU for one of what is counted.
    pub(crate) fn cpu(self, micros: Option<f64>) -> Self {
        self.0.cpu = micros;
        self
    }

    /// What the peer takes for one.
    pub(crate) fn peer(self, Peer(micros): Peer) -> Self {
        self.0.peer = Some(micros);
        self
    }

    /// What the peer takes for one, of which this server has to take `times` less.
    pub(crate) fn cheaper_than(self, peer: Peer, times: f64) -> Self {
        self.0.budget = Some(Budget::PeerTimes(times));
        self.peer(peer)
    }

    /// The CPU and the latencies of a closed loop's requests.
    pub(crate) fn round(self, round: &Round) -> Self {
        self.0.latencies = Some(round.percentiles());
        self.cpu(round.micros())
    }

    /// Latencies that count from when something was due.
    pub(crate) fn since_due(self, latencies: Percentiles) -> Self {
        self.0.latencies = Some(latencies);
        self.0.from_due = true;
        self
    }

    /// What else is worth knowing.
    pub(crate) fn note(self, text: impl Into<String>) -> Self {
        self.0.note = text.into();
        self
    }
}

/// The rows so far.
pub(crate) struct Report {
    machine: Machine,
    /// What was measured, and how much.
    subject: String,
    section: String,
    /// The machine's pace, as it was found before each scenario.
    paces: Vec<f64>,
    rows: Vec<Row>,
    /// What was not measured, and why.
    remarks: Vec<String>,
}

impl Report {
    /// A report on `subject` without rows.
    pub(crate) fn new(machine: Machine, subject: String) -> Self {
        Self { machine, subject, section: String::new(), paces: Vec::new(), rows: Vec::new(), remarks: Vec::new() }
    }

    /// How many times as much CPU the machine takes now for the same work as that where the peer was measured.
    pub(crate) fn pace(&mut self, pace: f64) {
        self.paces.push(pace);
    }

    /// Begins a section.
    pub(crate) fn section(&mut self, name: impl Into<String>) {
        self.section = name.into();
    }

    /// Adds a number.
    pub(crate) fn row(&mut self, name: impl Into<String>, value: f64, unit: &'static str) -> Added<'_> {
        let row = Row {
            section: self.section.clone(),
            name: name.into(),
            value,
            unit,
            budget: None,
            cpu: None,
            peer: None,
            pace: self.paces.last().copied().unwrap_or(1.0),
            latencies: None,
            from_due: false,
            note: String::new(),
        };
        // Behind the rows of the same section: a section may be taken up again.
        let last = self.rows.iter().rposition(|other| other.section == self.section);
        let at = last.map_or(self.rows.len(), |last| last + 1);
        self.rows.insert(at, row);
        Added(&mut self.rows[at])
    }

    /// Adds a number of which nothing is known where the server's processes cannot be seen.
    pub(crate) fn row_if(
        &mut self,
        name: impl Into<String>,
        value: Option<f64>,
        unit: &'static str,
        complete: impl FnOnce(Added<'_>) -> Added<'_>,
    ) {
        if let Some(value) = value {
            complete(self.row(name, value, unit));
        }
    }

    /// Says what was not measured, and why.
    pub(crate) fn remark(&mut self, text: impl Into<String>) {
        self.remarks.push(text.into());
    }

    /// The table for people.
    pub(crate) fn text(&self) -> String {
        text::table(self)
    }

    /// The same as Markdown.
    pub(crate) fn markdown(&self) -> String {
        text::markdown(self)
    }

    /// The same as a drawing in SVG.
    pub(crate) fn svg(&self) -> String {
        plot::draw(self)
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let (bound, limit) = match row.budget {
                None => (Value::Null, Value::Null),
                Some(Budget::AtMost(limit)) => (json!("at most"), json!(limit)),
                Some(Budget::AtLeast(limit)) => (json!("at least"), json!(limit)),
                Some(Budget::PeerTimes(limit)) => (json!("times cheaper than the peer"), json!(limit)),
            };
            let latencies =
                row.latencies.map(|Percentiles { p50, p99, p999 }| json!({ "p50": p50, "p99": p99, "p99.9": p999 }));
            json!({
                "section": row.section, "name": row.name, "value": row.value, "unit": row.unit,
                "cpuMicroseconds": row.cpu, "peerMicroseconds": row.peer, "pace": row.pace, "peerTimes": row.times(),
                "milliseconds": latencies, "fromDue": row.from_due,
                "bound": bound, "limit": limit, "met": row.met(), "note": row.note,
            })
        });
        json!({
            "machine": self.machine.json(), "subject": self.subject,
            "rows": rows.collect::<Vec<_>>(), "remarks": self.remarks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: f64, complete: fn(Added<'_>) -> Added<'_>, met: Option<bool>, text: &str) {
        let mut report = Report::new(Machine::default(), "subject".to_owned());
        report.section("section");
        complete(report.row("name", value, "ms"));
        assert_eq!(report.rows[0].met(), met);
        let table = report.text();
        let line: Vec<&str> = table.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(line.join(" "), text);
        assert_eq!(report.json()["rows"][0]["met"], json!(met));
    }

    #[test]
    fn budgets() {
        check(99.96, |row| row.at_most(100.0), Some(true), "name 100.0 ms ≤ 100 met");
        check(101.0, |row| row.at_most(100.0).note("slow"), Some(false), "name 101 ms ≤ 100 MISSED slow");
        check(0.61, |row| row.at_least(0.6), Some(true), "name 0.61 ms ≥ 0.60 met");
        check(5.0, |row| row, None, "name 5.00 ms");
        check(5.0, |row| row.cpu(Some(10.0)).peer(Peer(120.0)), None, "name 5.00 ms 10.0 µs 12.0x");
        check(
            5.0,
            |row| row.cpu(Some(10.0)).cheaper_than(Peer(120.0), 20.0),
            Some(false),
            "name 5.00 ms 10.0 µs 12.0x ≥ 20.0x MISSED",
        );
        check(5.0, |row| row.cheaper_than(Peer(120.0), 20.0), None, "name 5.00 ms ≥ 20.0x");
        let text = "name 5.00 ms 1.00/2.00/3.00";
        check(5.0, |row| row.since_due(Percentiles { p50: 1.0, p99: 2.0, p999: 3.0 }), None, text);
    }
}
