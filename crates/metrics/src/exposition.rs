//! The Prometheus text format 0.0.4, written as client_golang writes it: families sorted by name, labels by name,
//! numbers in Go's shortest form. A family without series is omitted.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::{Buckets, Histogram, TimingHistogram};

/// The stability of a metric (upstream: `component-base/metrics.StabilityLevel`). It is part of the help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// The metric may change without notice.
    Alpha,
    /// The metric keeps its name and labels.
    Beta,
    /// The metric keeps its name, labels and type.
    Stable,
    /// The metric follows no Kubernetes convention (`process_…`), so its help text has no level.
    None,
}

impl Stability {
    const fn prefix(self) -> &'static str {
        match self {
            Stability::Alpha => "[ALPHA] ",
            Stability::Beta => "[BETA] ",
            Stability::Stable => "[STABLE] ",
            Stability::None => "",
        }
    }
}

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that grows and shrinks.
    Gauge,
    /// Counts by bucket.
    Histogram,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// Labels and their values.
pub type Labels<'l> = &'l [(&'static str, &'l str)];

/// A change of a family, for the owner of several versions of a set of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyChange {
    /// The family is not shown.
    Absent,
    /// The family has this stability.
    Stability(Stability),
    /// The help says that the family is deprecated since a version.
    Deprecated(&'static str),
}

/// The changes of families by their names.
pub type FamilyChanges = BTreeMap<&'static str, FamilyChange>;

struct FamilyText {
    kind: Kind,
    is_shown: bool,
    help: String,
    /// The lines of each series by its labels.
    series: BTreeMap<String, String>,
}

/// Collects families and writes them in the text format.
#[derive(Default)]
pub struct Exposition {
    families: BTreeMap<&'static str, FamilyText>,
    changes: Option<&'static FamilyChanges>,
}

impl std::fmt::Debug for Exposition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.families.keys()).finish()
    }
}

impl Exposition {
    /// An exposition that changes some families.
    #[must_use]
    pub fn with_changes(changes: &'static FamilyChanges) -> Self {
        Self { changes: Some(changes), ..Self::default() }
    }

    /// The family with a name. An existing family keeps its help text.
    pub fn family(&mut self, name: &'static str, kind: Kind, stability: Stability, help: &str) -> FamilyWriter<'_> {
        let change = self.changes.and_then(|changes| changes.get(name).copied());
        let new = || {
            let stability = if let Some(FamilyChange::Stability(other)) = change { other } else { stability };
            let since = match change {
                Some(FamilyChange::Deprecated(since)) => format!("(Deprecated since {since}) "),
                _ => String::new(),
            };
            FamilyText {
                kind,
                is_shown: change != Some(FamilyChange::Absent),
                help: format!("{}{since}{help}", stability.prefix()),
                series: BTreeMap::new(),
            }
        };
        FamilyWriter { name, family: self.families.entry(name).or_insert_with(new) }
    }

    /// Writes all collected families.
    #[must_use]
    pub fn into_text(self) -> String {
        let mut out = String::new();
        for (name, family) in
            self.families.into_iter().filter(|(_, family)| family.is_shown && !family.series.is_empty())
        {
            let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", family.kind.name());
            family.series.into_values().for_each(|lines| out.push_str(&lines));
        }
        out
    }
}

/// Adds series to a family.
pub struct FamilyWriter<'e> {
    name: &'static str,
    family: &'e mut FamilyText,
}

impl std::fmt::Debug for FamilyWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FamilyWriter").field(&self.name).finish()
    }
}

impl FamilyWriter<'_> {
    /// Adds a counter or a gauge. A series with the same labels is replaced.
    pub fn value(&mut self, labels: Labels<'_>, value: f64) -> &mut Self {
        let labels = label_text(labels);
        let mut line = String::new();
        write_sample(&mut line, self.name, "", &labels, value);
        self.family.series.insert(labels, line);
        self
    }

    /// Adds a histogram. A series with the same labels is replaced.
    pub fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) -> &mut Self {
        self.merged(labels, &[histogram], histogram.buckets())
    }

    /// Adds the sum of histograms, with some of their common buckets. So several metrics can show values that are
    /// recorded once. A series with the same labels is replaced.
    pub fn merged(&mut self, labels: Labels<'_>, histograms: &[&Histogram], buckets: Buckets) -> &mut Self {
        let mut counts: Vec<u64> = vec![0; buckets.bounds.len() + 1];
        for histogram in histograms {
            let shown = |bound: f64| bound == f64::INFINITY || buckets.bounds.contains(&bound);
            let up_to = histogram.cumulative().filter(|(bound, _)| shown(*bound)).map(|(_, up_to)| up_to);
            counts.iter_mut().zip(up_to).for_each(|(count, up_to)| *count += up_to);
        }
        let sum = histograms.iter().map(|histogram| histogram.sum()).sum();
        self.buckets(labels, buckets.bounds, &counts, sum)
    }

    /// Adds the histogram of a value over time. A series with the same labels is replaced.
    pub fn timing_histogram(&mut self, labels: Labels<'_>, histogram: &TimingHistogram) -> &mut Self {
        self.buckets(labels, histogram.bounds(), &histogram.cumulative(), histogram.sum())
    }

    /// Adds a histogram of these bounds. `counts` has the number of values up to each bound, and up to infinity.
    fn buckets(&mut self, labels: Labels<'_>, bounds: &[f64], counts: &[u64], sum: f64) -> &mut Self {
        let labels = label_text(labels);
        let separator = if labels.is_empty() { "" } else { "," };
        let mut lines = String::new();
        for (bound, up_to) in bounds.iter().chain([&f64::INFINITY]).zip(counts) {
            let labels = format!("{labels}{separator}le=\"{}\"", go_float(*bound));
            write_sample(&mut lines, self.name, "_bucket", &labels, *up_to as f64);
        }
        write_sample(&mut lines, self.name, "_sum", &labels, sum);
        write_sample(&mut lines, self.name, "_count", &labels, counts.last().copied().unwrap_or_default() as f64);
        self.family.series.insert(labels, lines);
        self
    }
}

