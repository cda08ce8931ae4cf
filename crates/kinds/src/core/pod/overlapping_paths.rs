//! Warnings about conflicting files of one volume: two with the same path, or one at a path where another needs a
//! directory (upstream: `warningsForOverlappingVirtualPaths`).

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

use pintle_value::Value;
use pintle_value::print::quote;

use super::warnings::MAX_WARNINGS;

/// The path of a file, and its source unless the warning mentions it already.
struct VolumeFile {
    path: String,
    source: String,
}

impl VolumeFile {
    fn all(items: &[Value], source: &str) -> Vec<Self> {
        items.iter().map(|item| Self::new(item.str_at(&["path"]), source)).collect()
    }

    fn new(path: &str, source: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    fn describe(&self) -> String {
        let path = quote(&self.path);
        if self.source.is_empty() { path } else { format!("{path} ({})", self.source) }
    }
}

/// Adds the warnings about overlapping paths, volume by volume.
pub(crate) fn warnings_for_overlapping_paths(warnings: &mut Vec<String>, volumes: &[Value]) {
    for volume in volumes {
        let name = volume.str_at(&["name"]);
        for (field, kind, name_field) in
            [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName"), ("downwardAPI", "DownwardAPI", "")]
        {
            let Some(source) = volume.get(field).filter(|source| source.get("items").is_some()) else { continue };
            let what = if name_field.is_empty() {
                kind.to_owned()
            } else {
                format!("{kind} {}", quote(source.str_at(&[name_field])))
            };
            add_overlap_warnings(warnings, name, &what, VolumeFile::all(source.items_at(&["items"]), ""));
        }
        let Some(projected) = volume.get("projected") else { continue };
        let mut files = Vec::new();
        for source in projected.items_at(&["sources"]) {
            if source.is_empty() {
                warnings.push(format!("volume {} (Projected) has no sources provided", quote(name)));
            }
            files.extend(projected_files(source));
        }
        add_overlap_warnings(warnings, name, "Projected", files);
    }
}

fn projected_files(source: &Value) -> Vec<VolumeFile> {
    for (field, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if let Some(source) = source.get(field).filter(|source| source.get("items").is_some()) {
            let from = format!("{kind} {}", quote(source.str_at(&["name"])));
            return VolumeFile::all(source.items_at(&["items"]), &from);
        }
    }
    if let Some(source) = source.get("downwardAPI").filter(|source| source.get("items").is_some()) {
        return VolumeFile::all(source.items_at(&["items"]), "DownwardAPI");
    }
    match source.get("serviceAccountToken") {
        Some(token) => vec![VolumeFile::new(token.str_at(&["path"]), "ServiceAccountToken")],
        None => Vec::new(),
    }
}

/// Adds a warning for each file that overlaps an earlier one. Looks earlier files up by path, since there may be many.
fn add_overlap_warnings(warnings: &mut Vec<String>, volume: &str, what: &str, files: Vec<VolumeFile>) {
    let volume = quote(volume);
    let mut known: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, file) in files.iter().enumerate().filter(|(_, file)| !file.path.is_empty()) {
        if warnings.len() >= MAX_WARNINGS {
            return;
        }
        let path = file.path.as_str();
        let folder = format!("{path}/");
        let outer = path.match_indices('/').filter_map(|(at, _)| known.get(&path[..at]));
        let inner = known
            .range::<str, _>((Included(folder.as_str()), Unbounded))
            .take_while(|(other, _)| other.starts_with(&folder));
        let mut others: Vec<usize> =
            outer.chain(known.get(path)).chain(inner.map(|(_, list)| list)).flatten().copied().collect();
        others.sort_unstable();
        for other in others.into_iter().take(MAX_WARNINGS) {
            let (file, other) = (file.describe(), files[other].describe());
            warnings.push(format!("volume {volume} ({what}): overlapping paths: {file} with {other}"));
        }
        known.entry(path).or_default().push(i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn overlapping_paths_warn() {
        let check = |volume: &str, expect: &[&str]| {
            let mut warnings = Vec::new();
            warnings_for_overlapping_paths(&mut warnings, &[object(volume)]);
            assert_eq!(warnings, expect, "{volume}");
        };
        check(r#"{"name":"v","configMap":{"name":"c","items":[{"path":"a"},{"path":"ab"},{"path":""}]}}"#, &[]);
        check(
            r#"{"name":"v","configMap":{"name":"c","items":[{"path":"a"},{"path":"a/b"}]}}"#,
            &[r#"volume "v" (ConfigMap "c"): overlapping paths: "a/b" with "a""#],
        );
        check(
            r#"{"name":"v","projected":{"sources":[{"secret":{"name":"s","items":[{"path":"t/"}]}},
                {"serviceAccountToken":{"path":"t"}},{}]}}"#,
            &[
                r#"volume "v" (Projected) has no sources provided"#,
                r#"volume "v" (Projected): overlapping paths: "t" (ServiceAccountToken) with "t" (Secret "s")"#,
            ],
        );
    }
}
