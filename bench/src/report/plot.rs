//! Draws the report as SVG: CPU cost compared with the Go API server, used budgets, and latency percentiles. The SVG
//! is written by hand, because a plotting library would be larger than this benchmark.

use std::fmt::Write as _;

use super::text::{number, thousands};
use super::{Budget, Report, ReportRow, growth};

/// The width in pixels.
pub(super) const WIDTH: f64 = 1000.0;
/// The left and right ends of the scale in pixels. Labels are left of it, values are right of it.
const LEFT: f64 = 430.0;
const RIGHT: f64 = 890.0;
pub(super) const MARGIN: f64 = 24.0;
pub(super) const LINE: f64 = 20.0;
const HEADING: f64 = 26.0;

/// Colours of rows with a met budget, a missed budget and no budget, and of texts and lines.
pub(super) const MET_COLOR: &str = "#2f855a";
const MISSED_COLOR: &str = "#c53030";
pub(super) const NO_BUDGET_COLOR: &str = "#2b6cb0";
pub(super) const TEXT_COLOR: &str = "#1a202c";
pub(super) const CAPTION_COLOR: &str = "#718096";
pub(super) const GRID_COLOR: &str = "#e2e8f0";

/// The shape that shows a row's value.
enum Shape {
    /// A bar between two values.
    Bar { from: f64, to: f64, text: String },
    /// Three percentiles on a line, and the limit of the second percentile.
    PercentileDots { at: [f64; 3], limit: Option<f64>, text: String },
}

/// Rows that share a logarithmic scale.
struct Panel<'r> {
    title: &'static str,
    caption: &'static str,
    lines: Vec<(&'r ReportRow, Shape)>,
}

/// Draws the report.
pub(super) fn draw(report: &Report) -> String {
    let mut svg = SvgWriter { out: String::new(), y: MARGIN };
    svg.y += 12.0;
    svg.text(MARGIN, TEXT_COLOR, "font-size=\"20\" font-weight=\"600\"", &report.subject);
    svg.y += LINE;
    svg.text(MARGIN, CAPTION_COLOR, "", &report.machine.to_string());
    for panel in panels(report).iter().filter(|panel| !panel.lines.is_empty()) {
        svg.panel(panel);
    }
    if !report.growth.is_empty() {
        growth::draw(&report.growth, &mut svg);
    }
    let height = svg.y + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"Inter, Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
        svg.out
    )
}

fn panels(report: &Report) -> [Panel<'_>; 3] {
    let cost = report.rows.iter().filter_map(|row| {
        let times = row.go_cpu_ratio()?;
        let text =
            if times >= 1.0 { format!("{}x less", number(times)) } else { format!("{}x more", number(1.0 / times)) };
        Some((row, Shape::Bar { from: 1.0, to: times, text }))
    });
    let is_drawn = |row: &&ReportRow| !row.is_growth && !matches!(row.budget, Some(Budget::CheaperThanGo(_)));
    let budgets = report.rows.iter().filter(is_drawn).filter_map(|row| {
        let found = format!("{} {}", number(row.value), row.unit);
        let text = match row.budget? {
            Budget::AtMost(limit) => format!("{} ≤ {}", found.trim(), number(limit)),
            Budget::AtLeast(limit) | Budget::CheaperThanGo(limit) => format!("{} ≥ {}", found.trim(), number(limit)),
        };
        // Clamp values far below the budget to keep the scale readable.
        Some((row, Shape::Bar { from: 1.0, to: row.budget_used()?.max(0.01), text }))
    });
    let latencies = report.rows.iter().filter(|row| row.from_schedule).filter_map(|row| {
        let at = row.latencies?;
        let limit = match row.budget {
            Some(Budget::AtMost(limit)) => Some(limit),
            _ => None,
        };
        let text = format!("{} ms", number(at.p99));
        Some((row, Shape::PercentileDots { at: [at.p50, at.p99, at.p999], limit, text }))
    });
    [
        Panel {
            title: "CPU per operation, compared with the Go API server",
            caption: "how many times less CPU one operation takes than with k8s.io/apiserver over etcd in the same run; \
                       green: budget met, red: budget missed, blue: no budget",
            lines: cost.collect(),
        },
        Panel {
            title: "Budgets",
            caption: "used share of each budget; up to 1 the budget is met",
            lines: budgets.collect(),
        },
        Panel {
            title: "Latency in milliseconds",
            caption: "p50, p99 and p99.9, from the scheduled time of the request (for watch events: of the write); \
                       a bar marks the budget of the p99",
            lines: latencies.collect(),
        },
    ]
}

