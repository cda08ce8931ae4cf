//! Files of one volume that get in each other's way: two with the same path, or one where another needs a folder
//! (upstream: `warningsForOverlappingVirtualPaths`).

use pintle_value::Value;
use pintle_value::print::quote;

/// The path of a file, and where it comes from if that is not said already.
struct File {
    path: String,
    source: String,
}

impl File {
    fn all(items: &[Value], source: &str) -> Vec<Self> {
        items.iter().map(|item| Self::new(item.str_at(&["path"]), source)).collect()
    }

    fn new(path: &str, source: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    fn shown(&self) -> String {
        let path = quote(&self.path);
        if self.source.is_empty() { path } else { format!("{path} ({})", self.source) }
    }

    fn overlaps(&self, other: &File) -> bool {
        let contains = |outer: &str, inner: &str| format!("{inner}/").starts_with(&format!("{outer}/"));
        !self.path.is_empty()
            && !other.path.is_empty()
            && (contains(&self.path, &other.path) || contains(&other.path, &self.path))
    }
}

/// Warns of overlapping paths, volume by volume.
pub(crate) fn warnings_for_overlapping_paths(warnings: &mut Vec<String>, volumes: &[Value]) {
    for volume in volumes {
        let name = volume.str_at(&["name"]);
        for (field, kind, name_field) in
            [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName"), ("downwardAPI", "DownwardAPI", "")]
        {
            let Some(source) = volume.get(field) else { continue };
            let what = if name_field.is_empty() {
                kind.to_owned()
            } else {
                format!("{kind} {}", quote(source.str_at(&[name_field])))
            };
            collisions(warnings, name, &what, File::all(source.items_at(&["items"]), ""));
        }
        let Some(projected) = volume.get("projected") else { continue };
        let mut files = Vec::new();
        for source in projected.items_at(&["sources"]) {
            if source.is_empty() {
                warnings.push(format!("volume {} (Projected) has no sources provided", quote(name)));
            }
            files.extend(projected_files(source));
        }
        collisions(warnings, name, "Projected", files);
    }
}

fn projected_files(source: &Value) -> Vec<File> {
    for (field, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if let Some(source) = source.get(field).filter(|source| source.get("items").is_some()) {
            let from = format!("{kind} {}", quote(source.str_at(&["name"])));
            return File::all(source.items_at(&["items"]), &from);
        }
    }
    if let Some(source) = source.get("downwardAPI").filter(|source| source.get("items").is_some()) {
        return File::all(source.items_at(&["items"]), "DownwardAPI");
    }
    match source.get("serviceAccountToken") {
        Some(token) => vec![File::new(token.str_at(&["path"]), "ServiceAccountToken")],
        None => Vec::new(),
    }
}

fn collisions(warnings: &mut Vec<String>, volume: &str, what: &str, files: Vec<File>) {
    for (i, file) in files.iter().enumerate() {
        for other in files[..i].iter().filter(|other| file.overlaps(other)) {
            let (file, other) = (file.shown(), other.shown());
            let volume = quote(volume);
            warnings.push(format!("volume {volume} ({what}): overlapping paths: {file} with {other}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn paths_that_overlap() {
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
