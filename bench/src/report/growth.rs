//! The growth of cost with the number of other things. There is a table with a line for each number, and a plot for
//! each kind of thing.

use std::fmt::Write as _;

use super::plot::{CAPTION_COLOR, GRID_COLOR, LINE, MARGIN, MET_COLOR, NO_BUDGET_COLOR, SvgWriter, TEXT_COLOR, WIDTH};
use super::text::{number, thousands};

/// The operations that are measured beside the other things.
pub(crate) const OPERATIONS: [&str; 3] = ["GET", "create", "event"];
const COLORS: [&str; 3] = [NO_BUDGET_COLOR, MET_COLOR, "#c05621"];

/// The maximum ratio of the cost beside more things to the cost beside the fewest things.
pub(crate) const MAX_RATIO: f64 = 1.1;

/// The unit of an operation's cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CostKind {
    /// CPU time in microseconds.
    CpuTime,
    /// Thousands of instructions.
    Instructions,
}

impl CostKind {
    const ALL: [CostKind; 2] = [CostKind::CpuTime, CostKind::Instructions];

    /// The name of the cost.
    const fn name(self) -> &'static str {
        match self {
            CostKind::CpuTime => "CPU time",
            CostKind::Instructions => "instructions",
        }
    }

    /// The unit after a number.
    pub(crate) const fn unit(self) -> &'static str {
        match self {
            CostKind::CpuTime => "µs",
            CostKind::Instructions => "thousand",
        }
    }

    /// The unit after a number in a table or plot.
    const fn short_unit(self) -> &'static str {
        match self {
            CostKind::CpuTime => "µs",
            CostKind::Instructions => "k",
        }
    }
}

/// The growth of cost with one kind of thing.
#[derive(Debug)]
pub(crate) struct Growth {
    /// The name of the things.
    pub(crate) name: &'static str,
    pub(crate) cost: CostKind,
    /// The steps in the order of their numbers. The first step has the fewest things.
    pub(crate) steps: Vec<GrowthStep>,
}

/// The costs that were measured beside a number of things.
#[derive(Debug)]
pub(crate) struct GrowthStep {
    /// The number of things.
    pub(crate) count: u64,
    /// The cost of each operation.
    pub(crate) costs: [f64; 3],
    /// The ratio of each cost to the cost beside the fewest things. For times, it is the median of alternating rounds.
    pub(crate) ratios: [f64; 3],
    /// The memory that each thing takes in kilobytes, if it was measured.
    pub(crate) memory: Option<f64>,
    /// The time of a start with these things in milliseconds, if it was measured.
    pub(crate) start: Option<f64>,
}

/// Adds a table in Markdown for each kind of cost.
pub(super) fn markdown(growth: &[Growth], out: &mut String) {
    for (cost, growth) in by_cost(growth) {
        table(cost, &growth, out);
    }
}

/// The growth of each measured kind of cost.
fn by_cost(growth: &[Growth]) -> impl Iterator<Item = (CostKind, Vec<&Growth>)> {
    let of = |cost| growth.iter().filter(move |growth| growth.cost == cost).collect();
    CostKind::ALL.into_iter().map(move |cost| (cost, of(cost))).filter(|(_, growth): &(_, Vec<_>)| !growth.is_empty())
}

fn table(cost: CostKind, growth: &[&Growth], out: &mut String) {
    let has_times = growth.iter().flat_map(|growth| &growth.steps).any(|step| step.start.is_some());
    let _ = write!(out, "\n| {} beside |", cost.name());
    for operation in OPERATIONS {
        let _ = write!(out, " {operation} |");
    }
    out.push_str(if has_times { " memory of each | start |\n|---|---|---" } else { "\n|---" });
    out.push_str(&"|---".repeat(OPERATIONS.len()));
    out.push_str("|\n");
    let unit = cost.short_unit();
    for Growth { name, steps, .. } in growth {
        for (index, step) in steps.iter().enumerate() {
            let _ = write!(out, "| {} {name} |", thousands(step.count as f64));
            for (cost, ratio) in step.costs.iter().zip(step.ratios) {
                let _ = match index {
                    0 => write!(out, " {} {unit} |", number(*cost)),
                    _ => write!(out, " {} {unit}, {}x{} |", number(*cost), number(ratio), mark(ratio)),
                };
            }
            if has_times {
                let with_unit = |value: Option<f64>, unit| value.map(|value| format!("{} {unit}", number(value)));
                let (memory, start) = (with_unit(step.memory, "KB"), with_unit(step.start, "ms"));
                let _ = write!(out, " {} | {} |", memory.unwrap_or_default(), start.unwrap_or_default());
            }
            out.push('\n');
        }
    }
}