/// A logarithmic scale over whole decades.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn over(numbers: impl Iterator<Item = f64>) -> Self {
        let numbers = numbers.filter(|number| *number > 0.0).map(f64::log10);
        let (low, high) = numbers.fold((f64::MAX, f64::MIN), |(low, high), number| (low.min(number), high.max(number)));
        let low = low.floor();
        Self { low, high: high.ceil().max(low + 1.0) }
    }

    fn x(&self, number: f64) -> f64 {
        let share = (number.max(f64::MIN_POSITIVE).log10() - self.low) / (self.high - self.low);
        LEFT + share.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        (self.low as i32..=self.high as i32).map(|power| 10_f64.powi(power))
    }
}

/// An SVG document that grows downwards.
pub(super) struct SvgWriter {
    pub(super) out: String,
    pub(super) y: f64,
}

impl SvgWriter {
    pub(super) fn text(&mut self, x: f64, fill: &str, attributes: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(self.out, "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{fill}\" {attributes}>{text}</text>", self.y);
    }

    fn panel(&mut self, panel: &Panel<'_>) {
        self.y += 2.0 * LINE;
        self.text(MARGIN, TEXT_COLOR, "font-size=\"16\" font-weight=\"600\"", panel.title);
        self.y += LINE - 2.0;
        self.text(MARGIN, CAPTION_COLOR, "", panel.caption);
        let scale = Scale::over(panel.lines.iter().flat_map(|(_, shape)| shape.numbers()));
        self.y += LINE + 4.0;
        for decade in scale.decades() {
            self.text(scale.x(decade), CAPTION_COLOR, "text-anchor=\"middle\" font-size=\"11\"", &plain(decade));
        }
        let top = self.y + 6.0;
        // The lines of the scale are below everything else, but their length is known only afterwards.
        let at = self.out.len();
        let mut section = "";
        for (row, shape) in &panel.lines {
            if row.section != section {
                section = &row.section;
                self.y += HEADING;
                self.text(MARGIN, CAPTION_COLOR, "font-size=\"11\" font-weight=\"600\"", section);
            }
            self.y += LINE;
            self.text(LEFT - 10.0, TEXT_COLOR, "text-anchor=\"end\"", &shortened(&row.name));
            self.shape(&scale, row, shape);
        }
        let bottom = self.y + 8.0;
        let mut grid = String::new();
        for decade in scale.decades() {
            let (x, one) = (scale.x(decade), (decade - 1.0).abs() < 1e-9);
            let stroke = if one { CAPTION_COLOR } else { GRID_COLOR };
            let _ = writeln!(
                grid,
                "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"{stroke}\"/>"
            );
        }
        self.out.insert_str(at, &grid);
        self.y = bottom;
    }

