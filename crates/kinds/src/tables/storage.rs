//! Cells of the group `storage.k8s.io`.

use pintle_value::Value;

/// The audiences of the tokens that a CSI driver requests.
pub(super) fn token_requests(o: &Value) -> String {
    let Some(requests) = o.at(&["spec", "tokenRequests"]) else { return "<unset>".to_owned() };
    requests.items_at(&[]).iter().map(|t| t.str_at(&["audience"])).collect::<Vec<_>>().join(",")
}