/// Marks ratios that are not flat.
fn mark(ratio: f64) -> &'static str {
    if ratio > MAX_RATIO { " (not flat)" } else { "" }
}

/// The number of plots in a row, the height of a plot, the height of its lines, and the gap between plots.
const PLOTS_PER_ROW: usize = 3;
const PLOT_HEIGHT: f64 = 190.0;
const LINES_HEIGHT: f64 = 110.0;
const GAP: f64 = 95.0;

/// The ends of the scale of ratios. A value beyond the scale is drawn at its end.
const LOWEST: f64 = 0.8;
const HIGHEST: f64 = 1.4;
const MARKS: [f64; 4] = [0.8, 1.0, 1.2, 1.4];

/// Draws plots for each kind of cost, with one plot for each kind of thing. A plot shows the ratio of each operation's
/// cost to its cost beside the fewest things.
pub(super) fn draw(growth: &[Growth], svg: &mut SvgWriter) {
    for (cost, growth) in by_cost(growth) {
        draw_plots(cost, &growth, svg);
    }
}

fn draw_plots(cost: CostKind, growth: &[&Growth], svg: &mut SvgWriter) {
    svg.y += 2.0 * LINE;
    let title = format!("How cost grows: {}", cost.name());
    svg.text(MARGIN, TEXT_COLOR, "font-size=\"16\" font-weight=\"600\"", &title);
    svg.y += LINE - 2.0;
    let caption = "The cost of an operation beside many times as many other things, divided by that beside the fewest; grey: \
                   within 10 %";
    svg.text(MARGIN, CAPTION_COLOR, "", caption);
    svg.y += LINE;
    for (index, (operation, color)) in OPERATIONS.iter().zip(COLORS).enumerate() {
        let attributes = "font-weight=\"600\"";
        svg.text(MARGIN + index as f64 * 70.0, color, attributes, operation);
    }
    let width = (WIDTH - 2.0 * MARGIN) / PLOTS_PER_ROW as f64;
    for plots in growth.chunks(PLOTS_PER_ROW) {
        let top = svg.y + LINE;
        for (index, growth) in plots.iter().enumerate() {
            draw_one(growth, MARGIN + index as f64 * width, top, width - GAP, svg);
        }
        svg.y = top + PLOT_HEIGHT - LINE;
    }
}

