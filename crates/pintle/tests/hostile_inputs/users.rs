//! The users, and the deletion of their objects.

use pintle_integration::Cluster;
use serde_json::json;

/// A user, whom the administrator impersonates.
pub(crate) struct User {
    pub(crate) name: &'static str,
    pub(crate) groups: &'static [&'static str],
    /// The ClusterRole that the user is bound to.
    role: Option<&'static str>,
}

/// The users, from a user with all permissions to a user without any.
pub(crate) const USERS: [User; 6] = [
    User { name: "root", groups: &["system:masters"], role: None },
    User { name: "administrator", groups: &["system:authenticated"], role: Some("admin") },
    User { name: "editor", groups: &["system:authenticated"], role: Some("edit") },
    User { name: "second-editor", groups: &["system:authenticated", "developers"], role: Some("edit") },
    User { name: "viewer", groups: &["system:authenticated"], role: Some("view") },
    User { name: "nobody", groups: &["system:authenticated"], role: None },
];

pub(crate) async fn set_up(cluster: &Cluster) {
    for user in &USERS {
        let Some(role) = user.role else { continue };
        let binding = json!({
            "metadata": {"name": format!("hostile-{}", user.name)},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name}],
        });
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        let _ = cluster.post(path, binding.to_string()).await.expect(201);
    }
}

/// Deletes all objects in the namespace `default`, and cluster-scoped objects that make requests fail.
pub(crate) async fn delete_everything(cluster: &Cluster) {
    let groups = cluster.get("/apis").await.expect(200).json();
    let mut versions = vec!["/api/v1".to_owned()];
    for group in groups["groups"].as_array().expect("groups") {
        let version = group["preferredVersion"]["groupVersion"].as_str().expect("a version");
        versions.push(format!("/apis/{version}"));
    }
    for version in versions {
        let resources = cluster.get(&version).await.expect(200).json();
        for resource in resources["resources"].as_array().expect("resources") {
            let verbs = resource["verbs"].as_array().expect("verbs");
            if resource["namespaced"] != true || !verbs.contains(&json!("deletecollection")) {
                continue;
            }
            let name = resource["name"].as_str().expect("a name");
            let path = format!("{version}/namespaces/default/{name}?gracePeriodSeconds=0");
            // Admission policies of the users may forbid the deletion, and finalizers may delay it.
            let _ = cluster.delete(&path).await;
        }
    }
    cluster.get_until_status("/readyz", 200).await;
}
