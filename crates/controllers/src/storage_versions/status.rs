//! The status of a StorageVersion: the record of each server, and the common version and condition (upstream:
//! `localUpdateStorageVersion` and `SetCommonEncodingVersion` in apiserver's `pkg/storageversion/updater.go`).

use pintle_kinds::RecordedStorageVersion;
use pintle_value::time::Time;
use pintle_value::{Value, object};

/// The type of the condition that says whether all servers store objects in the same version.
const CONDITION: &str = "AllEncodingVersionsEqual";

/// The id of the server of a record.
pub(super) fn server_of(record: &Value) -> &str {
    record.str_at(&["apiServerID"])
}

/// The records of the servers.
pub(super) fn records(object: &Value) -> &[Value] {
    object.items_at(&["status", "storageVersions"])
}

/// Replaces or adds the record of a server.
pub(super) fn set_record(object: &mut Value, server: &str, version: &RecordedStorageVersion, now: Time) {
    let record = object! {
        "apiServerID": server,
        "encodingVersion": version.encoding.as_str(),
        "decodableVersions": version.decodable.clone(),
        "servedVersions": version.served.clone(),
    };
    let mut all = records(object).to_vec();
    match all.iter_mut().find(|record| server_of(record) == server) {
        Some(current) => *current = record,
        None => all.push(record),
    }
    set_records(object, all, now);
}

/// Replaces all records, and says whether they have a common version.
pub(super) fn set_records(object: &mut Value, records: Vec<Value>, now: Time) {
    let before = object.str_at(&["status", "commonEncodingVersion"]).to_owned();
    let mut encodings = records.iter().map(|record| record.str_at(&["encodingVersion"]));
    let common = encodings.next().filter(|first| encodings.all(|other| other == *first)).map(str::to_owned);
    object.set_at(&["status", "storageVersions"], records);
    match &common {
        Some(common) => object.set_at(&["status", "commonEncodingVersion"], common.as_str()),
        None => drop(object.remove_at(&["status", "commonEncodingVersion"])),
    }
    let has_changed = common.as_ref().is_some_and(|common| !before.is_empty() && before != *common);
    set_condition(object, common.is_some(), has_changed, now);
}

/// Sets the condition. The time of the last transition also changes with the common version.
fn set_condition(object: &mut Value, is_true: bool, has_changed: bool, now: Time) {
    let (status, reason, message) = match is_true {
        true => ("True", "CommonEncodingVersionSet", "Common encoding version set"),
        false => ("False", "CommonEncodingVersionUnset", "Common encoding version unset"),
    };
    let generation = object.int_at(&["metadata", "generation"]).filter(|generation| *generation != 0);
    let mut conditions = object.items_at(&["status", "conditions"]).to_vec();
    let index = conditions.iter().position(|condition| condition.str_at(&["type"]) == CONDITION);
    let mut condition = index.map_or_else(Value::object, |index| conditions[index].clone());
    if condition.str_at(&["status"]) != status || has_changed {
        condition.set("lastTransitionTime", now.rfc3339());
    }
    for (field, text) in [("type", CONDITION), ("status", status), ("reason", reason), ("message", message)] {
        condition.set(field, text);
    }
    if let Some(generation) = generation {
        condition.set("observedGeneration", generation);
    }
    match index {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
    object.set_at(&["status", "conditions"], conditions);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_share_a_common_version_if_they_agree() {
        let at = |seconds| Time { seconds, nanos: 0 };
        let version = |encoding: &str| RecordedStorageVersion {
            name: "apps.deployments".to_owned(),
            resources: Vec::new(),
            encoding: encoding.to_owned(),
            decodable: vec![encoding.to_owned()],
            served: vec![encoding.to_owned()],
        };
        let mut object = object! { "metadata": object! { "name": "apps.deployments" } };
        let mut check = |server: &str, encoding: &str, now: i64, common: &str, status: &str, since: i64| {
            set_record(&mut object, server, &version(encoding), at(now));
            assert_eq!(object.str_at(&["status", "commonEncodingVersion"]), common, "{object:?}");
            let [condition] = object.items_at(&["status", "conditions"]) else { panic!("{object:?}") };
            assert_eq!(condition.str_at(&["status"]), status);
            assert_eq!(condition.str_at(&["lastTransitionTime"]), at(since).rfc3339());
            records(&object).len()
        };
        assert_eq!(check("a", "apps/v1", 1, "apps/v1", "True", 1), 1);
        assert_eq!(check("a", "apps/v1", 2, "apps/v1", "True", 1), 1);
        assert_eq!(check("b", "apps/v2", 3, "", "False", 3), 2);
        assert_eq!(check("a", "apps/v2", 4, "apps/v2", "True", 4), 2);
        set_records(&mut object, Vec::new(), at(5));
        assert_eq!(object.items_at(&["status", "conditions"])[0].str_at(&["reason"]), "CommonEncodingVersionUnset");
        // The version of a single server changes.
        let mut single = object! {};
        set_record(&mut single, "a", &version("apps/v1"), at(1));
        set_record(&mut single, "a", &version("apps/v2"), at(2));
        let condition = &single.items_at(&["status", "conditions"])[0];
        assert_eq!(condition.str_at(&["lastTransitionTime"]), at(2).rfc3339());
    }
}
