//! Formats the report as a table, for terminals and as Markdown.

use std::fmt::Write as _;

use super::{Budget, Report, ReportRow, growth};
use crate::load::Percentiles;

/// The cells of a row, in the order of [`HEADERS`].
fn cells(row: &ReportRow) -> [String; COLUMNS] {
    let times = |times: f64| format!("{}x", number(times));
    let value = |value: f64| format!("{} {}", number(value), row.unit).trim_end().to_owned();
    let cpu = |cpu: Option<f64>| cpu.map_or_else(String::new, |cpu| format!("{} µs", number(cpu)));
    [
        row.name.clone(),
        value(row.value),
        row.go.map_or_else(String::new, |go| value(go.value)),
        cpu(row.cpu),
        cpu(row.go.and_then(|go| go.cpu)),
        row.go_cpu_ratio().map_or_else(String::new, times),
        row.latencies.map_or_else(String::new, |Percentiles { p50, p99, p999 }| {
            format!("{}/{}/{}", number(p50), number(p99), number(p999))
        }),
        match row.budget {
            None => String::new(),
            Some(Budget::AtMost(limit)) => format!("≤ {}", number(limit)),
            Some(Budget::AtLeast(limit)) => format!("≥ {}", number(limit)),
            Some(Budget::CheaperThanGo(limit)) => format!("≥ {}", times(limit)),
        },
        match (row.budget, row.is_met()) {
            (None, _) => "",
            (Some(_), None) => "not measured",
            (Some(_), Some(true)) => "met",
            (Some(_), Some(false)) => "MISSED",
        }
        .to_owned(),
    ]
}

/// The number of columns, and how many of them follow the name and contain numbers.
const COLUMNS: usize = 9;
const NUMBERS: usize = 6;
const HEADERS: [&str; COLUMNS] =
    ["", "result", "Go result", "CPU/op", "Go CPU/op", "Go CPU ratio", "p50/99/99.9 ms", "budget", ""];

/// The legend of the columns.
const LEGEND: &str = "median of the rounds; a ratio compares with the baseline measured in alternating rounds; CPU/op is the server's CPU time\n\
                      per operation; Go is k8s.io/apiserver 0.36 over etcd, measured directly afterwards (tools/apiserver); Go CPU ratio is\n\
                      how many times as much CPU time it takes\n";

/// Formats the report for a terminal.
pub(super) fn table(report: &Report) -> String {
    let mut out = format!("{}\n{}\n{LEGEND}", report.machine, report.subject);
    let rows: Vec<_> = report.rows.iter().map(|row| (row, cells(row))).collect();
    let mut widths = HEADERS.map(|head| head.chars().count());
    for (_, cells) in &rows {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut line = |cells: [&str; COLUMNS], note: &str| {
        let mut line = String::from(" ");
        for (at, (cell, width)) in cells.into_iter().zip(widths).enumerate() {
            // Align numbers to the right and words to the left.
            let _ = if (1..=NUMBERS).contains(&at) {
                write!(line, " {cell:>width$} ")
            } else {
                write!(line, " {cell:width$} ")
            };
        }
        let _ = write!(line, " {note}");
        out.push_str(line.trim_end());
        out.push('\n');
    };
    line(HEADERS, "");
    let mut section = "";
    for (row, cells) in &rows {
        if row.section != section {
            section = &row.section;
            line([""; COLUMNS], "");
            let mut heading = [""; COLUMNS];
            heading[0] = section;
            line(heading, "");
        }
        line(cells.each_ref().map(String::as_str), &row.note);
    }
    report.lock_holds.markdown(&mut out);
    for remark in &report.remarks {
        let _ = write!(out, "\n{remark}");
    }
    if !report.remarks.is_empty() {
        out.push('\n');
    }
    out
}

/// Formats the report as Markdown.
pub(super) fn markdown(report: &Report) -> String {
    let mut out = format!("{}; {}.\n", report.machine, report.subject);
    let mut section = "";
    for row in report.rows.iter().filter(|row| !row.is_growth) {
        if row.section != section {
            section = &row.section;
            let _ = write!(out, "\n**{section}**\n\n| measurement |");
            for head in &HEADERS[1..COLUMNS - 1] {
                let _ = write!(out, " {head} |");
            }
            let _ = writeln!(out, "\n{}|", "|---".repeat(COLUMNS - 1));
        }
        let [columns @ .., met] = cells(row);
        let met = match met.as_str() {
            "" | "met" => String::new(),
            other => format!(", {}", other.to_lowercase()),
        };
        let _ = writeln!(out, "| {}{met} |", columns.join(" | "));
    }
    if !report.growth.is_empty() {
        growth::markdown(&report.growth, &mut out);
    }
    report.lock_holds.markdown(&mut out);
    for remark in &report.remarks {
        let _ = write!(out, "\n{remark}\n");
    }
    out
}

/// Formats a number with its significant digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1000.0 => thousands(value),
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats a rounded number with thousands separators.
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
    fn numbers_have_significant_digits_and_separators() {
        for (value, text) in
            [(0.123, "0.12"), (12.34, "12.3"), (1234.0, "1,234"), (12_345.0, "12,345"), (-1_234_567.0, "-1,234,567")]
        {
            assert_eq!(number(value), text);
        }
    }
}
