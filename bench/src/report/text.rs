//! Formats the report as a table, for terminals and as Markdown.

use std::fmt::Write as _;

use super::{Budget, Report, ReportRow};
use crate::calibration::REFERENCE_CPU_MICROS;
use crate::load::Percentiles;

/// The cells of a row, in the order of [`HEADERS`].
fn cells(row: &ReportRow) -> [String; 7] {
    let times = |times: f64| format!("{}x", number(times));
    [
        row.name.clone(),
        format!("{} {}", number(row.value), row.unit).trim_end().to_owned(),
        row.cpu.map_or_else(String::new, |cpu| format!("{} µs", number(cpu))),
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
        match row.is_met() {
            None => "",
            Some(true) => "met",
            Some(false) => "MISSED",
        }
        .to_owned(),
    ]
}

const HEADERS: [&str; 7] = ["", "result", "CPU/op", "Go CPU ratio", "p50/99/99.9 ms", "budget", ""];

/// The legend of the columns.
const LEGEND: &str = "median of the rounds; a ratio compares with the baseline measured in alternating rounds; CPU/op is the server's CPU time\n\
                      per operation; Go CPU ratio is how many times as much k8s.io/apiserver 0.36 over etcd takes (bench/src/go_apiserver.rs)\n";

/// Describes the measured CPU scale, if there is one.
fn describe_cpu_scale(report: &Report) -> String {
    let mut cpu_scales = report.cpu_scales.clone();
    cpu_scales.sort_by(f64::total_cmp);
    let [Some(fastest), Some(slowest)] = [cpu_scales.first(), cpu_scales.last()] else { return String::new() };
    let (from, to) = (number(fastest * REFERENCE_CPU_MICROS), number(slowest * REFERENCE_CPU_MICROS));
    format!(
        "the baseline server over plain HTTP takes {from} to {to} µs of CPU per response here, and {REFERENCE_CPU_MICROS} on the machine of the Go API\n\
         server: Go costs, and budgets in microseconds of CPU, are scaled accordingly\n"
    )
}

/// Formats the report for a terminal.
pub(super) fn table(report: &Report) -> String {
    let mut out = format!("{}\n{}\n{LEGEND}{}", report.machine, report.subject, describe_cpu_scale(report));
    let rows: Vec<_> = report.rows.iter().map(|row| (row, cells(row))).collect();
    let mut widths = HEADERS.map(|head| head.chars().count());
    for (_, cells) in &rows {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut line = |cells: [&str; 7], note: &str| {
        let mut line = String::from(" ");
        for (at, (cell, width)) in cells.into_iter().zip(widths).enumerate() {
            // Align numbers to the right and words to the left.
            let _ =
                if (1..5).contains(&at) { write!(line, " {cell:>width$} ") } else { write!(line, " {cell:width$} ") };
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

/// Formats the report as Markdown.
pub(super) fn markdown(report: &Report) -> String {
    let mut out = format!("{}; {}.\n{}", report.machine, report.subject, describe_cpu_scale(report));
    let mut section = "";
    for row in &report.rows {
        if row.section != section {
            section = &row.section;
            let _ = write!(out, "\n**{section}**\n\n| measurement |");
            for head in &HEADERS[1..6] {
                let _ = write!(out, " {head} |");
            }
            out.push_str("\n|---|---|---|---|---|---|\n");
        }
        let [name, found, cpu, go_cost, latencies, budget, met] = cells(row);
        let missed = if met == "MISSED" { ", missed" } else { "" };
        let _ = writeln!(out, "| {name} | {found} | {cpu} | {go_cost} | {latencies} | {budget}{missed} |");
    }
    for remark in &report.remarks {
        let _ = write!(out, "\n{remark}\n");
    }
    out
}

/// Formats a number with its significant digits.
pub(super) fn number(value: f64) -> String {
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
