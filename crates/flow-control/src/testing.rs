//! Objects for tests.

use pintle_value::Value;

/// The bootstrap objects of upstream, from the data of the crate `kinds`.
const BOOTSTRAP_OBJECTS: &str = include_str!("../../kinds/data/flow_control_objects.txt");

/// An object from its JSON.
pub(crate) fn object(json: &str) -> Value {
    serde_json::from_str(json).expect("valid JSON")
}

/// The bootstrap objects whose spec has a field.
pub(crate) fn bootstrap_objects(field: &str) -> Vec<Value> {
    let objects = BOOTSTRAP_OBJECTS.lines().filter_map(|line| line.split_once(' ')).map(|(_, json)| object(json));
    objects.filter(|object| object.at(&["spec", field]).is_some()).collect()
}