/// The text of labels between braces.
fn label_text(labels: Labels<'_>) -> String {
    let mut labels = labels.to_vec();
    labels.sort_unstable_by_key(|(name, _)| *name);
    let mut text = String::new();
    for (name, value) in labels {
        if !text.is_empty() {
            text.push(',');
        }
        let value = value.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"");
        let _ = write!(text, "{name}=\"{value}\"");
    }
    text
}

fn write_sample(out: &mut String, name: &str, suffix: &str, labels: &str, value: f64) {
    let value = go_float(value);
    let _ = match labels {
        "" => writeln!(out, "{name}{suffix} {value}"),
        labels => writeln!(out, "{name}{suffix}{{{labels}}} {value}"),
    };
}

/// The decimal exponents of the numbers that Go writes without an exponent.
const PLAIN_EXPONENTS: std::ops::Range<i32> = -4..6;

/// A number as Go's `strconv.FormatFloat(value, 'g', -1, 64)` writes it.
fn go_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !PLAIN_EXPONENTS.contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (value, expect) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.0, "-1"),
            (0.005, "0.005"),
            (1.25, "1.25"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e-8, "1e-08"),
            (100_000.0, "100000"),
            (999_999.0, "999999"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1_700_000_000.25, "1.70000000025e+09"),
            (1e21, "1e+21"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(go_float(value), expect);
        }
    }

    #[test]
    fn families_and_labels_are_sorted_and_escaped() {
        let mut exposition = Exposition::default();
        let mut family = exposition.family("b_total", Kind::Counter, Stability::Stable, "Counts\nthings \\");
        family.value(&[("verb", "GET"), ("code", "500")], 2.0).value(&[("verb", "a\"\\\n"), ("code", "200")], 1.0);
        exposition.family("a", Kind::Gauge, Stability::None, "No labels").value(&[], 3.5);
        exposition.family("empty", Kind::Gauge, Stability::Alpha, "No series");
        assert_eq!(
            exposition.into_text(),
            "# HELP a No labels\n# TYPE a gauge\na 3.5\n# HELP b_total [STABLE] Counts\\nthings \\\\\n\
             # TYPE b_total counter\nb_total{code=\"200\",verb=\"a\\\"\\\\\\n\"} 1\n\
             b_total{code=\"500\",verb=\"GET\"} 2\n"
        );
    }

    #[test]
    fn merged_histograms_have_some_of_the_buckets() {
        let buckets = Buckets::seconds(&[0.5, 1.0, 2.0]);
        let (a, b) = (Histogram::new(buckets), Histogram::new(buckets));
        for (histogram, seconds) in [(&a, 0.25), (&a, 1.5), (&b, 0.75), (&b, 9.0)] {
            histogram.observe(Duration::from_secs_f64(seconds));
        }
        let mut exposition = Exposition::default();
        let mut family = exposition.family("t", Kind::Histogram, Stability::None, "Time");
        family.merged(&[], &[&a, &b], Buckets::seconds(&[1.0]));
        assert_eq!(
            exposition.into_text(),
            "# HELP t Time\n# TYPE t histogram\nt_bucket{le=\"1\"} 2\nt_bucket{le=\"+Inf\"} 4\nt_sum 11.5\nt_count 4\n"
        );
    }

    #[test]
    fn histograms_have_buckets_sum_and_count() {
        let histogram = Histogram::new(Buckets::seconds(&[0.5, 1.0]));
        histogram.observe(Duration::from_millis(250));
        histogram.observe(Duration::from_secs(2));
        let mut exposition = Exposition::default();
        let mut family = exposition.family("t_seconds", Kind::Histogram, Stability::Beta, "Time");
        family.histogram(&[("name", "x")], &histogram);
        assert_eq!(
            exposition.into_text(),
            "# HELP t_seconds [BETA] Time\n# TYPE t_seconds histogram\nt_seconds_bucket{name=\"x\",le=\"0.5\"} 1\n\
             t_seconds_bucket{name=\"x\",le=\"1\"} 1\nt_seconds_bucket{name=\"x\",le=\"+Inf\"} 2\n\
             t_seconds_sum{name=\"x\"} 2.25\nt_seconds_count{name=\"x\"} 2\n"
        );
    }
}
