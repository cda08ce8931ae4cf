//! Tables of the group `rbac.authorization.k8s.io`. Roles have no columns of their own.

use pintle_registry::Column;
use pintle_value::Value;
use pintle_value::time::{Time, age};

use super::{StaticTable, row};

pub(super) fn table(plural: &str) -> Option<StaticTable> {
    Some(match plural {
        "rolebindings" => ROLE_BINDINGS,
        "clusterrolebindings" => CLUSTER_ROLE_BINDINGS,
        _ => return None,
    })
}

const ROLE_BINDINGS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Role", "=rbac/v1.RoleBinding.roleRef"),
        Column::AGE,
        Column::string("Users", "The users that the role is given to.").wide(),
        Column::string("Groups", "The groups that the role is given to.").wide(),
        Column::string("ServiceAccounts", "The service accounts that the role is given to.").wide(),
    ],
    cells: binding,
};

const CLUSTER_ROLE_BINDINGS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Role", "=rbac/v1.ClusterRoleBinding.roleRef"),
        Column::AGE,
        Column::string("Users", "The users that the role is given to.").wide(),
        Column::string("Groups", "The groups that the role is given to.").wide(),
        Column::string("ServiceAccounts", "The service accounts that the role is given to.").wide(),
    ],
    cells: binding,
};

fn binding(o: &Value, now: Time) -> Vec<Value> {
    let (mut users, mut groups, mut accounts) = (Vec::new(), Vec::new(), Vec::new());
    for subject in o.items_at(&["subjects"]) {
        let name = subject.str_at(&["name"]);
        match subject.str_at(&["kind"]) {
            "User" => users.push(name.to_owned()),
            "Group" => groups.push(name.to_owned()),
            "ServiceAccount" => accounts.push(format!("{}/{name}", subject.str_at(&["namespace"]))),
            _ => {}
        }
    }
    let role = format!("{}/{}", o.str_at(&["roleRef", "kind"]), o.str_at(&["roleRef", "name"]));
    row![o.name(), role, age(o, now), users.join(", "), groups.join(", "), accounts.join(", ")]
}