fn draw_one(Growth { name, cost, steps }: &Growth, left: f64, top: f64, width: f64, svg: &mut SvgWriter) {
    svg.y = top + 12.0;
    svg.text(left, TEXT_COLOR, "font-weight=\"600\"", name);
    let (first, lines_left) = (top + 24.0, left + 26.0);
    let y = |ratio: f64| first + LINES_HEIGHT * (HIGHEST - ratio.clamp(LOWEST, HIGHEST)) / (HIGHEST - LOWEST);
    let last = (steps.len() - 1).max(1) as f64;
    let x = |index: usize| lines_left + (width - 26.0) * index as f64 / last;
    let (band, band_height) = (y(MAX_RATIO), y(2.0 - MAX_RATIO) - y(MAX_RATIO));
    let _ = writeln!(
        svg.out,
        "<rect x=\"{lines_left:.1}\" y=\"{band:.1}\" width=\"{:.1}\" height=\"{band_height:.1}\" fill=\"#edf2f7\"/>",
        width - 26.0
    );
    for mark in MARKS {
        let at = y(mark);
        let _ = writeln!(
            svg.out,
            "<line x1=\"{lines_left:.1}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"{GRID_COLOR}\"/>",
            left + width
        );
        svg.y = at + 4.0;
        svg.text(lines_left - 6.0, CAPTION_COLOR, "text-anchor=\"end\" font-size=\"11\"", &format!("{mark:.1}"));
    }
    svg.y = first + LINES_HEIGHT + 16.0;
    for (index, step) in steps.iter().enumerate() {
        // The last label leaves space for the labels of the lines.
        let anchor = if index + 1 == steps.len() { "end" } else { "middle" };
        let attributes = format!("text-anchor=\"{anchor}\" font-size=\"11\"");
        svg.text(x(index), CAPTION_COLOR, &attributes, &thousands(step.count as f64));
    }
    let (mut labels, unit) = (Vec::new(), cost.short_unit());
    for (operation, color) in COLORS.into_iter().enumerate() {
        let ratios = steps.iter().map(|step| step.ratios[operation]);
        let points: Vec<String> =
            ratios.enumerate().map(|(index, ratio)| format!("{:.1},{:.1}", x(index), y(ratio))).collect();
        let points = points.join(" ");
        let _ =
            writeln!(svg.out, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>");
        if let Some(step) = steps.last() {
            let ratio = step.ratios[operation];
            labels.push((
                y(ratio) + 4.0,
                color,
                format!("{}x, {} {unit}", number(ratio), number(step.costs[operation])),
            ));
        }
    }
    // The labels are moved so that they do not overlap.
    labels.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut lowest = f64::MIN;
    for (at, color, text) in labels {
        svg.y = at.max(lowest + 12.0);
        lowest = svg.y;
        svg.text(left + width + 4.0, color, "font-size=\"10\"", &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::report::Report;

    #[test]
    fn growth_is_a_table_and_a_plot() {
        let mut report = Report::new(Machine::default(), String::new());
        let step = |count, costs, ratios, memory| GrowthStep { count, costs, ratios, memory, start: Some(100.0) };
        let first = step(10, [10.0, 60.0, 2.0], [1.0; 3], None);
        let steps = vec![first, step(1000, [10.0, 90.0, 1.0], [1.0, 1.5, 0.5], Some(1.5))];
        report.growth.push(Growth { name: "things", cost: CostKind::CpuTime, steps });
        let counted = GrowthStep { start: None, ..step(10, [40.0, 50.0, 60.0], [1.0; 3], None) };
        report.growth.push(Growth { name: "others", cost: CostKind::Instructions, steps: vec![counted] });
        report.row("1000 things: GET", 1.0, "").growth().at_most(1.0);
        let markdown = report.markdown();
        assert!(markdown.contains("| 10 things | 10.0 µs | 60.0 µs | 2.00 µs |  | 100 ms |\n"), "{markdown}");
        let line =
            "| 1,000 things | 10.0 µs, 1.00x | 90.0 µs, 1.50x (not flat) | 1.00 µs, 0.50x | 1.50 KB | 100 ms |\n";
        assert!(markdown.contains(line), "{markdown}");
        assert!(!markdown.contains("1000 things: GET"), "{markdown}");
        let times = "| CPU time beside | GET | create | event | memory of each | start |\n|---|---|---|---|---|---|\n";
        assert!(markdown.contains(times), "{markdown}");
        let counted = "| instructions beside | GET | create | event |\n|---|---|---|---|\n| 10 others | 40.0 k | 50.0 k | 60.0 k |\n";
        assert!(markdown.contains(counted), "{markdown}");
        let svg = report.svg();
        for (text, times) in
            [("<polyline", 6), (">things<", 1), (">others<", 1), (">1.50x, 90.0 µs<", 1), ("1000 things: GET", 0)]
        {
            assert_eq!(svg.matches(text).count(), times, "{text}");
        }
    }
}
