//! Label selectors and field selectors.

use pintle_selector::{FieldRequirement, FieldSelector, LabelSelector};

use crate::{MemoryLimit, with_memory_limit};

const LIMIT: MemoryLimit = MemoryLimit { per_byte: 400, base: 16 << 10 };

pub(super) fn parsed(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(selector) = with_memory_limit(text.len(), LIMIT, || LabelSelector::parse(text)) {
        let written = selector.to_string();
        let again = LabelSelector::parse(&written).unwrap_or_else(|e| panic!("{written:?}: {e}"));
        assert_eq!(again.to_string(), written);
        let _ = selector.matches(|key| (key.len() % 2 == 0).then_some("1"));
    }
    if let Ok(selector) = with_memory_limit(text.len(), LIMIT, || FieldSelector::parse(text)) {
        let written = selector.to_string();
        let again = FieldSelector::parse(&written).unwrap_or_else(|e| panic!("{written:?}: {e}"));
        // The parser sorts terms by their original text, so `a==` sorts differently from `a=`.
        let terms = |selector: &FieldSelector| {
            let mut terms: Vec<String> = selector.requirements().iter().map(|r| format!("{r:?}")).collect();
            terms.sort_unstable();
            terms
        };
        assert_eq!(terms(&again), terms(&selector), "{written:?}");
        let _ = selector.matches(|_| Some("1"));
        for requirement in selector.requirements() {
            let (field, value) = (&requirement.field, &requirement.value);
            let is_required =
                |other: &&FieldRequirement| !other.negated && other.field == field && other.value == value;
            let expect = selector.requirements().iter().any(|other| is_required(&other));
            assert_eq!(FieldSelector::text_requires(text, field, value), expect, "{field}={value}");
        }
    } else {
        assert!(!FieldSelector::text_requires(text, "a", "b"));
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    [
        "a=b,c!=d",
        "a in (b,c),d notin (e),!f,g",
        "x>1,y<2",
        "metadata.name=a\\,b\\=c\\\\,spec.nodeName!=d",
        "a==,b=",
        "in in (in)",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
