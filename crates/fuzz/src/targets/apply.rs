//! `fieldsV1`: field sets as JSON.

use pintle_apply::set::FieldSet;

use crate::{MemoryLimit, with_memory_limit};

const LIMIT: MemoryLimit = MemoryLimit { per_byte: 600, base: 64 << 10 };

pub(super) fn fields_v1(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(set) = with_memory_limit(text.len(), LIMIT, || FieldSet::decode(text)) else { return };
    let written = set.encode();
    let again = FieldSet::decode(&written).unwrap_or_else(|e| panic!("{written:?}: {e}"));
    assert_eq!(again, set, "{written}");
    assert_eq!(FieldSet::from_value(&set.to_value()).as_ref(), Ok(&set));
    assert_eq!(set.difference(&set).len(), 0);
    assert_eq!(set.union(&set), set);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    [
        r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}"#,
        r#"{"f:finalizers":{"v:\"a\"":{},"v:1":{},"v:1.5":{},"v:null":{},"v:true":{}},"i:3":{}}"#,
        r#"{".":{},"f:":{},"f:.":{".":{}}}"#,
        // Must be decoded to the nearest float.
        r#"{"v:2.0001e+27":{},"v:20001000000000000000000000000":{}}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
