//! The report as a table, for terminals and for Markdown.

use std::fmt::Write as _;

use super::{Budget, Report, Row};
use crate::load::Percentiles;
use crate::yardstick::REFERENCE;

/// The cells of a row, in the order of [`HEADS`].
fn cells(row: &Row) -> [String; 7] {
    let times = |times: f64| format!("{}x", number(times));
    [
        row.name.clone(),
        format!("{} {}", number(row.value), row.unit).trim_end().to_owned(),
        row.cpu.map_or_else(String::new, |cpu| format!("{} µs", number(cpu))),
        row.times().map_or_else(String::new, times),
        row.latencies.map_or_else(String::new, |Percentiles { p50, p99, p999 }| {
            format!("{}/{}/{}", number(p50), number(p99), number(p999))
        }),
        match row.budget {
            None => String::new(),
            Some(Budget::AtMost(limit)) => format!("≤ {}", number(limit)),
            Some(Budget::AtLeast(limit)) => format!("≥ {}", number(limit)),
            Some(Budget::PeerTimes(limit)) => format!("≥ {}", times(limit)),
        },
        match row.met() {
            None => "",
            Some(true) => "met",
            Some(false) => "MISSED",
        }
        .to_owned(),
    ]
}

const HEADS: [&str; 7] = ["", "found", "CPU each", "peer's CPU", "p50/99/99.9 ms", "budget", ""];

/// What the columns mean.
const LEGEND: &str = "medians of the rounds; a ratio compares with what ran in turns with it; CPU is the server's; the peer is the\n\
                      Kubernetes API server library 0.36 over etcd (bench/src/peer.rs), with how many times as much CPU it takes\n";

/// How fast the machine was, if that was measured.
fn pace(report: &Report) -> String {
    let mut paces = report.paces.clone();
    paces.sort_by(f64::total_cmp);
    let [Some(fastest), Some(slowest)] = [paces.first(), paces.last()] else { return String::new() };
    let (from, to) = (number(fastest * REFERENCE), number(slowest * REFERENCE));
    format!(
        "a bare server over plain HTTP takes {from} to {to} µs of CPU for an answer here, and {REFERENCE} where the peer was\n\
         measured: its CPU, and budgets in microseconds of CPU, are multiplied accordingly\n"
    )
}

/// The table for terminals.
pub(super) fn table(report: &Report) -> String {
    let mut out = format!("{}\n{}\n{LEGEND}{}", report.machine, report.subject, pace(report));
    let rows: Vec<_> = report.rows.iter().map(|row| (row, cells(row))).collect();
    let mut widths = HEADS.map(|head| head.chars().count());
    for (_, cells) in &rows {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut line = |cells: [&str; 7], note: &str| {
        let mut line = String::from(" ");
        for (at, (cell, width)) in cells.into_iter().zip(widths).enumerate() {
            // Numbers stand to the right, words to the left.
            let _ =
                if (1..5).contains(&at) { write!(line, " {cell:>width$} ") } else { write!(line, " {cell:width$} ") };
        }
        let _ = write!(line, " {note}");
        out.push_str(line.trim_end());
        out.push('\n');
    };
    line(HEADS, "");
    let mut section = "";
    for (row, cells) in &rows {
        if row.section != section {
            section = &row.section;
            line([""; 7], "");
            line([section, "", "", "", "", "", ""], "");
        }
        line(cells.each_ref().map(String::as_str), &row.note);
    }
    for remark in &report.remarks {
        let _ = write!(out, "\n{remark}");
    }
    if !report.remarks.is_empty() {
        out.push('\n');
    }
    out
}

/// The table for Markdown.
pub(super) fn markdown(report: &Report) -> String {
    let mut out = format!("{}; {}.\n{}", report.machine, report.subject, pace(report));
    let mut section = "";
    for row in &report.rows {
        if row.section != section {
            section = &row.section;
            let _ = write!(out, "\n**{section}**\n\n| work |");
            for head in &HEADS[1..6] {
                let _ = write!(out, " {head} |");
            }
            out.push_str("\n|---|---|---|---|---|---|\n");
        }
        let [name, found, cpu, peer, latencies, budget, met] = cells(row);
        let missed = if met == "MISSED" { ", missed" } else { "" };
        let _ = writeln!(out, "| {name} | {found} | {cpu} | {peer} | {latencies} | {budget}{missed} |");
    }
    for remark in &report.remarks {
        let _ = write!(out, "\n{remark}\n");
    }
    out
}

/// A number with the digits that mean something.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1000.0 => thousands(value),
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A whole number with a comma before every three digits.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (value, text) in
            [(0.123, "0.12"), (12.34, "12.3"), (1234.0, "1,234"), (12_345.0, "12,345"), (-1_234_567.0, "-1,234,567")]
        {
            assert_eq!(number(value), text);
        }
    }
}