    fn shape(&mut self, scale: &Scale, row: &ReportRow, shape: &Shape) {
        let colour = match row.is_met() {
            None => NO_BUDGET_COLOR,
            Some(true) => MET_COLOR,
            Some(false) => MISSED_COLOR,
        };
        let middle = self.y - 4.0;
        match shape {
            Shape::Bar { from, to, text } => {
                let (from, to) = (scale.x(*from), scale.x(*to));
                let (left, right) = (from.min(to), from.max(to));
                let _ = writeln!(
                    self.out,
                    "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\" rx=\"2\" fill=\"{colour}\"/>",
                    middle - 6.0,
                    (right - left).max(1.5)
                );
                self.text(right + 6.0, TEXT_COLOR, "font-size=\"11\"", text);
            }
            Shape::PercentileDots { at, limit, text } => {
                let [first, second, third] = at.map(|number| scale.x(number));
                let _ = writeln!(
                    self.out,
                    "<line x1=\"{first:.1}\" y1=\"{middle:.1}\" x2=\"{third:.1}\" y2=\"{middle:.1}\" stroke=\"{colour}\" \
                     stroke-width=\"2\" opacity=\"0.5\"/>"
                );
                for (x, radius, fill) in [(first, 3.5, "#ffffff"), (third, 3.5, "#ffffff"), (second, 5.0, colour)] {
                    let _ = writeln!(
                        self.out,
                        "<circle cx=\"{x:.1}\" cy=\"{middle:.1}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"{colour}\" \
                         stroke-width=\"1.5\"/>"
                    );
                }
                let limit = limit.map(|limit| scale.x(limit));
                if let Some(x) = limit {
                    let _ = writeln!(
                        self.out,
                        "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"{TEXT_COLOR}\" stroke-width=\"2\"/>",
                        middle - 7.0,
                        middle + 7.0
                    );
                }
                self.text(third.max(limit.unwrap_or(third)) + 10.0, TEXT_COLOR, "font-size=\"11\"", text);
            }
        }
    }
}

impl Shape {
    fn numbers(&self) -> Vec<f64> {
        match self {
            Shape::Bar { from, to, .. } => vec![*from, *to],
            Shape::PercentileDots { at, limit, .. } => at.iter().copied().chain(*limit).collect(),
        }
    }
}

/// Formats a power of ten.
fn plain(number: f64) -> String {
    if number >= 1.0 { thousands(number) } else { format!("{number}") }
}

/// Truncates a name to the space left of the scale.
fn shortened(name: &str) -> String {
    const MAX_CHARS: usize = 62;
    if name.chars().count() <= MAX_CHARS {
        return name.to_owned();
    }
    name.chars().take(MAX_CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Percentiles;
    use crate::machine::Machine;

    #[test]
    fn rows_with_costs_budgets_or_latencies_are_drawn() {
        let mut report = Report::new(Machine::default(), "a < b".to_owned());
        report.section("section");
        report.row("cheap", 5.0, "/s").cpu(Some(10.0));
        report.row("small", 5.0, "MB").at_most(10.0);
        report.row("late", 5.0, "ms").scheduled_latencies(Percentiles { p50: 1.0, p99: 5.0, p999: 8.0 }).at_most(2.0);
        report.row("plain", 5.0, "ms");
        let mut go = Report::new(Machine::default(), String::new());
        go.row("cheap", 1.0, "/s").cpu(Some(120.0));
        report.add_go_results(go);
        let svg = draw(&report);
        for (text, times) in [
            ("a &lt; b", 1),
            (">cheap<", 1),
            (">small<", 1),
            (">late<", 2),
            (">plain<", 0),
            ("<circle", 3),
            (MISSED_COLOR, 6),
        ] {
            assert_eq!(svg.matches(text).count(), times, "{text}");
        }
    }

    #[test]
    fn scales_cover_whole_decades() {
        let scale = Scale::over([0.3, 20.0, 0.0].into_iter());
        assert_eq!(scale.decades().collect::<Vec<_>>(), [0.1, 1.0, 10.0, 100.0]);
        assert!((scale.x(0.1) - LEFT).abs() < 1e-9 && (scale.x(100.0) - RIGHT).abs() < 1e-9);
        assert!(scale.x(0.0) >= LEFT && scale.x(1e9) <= RIGHT);
    }
}
