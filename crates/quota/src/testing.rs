//! Short forms for the tests of this crate.

use std::collections::BTreeMap;

use pintle_codec::json::Projection;
use pintle_kinds::ResourceList;
use pintle_value::Value;
use pintle_value::quantity::Quantity;
use pintle_value::time::Time;

use crate::{Evaluator, QuotaContext, QuotaFeatures, ResourceQuota, evaluator_of, resource_list};

/// Parses JSON.
pub(crate) fn json(text: &str) -> Value {
    pintle_codec::json::decode(text.as_bytes(), pintle_codec::json::DecodeOptions::default()).expect("JSON").value
}

/// Parses a list as it is printed.
pub(crate) fn list(text: &str) -> ResourceList {
    let entries = text.split(',').filter(|entry| !entry.is_empty());
    let parse = |entry: &str| {
        let (name, quantity) = entry.split_once('=').expect("a name");
        (name.to_owned(), Quantity::parse(quantity).expect("a quantity"))
    };
    entries.map(parse).collect()
}

/// A quota with this spec and status.
pub(crate) fn quota(name: &str, spec: &str, hard: &str, used: &str) -> ResourceQuota {
    let object = json(&format!(r#"{{"metadata":{{"name":"{name}","uid":"u"}},"spec":{{{spec}}}}}"#));
    ResourceQuota { hard: list(hard), used: list(used), ..ResourceQuota::of(&object) }
}

/// The device classes of a cluster, with their extended resources. Its time is 2026-01-01.
#[derive(Default)]
pub(crate) struct Context {
    pub(crate) classes: BTreeMap<&'static str, &'static str>,
    pub(crate) features: QuotaFeatures,
}

impl QuotaContext for Context {
    fn features(&self) -> QuotaFeatures {
        self.features
    }

    fn now(&self) -> Time {
        Time::parse_rfc3339("2026-01-01T00:00:00Z").expect("a time")
    }

    fn extended_resource_of(&self, device_class: &str) -> Option<String> {
        self.classes.get(device_class).map(|name| (*name).to_owned())
    }
}

/// The fields of an object that matter.
pub(crate) fn fields(evaluator: &dyn Evaluator, object: &str) -> Value {
    let compact = pintle_codec::json::encode(&json(object));
    let fields = Projection::of(evaluator.fields().iter().copied()).read(&compact);
    fields.expect("an object")
}

/// Checks the usage of an object. The resources are in any order.
pub(crate) fn check_usage(group: &str, plural: &str, object: &str, expect: &str) {
    check_usage_with(QuotaFeatures::default(), group, plural, object, expect);
}

/// Checks the same with other features.
pub(crate) fn check_usage_with(features: QuotaFeatures, group: &str, plural: &str, object: &str, expect: &str) {
    let context = Context { classes: BTreeMap::from([("gpu", "example.com/gpu")]), features };
    let evaluator = evaluator_of(group, plural);
    let (whole, fields) = (json(object), fields(&*evaluator, object));
    let usage = evaluator.usage(&whole, &context);
    assert_eq!(evaluator.usage(&fields, &context), usage, "{fields:?}");
    assert_eq!(evaluator.scopes(&fields), evaluator.scopes(&whole), "{fields:?}");
    let mut expect: Vec<&str> = expect.split(',').collect();
    expect.sort_unstable_by_key(|entry| entry.split_once('='));
    assert_eq!(resource_list::print(&usage), expect.join(","), "{object}");
}

/// Checks which resources count towards limits.
pub(crate) fn check_counted(group: &str, plural: &str, counted: &[&str], others: &[&str]) {
    let evaluator = evaluator_of(group, plural);
    for name in counted {
        assert!(evaluator.counts(name, QuotaFeatures::default()), "{name}");
    }
    for name in others {
        assert!(!evaluator.counts(name, QuotaFeatures::default()), "{name}");
    }
}
