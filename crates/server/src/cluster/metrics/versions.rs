//! How metrics differ between the versions of kube-apiserver: the file `versions.txt`.

use pintle_metrics::{FamilyChange, FamilyChanges, Stability};
use pintle_versions::{Minor, PerVersion, lines_of};

/// The lines of the file.
const TEXT: &str = include_str!("versions.txt");

/// The differences of a version.
pub(super) fn changes(minor: Minor) -> &'static FamilyChanges {
    static CHANGES: PerVersion<FamilyChanges> = PerVersion::new();
    CHANGES.get_or_init(minor, |minor| lines_of(TEXT, minor).filter_map(|line| parse(line.text)).collect())
}

/// A line without its range; `None` if it is wrong, which a test would notice.
fn parse(line: &'static str) -> Option<(&'static str, FamilyChange)> {
    let (name, change) = line.split_once(' ')?;
    let change = match change.split_once('=').unwrap_or((change, "")) {
        ("absent", "") => FamilyChange::Absent,
        ("beta", "") => FamilyChange::Stability(Stability::Beta),
        ("deprecated", since) if !since.is_empty() => FamilyChange::Deprecated(since),
        _ => return None,
    };
    Some((name, change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_understood() {
        for minor in Minor::known() {
            for line in lines_of(TEXT, minor) {
                assert!(parse(line.text).is_some(), "{minor}: {}", line.text);
            }
        }
        let of = |minor| changes(Minor::new(minor)).get("apiserver_storage_list_total");
        assert!(matches!((of(36), of(37)), (Some(FamilyChange::Absent), None)));
    }
}
