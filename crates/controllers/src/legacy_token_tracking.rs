//! The ConfigMap that says since when the uses of legacy tokens of service accounts are tracked (upstream:
//! `pkg/controlplane/controller/legacytokentracking`).

use pintle_registry::GroupResource;
use pintle_value::time::Time;
use pintle_value::{Value, object};

use crate::ObjectRef;
use crate::object_reconciler::{DesiredObject, Diff, NamespaceScope, UpdatePolicy};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";
/// The length of a date as a text.
pub(crate) const DATE_LENGTH: usize = "2006-01-02".len();

/// The ConfigMap.
pub(crate) fn tracking_ref() -> ObjectRef {
    let resource = GroupResource::new("", "configmaps");
    ObjectRef { resource, namespace: NAMESPACE.to_owned(), name: NAME.to_owned() }
}

/// The ConfigMap of a server that has started at a time. An existing date stays.
#[must_use]
pub fn legacy_token_tracking(started: Time) -> DesiredObject {
    let date = started.rfc3339();
    let object = object! {
        "metadata": object! { "name": NAME, "namespace": NAMESPACE },
        "data": object! { "since": date.get(..DATE_LENGTH).unwrap_or_default() },
    };
    DesiredObject {
        resource: tracking_ref().resource,
        namespace_scope: NamespaceScope::Namespace(NAMESPACE),
        object,
        compare: compare_date,
        update_policy: UpdatePolicy::Always,
        yields_to_controller_manager: false,
    }
}

fn compare_date(current: &Value, desired: &Value) -> Diff {
    if Time::parse_date(current.str_at(&["data", SINCE])).is_ok() {
        return Diff::UpToDate;
    }
    let mut updated = current.clone();
    updated.set_at(&["data", SINCE], desired["data"][SINCE].clone());
    Diff::Update(updated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_is_replaced_only_if_it_is_none() {
        let desired = legacy_token_tracking(Time::from_seconds(1_800_000_000)).object;
        assert_eq!(desired["data"][SINCE].as_str(), Some("2027-01-15"));
        for (since, is_kept) in
            [("2022-10-24", true), ("", false), ("yesterday", false), ("2022-10-24T00:00:00Z", false)]
        {
            let mut current = desired.clone();
            current.set_at(&["data"], object! { "since": since, "more": "kept" });
            let mut updated = current.clone();
            updated.set_at(&["data", SINCE], "2027-01-15");
            let expect = if is_kept { Diff::UpToDate } else { Diff::Update(updated) };
            assert_eq!(compare_date(&current, &desired), expect, "{since}");
        }
    }
}
