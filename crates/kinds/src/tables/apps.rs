//! Cells of the group `apps`.

use pintle_value::Value;

/// The object that a revision belongs to.
pub(super) fn revision_controller(o: &Value) -> String {
    let owners = o.items_at(&["metadata", "ownerReferences"]);
    let controller = owners.iter().find(|r| r.bool_at(&["controller"])).map(|owner| {
        let (kind, name) = (owner.str_at(&["kind"]).to_lowercase(), owner.str_at(&["name"]));
        match owner.str_at(&["apiVersion"]).split_once('/') {
            Some((group, _)) => format!("{kind}.{}/{name}", group.to_lowercase()),
            None => format!("{kind}/{name}"),
        }
    });
    controller.unwrap_or_else(|| "<none>".to_owned())
}
