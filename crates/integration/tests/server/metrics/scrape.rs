//! A strict parser of the Prometheus text format. It checks the assumptions of Prometheus and the guarantees of
//! client_golang. Every sample follows the HELP and TYPE of its family, families and labels are sorted and unique, and
//! histograms are consistent.

use std::collections::BTreeMap;

use pintle_integration::Cluster;

/// Labels by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// The samples of a scrape.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    types: BTreeMap<String, String>,
    samples: BTreeMap<(String, Labels), f64>,
}

impl Scrape {
    /// Scrapes a path of a cluster.
    pub(crate) async fn of(cluster: &Cluster, path: &str) -> Self {
        Self::parse(&cluster.get(path).await.expect(200).text())
    }

    /// Parses metrics.
    ///
    /// # Panics
    /// Panics if the metrics are malformed.
    pub(crate) fn parse(text: &str) -> Self {
        assert!(text.is_empty() || text.ends_with('\n'), "the last line has no end");
        let (mut scrape, mut family, mut lines) = (Self::default(), String::new(), text.lines());
        while let Some(line) = lines.next() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').unwrap_or_else(|| panic!("no help text: {line}"));
                assert!(!help.is_empty() && name > family.as_str(), "{line} after {family}");
                let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
                let kind = kind.unwrap_or_else(|| panic!("no type of {name}"));
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{name} is a {kind}");
                scrape.types.insert(name.to_owned(), kind.to_owned());
                family = name.to_owned();
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
            let (name, labels) = match series.split_once('{') {
                Some((name, labels)) => (name, parse_labels(labels)),
                None => (series, Labels::new()),
            };
            let suffix = name.strip_prefix(&family).unwrap_or_else(|| panic!("{line} in the family {family}"));
            match scrape.types.get(&family).map(String::as_str) {
                Some("histogram") => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
                _ => assert_eq!(suffix, "", "{line}"),
            }
            let value: f64 = value.replace("+Inf", "inf").parse().unwrap_or_else(|_| panic!("no number: {line}"));
            let before = scrape.samples.insert((name.to_owned(), labels), value);
            assert!(before.is_none(), "twice: {line}");
        }
        scrape.check_families();
        scrape
    }

    fn check_families(&self) {
        for (name, kind) in &self.types {
            assert!(!name.ends_with("_total_total"), "{name}");
            match kind.as_str() {
                "histogram" => self.check_histograms(name),
                kind => {
                    let values: Vec<f64> = self.family(name).map(|(_, value)| value).collect();
                    assert!(!values.is_empty(), "{name} has no samples");
                    assert!(kind == "gauge" || values.iter().all(|value| *value >= 0.0), "{name}: {values:?}");
                }
            }
        }
    }

    fn check_histograms(&self, name: &str) {
        let mut histograms: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        for (labels, value) in self.family(&format!("{name}_bucket")) {
            let mut labels = labels.clone();
            let bound = labels.remove("le").unwrap_or_else(|| panic!("{name} without le"));
            let bound = bound.replace("+Inf", "inf").parse().unwrap_or_else(|_| panic!("{name}: le={bound}"));
            histograms.entry(labels).or_default().push((bound, value));
        }
        assert!(!histograms.is_empty(), "{name} has no buckets");
        for (labels, mut buckets) in histograms {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name}{labels:?}: {buckets:?}");
            let of = |suffix: &str| self.samples.get(&(format!("{name}{suffix}"), labels.clone())).copied();
            let last = buckets.last().copied();
            assert_eq!(last, of("_count").map(|count| (f64::INFINITY, count)), "{name}{labels:?}");
            assert!(of("_sum").is_some_and(|sum| sum >= 0.0), "{name}{labels:?}");
        }
    }

    /// The samples of a name.
    pub(crate) fn family<'s>(&'s self, name: &'s str) -> impl Iterator<Item = (&'s Labels, f64)> {
        self.samples.iter().filter(move |((of, _), _)| of == name).map(|((_, labels), value)| (labels, *value))
    }

    /// The sum of the samples whose name and labels are given as `name` or `name{a=b,c=d}`. Other labels may have any
    /// value.
    pub(crate) fn sum(&self, selector: &str) -> f64 {
        let (name, labels) = selector.split_once('{').unwrap_or((selector, ""));
        let wanted: Vec<_> =
            labels.trim_end_matches('}').split(',').filter_map(|label| label.split_once('=')).collect();
        let selected =
            |labels: &Labels| wanted.iter().all(|(name, value)| labels.get(*name).is_some_and(|found| found == value));
        self.family(name).filter(|(labels, _)| selected(labels)).map(|(_, value)| value).sum()
    }

    /// The names and labels of all samples.
    pub(crate) fn series(&self) -> Vec<&(String, Labels)> {
        self.samples.keys().collect()
    }
}

/// Parses the text after the opening brace.
fn parse_labels(mut text: &str) -> Labels {
    let (mut labels, mut last) = (Labels::new(), String::new());
    while text != "}" {
        let (name, rest) = text.split_once("=\"").unwrap_or_else(|| panic!("no label: {text}"));
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        assert!(is_name && (name > last.as_str() || name == "le"), "the label {name} after {last}");
        let (mut value, mut characters) = (String::new(), rest.char_indices());
        let end = loop {
            match characters.next() {
                Some((end, '"')) => break end,
                Some((_, '\\')) => match characters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, c @ ('\\' | '"'))) => value.push(c),
                    escaped => panic!("the escape {escaped:?} in {text}"),
                },
                Some((_, c)) => value.push(c),
                None => panic!("no end of a value: {text}"),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "the label {name} twice");
        last = name.to_owned();
        text = rest[end + 1..].strip_prefix(',').unwrap_or(&rest[end + 1..]);
    }
    labels
}
