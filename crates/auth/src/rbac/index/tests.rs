//! Decisions, reasons and rules, with the content of upstream's tables (`rbac_test.go`, `rule_test.go`,
//! `subject_locator_test.go`).

use super::*;
use crate::rbac::testing::{binding, rule};

/// A user from `NAME` or `NAME/GROUP,GROUP`.
fn user(text: &str) -> UserInfo {
    let (name, groups) = text.split_once('/').unwrap_or((text, ""));
    let groups = groups.split(',').filter(|group| !group.is_empty()).map(Str::from).collect();
    UserInfo { name: name.into(), groups, ..UserInfo::default() }
}

fn role(rules: &[PolicyRule]) -> Role {
    Role { rules: rules.to_vec() }
}

/// `VERB RESOURCE[/SUBRESOURCE]` in the core group, or `VERB /PATH`.
fn attributes<'a>(request: &'a str, namespace: &'a str) -> AuthorizationAttributes<'a> {
    let (verb, target) = request.split_once(' ').unwrap();
    if target.starts_with('/') {
        return AuthorizationAttributes { verb, path: target, ..AuthorizationAttributes::default() };
    }
    let (resource, subresource) = target.split_once('/').unwrap_or((target, ""));
    AuthorizationAttributes { verb, resource, subresource, namespace, ..AuthorizationAttributes::default() }
}

/// Checks the decision and its reason without `RBAC: allowed by `; `""` stands for no opinion without a reason.
fn check(index: &RbacIndex, who: &str, request: &str, namespace: &str, expect: &str) {
    let found = index.decide(&user(who), &attributes(request, namespace));
    let reason = match found.decision {
        Decision::Allow => found.reason.strip_prefix("RBAC: allowed by ").expect("a reason"),
        _ => &found.reason,
    };
    assert_eq!(reason, expect, "{who}: {request} in {namespace:?}");
    assert_eq!(found.decision == Decision::Allow, found.reason.starts_with("RBAC: allowed by "));
    assert_eq!(found.error, None);
}

#[test]
fn a_role_binding_grants_in_its_namespace_only() {
    let index = RbacIndex::default();
    index.set_cluster_role("admin", role(&[rule("*", "*", "*", "", "*")]));
    index.set_role_binding("ns1", "b", binding("ClusterRole/admin", &["User:admin", "Group:admins"]));
    let by_user = r#"RoleBinding "b/ns1" of ClusterRole "admin" to User "admin""#;
    let by_group = r#"RoleBinding "b/ns1" of ClusterRole "admin" to Group "admins""#;
    for (who, request, namespace, expect) in [
        ("admin", "get pods", "ns1", by_user),
        ("admin", "watch pods/log", "ns1", by_user),
        ("admin/group1", "watch foobar", "ns1", by_user),
        ("joe/admins", "watch foobar", "ns1", by_group),
        ("joe/group1,admins", "watch foobar", "ns1", by_group),
        ("admin/admins", "get pods", "ns1", by_user),
        ("admin", "get pods", "ns2", ""),
        ("admin", "get nodes", "", ""),
        ("admin/admins", "get pods", "ns2", ""),
        ("admin", "get /healthz", "", ""),
        ("joe", "get pods", "ns1", ""),
        ("admins", "get pods", "ns1", ""),
        ("", "get pods", "ns1", ""),
    ] {
        check(&index, who, request, namespace, expect);
    }
}

#[test]
fn a_cluster_role_binding_grants_everywhere_and_for_paths() {
    let index = RbacIndex::default();
    index.set_cluster_role("getter", role(&[rule("get", "", "", "", "/apis")]));
    index.set_cluster_role("prefix", role(&[rule("get", "", "", "", "/apis/*")]));
    index
        .set_cluster_role("scaler", role(&[rule("*", "*", "*/scale", "", ""), rule("get", "", "pods/status", "", "")]));
    index.set_cluster_role_binding("b1", binding("ClusterRole/getter", &["User:foo", "Group:bar"]));
    index.set_cluster_role_binding("b2", binding("ClusterRole/prefix", &["User:prefixed"]));
    index.set_cluster_role_binding("b3", binding("ClusterRole/scaler", &["Group:scalers"]));
    let scaler = r#"ClusterRoleBinding "b3" of ClusterRole "scaler" to Group "scalers""#;
    for (who, request, namespace, expect) in [
        ("foo", "get /apis", "", r#"ClusterRoleBinding "b1" of ClusterRole "getter" to User "foo""#),
        ("x/bar", "get /apis", "", r#"ClusterRoleBinding "b1" of ClusterRole "getter" to Group "bar""#),
        ("foo", "watch /apis", "", ""),
        ("foo", "get /api/v1", "", ""),
        ("prefixed", "get /apis/v1/foo", "", r#"ClusterRoleBinding "b2" of ClusterRole "prefix" to User "prefixed""#),
        ("prefixed", "get /apis", "", ""),
        ("x/scalers", "update deployments/scale", "ns", scaler),
        ("x/scalers", "update deployments/scale", "", scaler),
        ("x/scalers", "get pods/status", "ns", scaler),
        ("x/scalers", "update pods/status", "ns", ""),
        ("x/scalers", "get pods", "ns", ""),
    ] {
        check(&index, who, request, namespace, expect);
    }
}

#[test]
fn the_reason_names_the_first_binding_by_scope_and_name_and_its_first_subject() {
    let index = RbacIndex::default();
    index.set_cluster_role("all", role(&[rule("*", "*", "*", "", "")]));
    index.set_cluster_role("none", role(&[]));
    index.set_role("ns", "local", role(&[rule("get", "", "pods", "", "")]));
    index.set_role_binding("ns", "z", binding("Role/local", &["User:jane"]));
    check(&index, "jane/b,a", "get pods", "ns", r#"RoleBinding "z/ns" of Role "local" to User "jane""#);
    index.set_role_binding("ns", "y", binding("Role/local", &["Group:other", "Group:a", "Group:b", "User:jane"]));
    check(&index, "jane/b,a", "get pods", "ns", r#"RoleBinding "y/ns" of Role "local" to Group "a""#);
    index.set_cluster_role_binding("zz", binding("ClusterRole/all", &["Group:b"]));
    check(&index, "jane/b,a", "get pods", "ns", r#"ClusterRoleBinding "zz" of ClusterRole "all" to Group "b""#);
    index.set_cluster_role_binding("m", binding("ClusterRole/all", &["User:jane", "Group:a"]));
    index.set_cluster_role_binding("a", binding("ClusterRole/none", &["User:jane"]));
    check(&index, "jane/b,a", "get pods", "ns", r#"ClusterRoleBinding "m" of ClusterRole "all" to User "jane""#);
    check(&index, "joe/b,a,a", "get pods", "ns", r#"ClusterRoleBinding "m" of ClusterRole "all" to Group "a""#);
}

#[test]
fn subjects_match_users_groups_and_service_accounts() {
    let index = RbacIndex::default();
    index.set_cluster_role("all", role(&[rule("*", "*", "*", "", "")]));
    let local = ["ServiceAccount:default", "ServiceAccount:kube-system/other", "User:*", "Group:system:authenticated"];
    index.set_role_binding("ns", "b", binding("ClusterRole/all", &local));
    let cluster = ["ServiceAccount:nobody", "ServiceAccount:ns/robot", "User:system:serviceaccount:ns:plain"];
    index.set_cluster_role_binding("c", binding("ClusterRole/all", &cluster));
    for (who, namespace, expect) in [
        ("system:serviceaccount:ns:default", "ns", r#"ServiceAccount "default/ns""#),
        ("system:serviceaccount:other:default", "ns", ""),
        ("system:serviceaccount:kube-system:other", "ns", r#"ServiceAccount "other/kube-system""#),
        ("default", "ns", ""),
        ("*", "ns", r#"User "*""#),
        ("anyone", "ns", ""),
        ("anyone/system:authenticated", "ns", r#"Group "system:authenticated""#),
        ("anyone/system:unauthenticated", "ns", ""),
        ("system:serviceaccount:ns:robot", "x", r#"ServiceAccount "robot/ns""#),
        ("system:serviceaccount:ns:plain", "x", r#"User "system:serviceaccount:ns:plain""#),
        // In a cluster role binding, a service account without a namespace matches nobody.
        ("system:serviceaccount::nobody", "x", ""),
        ("system:serviceaccount:x:nobody", "x", ""),
    ] {
        let binding = match namespace {
            "ns" => r#"RoleBinding "b/ns""#,
            _ => r#"ClusterRoleBinding "c""#,
        };
        let expect =
            if expect.is_empty() { String::new() } else { format!("{binding} of ClusterRole \"all\" to {expect}") };
        check(&index, who, "get pods", namespace, &expect);
    }
}

#[test]
fn missing_roles_are_reported_unless_another_binding_allows() {
    let index = RbacIndex::default();
    index.set_cluster_role_binding("c", binding("ClusterRole/x", &["User:jane"]));
    let missing = r#"RBAC: clusterrole.rbac.authorization.k8s.io "x" not found"#;
    check(&index, "jane", "get pods", "ns", missing);
    check(&index, "jane", "get /healthz", "", missing);
    check(&index, "joe", "get pods", "ns", "");
    // The same text is reported once. A single text has no brackets.
    index.set_role_binding("ns", "a", binding("ClusterRole/x", &["Group:g"]));
    check(&index, "jane/g", "get pods", "ns", missing);
    index.set_role_binding("ns", "b", binding("Role/x", &["User:jane"]));
    index.set_role("other", "x", role(&[rule("*", "*", "*", "", "")]));
    check(
        &index,
        "jane/g",
        "get pods",
        "ns",
        r#"RBAC: [clusterrole.rbac.authorization.k8s.io "x" not found, role.rbac.authorization.k8s.io "x" not found]"#,
    );
    check(&index, "jane/g", "get pods", "other", missing);
    index.set_role("ns", "x", role(&[rule("get", "", "pods", "", "")]));
    check(&index, "jane", "get pods", "ns", r#"RoleBinding "b/ns" of Role "x" to User "jane""#);
    check(&index, "jane", "list pods", "ns", missing);
    // A cluster role binding finds no role of any namespace.
    index.set_role("", "local", role(&[rule("*", "*", "*", "", "")]));
    index.set_cluster_role_binding("d", binding("Role/local", &["User:joe"]));
    check(&index, "joe", "get pods", "ns", r#"RBAC: role.rbac.authorization.k8s.io "local" not found"#);
}

/// A stored role or binding.
fn object(fields: &[(&str, Value)]) -> Value {
    let mut object = Value::Null;
    fields.iter().for_each(|(key, value)| object.set(key, value.clone()));
    object
}

fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::Array(items.into_iter().collect())
}

#[test]
fn objects_that_cannot_be_read_grant_nothing_and_are_reported() {
    let index = RbacIndex::default();
    let any = || list(["*".into()]);
    let all = object(&[("verbs", any()), ("apiGroups", any()), ("resources", any())]);
    let broken = object(&[("verbs", any()), ("apiGroups", any()), ("resources", any()), ("resourceNames", "a".into())]);
    let reference = object(&[("kind", "ClusterRole".into()), ("name", "r".into())]);
    let jane = object(&[("kind", "User".into()), ("name", "jane".into())]);
    let binding = object(&[("roleRef", reference.clone()), ("subjects", list([jane.clone()]))]);
    let good = object(&[("rules", list([all.clone()]))]);
    assert_eq!(index.set(PolicyKind::ClusterRoleBinding, "", "b", &binding), Ok(()));
    assert_eq!(index.set(PolicyKind::ClusterRole, "", "r", &good), Ok(()));
    let allowed = r#"ClusterRoleBinding "b" of ClusterRole "r" to User "jane""#;
    check(&index, "jane", "get pods", "", allowed);

    let error = index.set(PolicyKind::ClusterRole, "", "r", &object(&[("rules", list([all, broken]))])).unwrap_err();
    assert_eq!(error.to_string(), "rules[1].resourceNames: must be an array");
    let text = format!(r#"RBAC: clusterrole.rbac.authorization.k8s.io "r" cannot be read: {error}"#);
    check(&index, "jane", "get pods", "", &text);
    assert_eq!(index.rules_for(&user("jane"), "").rules, []);

    assert_eq!(index.set(PolicyKind::ClusterRole, "ignored", "r", &good), Ok(()));
    check(&index, "jane", "get pods", "", allowed);
    let broken = object(&[("roleRef", reference), ("subjects", list([jane, Value::Null]))]);
    assert!(index.set(PolicyKind::ClusterRoleBinding, "", "b", &broken).is_err());
    check(&index, "jane", "get pods", "", "");
}

#[test]
fn changes_and_removals_are_in_force_at_once_and_leave_nothing_behind() {
    let index = RbacIndex::default();
    let missing = r#"RBAC: role.rbac.authorization.k8s.io "r" not found"#;
    index.set_role_binding("ns", "b", binding("Role/r", &["User:jane", "Group:g", "User:jane"]));
    check(&index, "jane", "get pods", "ns", missing);
    index.set_role("ns", "r", role(&[rule("get", "", "pods", "", "")]));
    check(&index, "jane", "get pods", "ns", r#"RoleBinding "b/ns" of Role "r" to User "jane""#);
    index.set_role("ns", "r", role(&[rule("list", "", "pods", "", "")]));
    check(&index, "jane", "get pods", "ns", "");
    index.set_role_binding("ns", "b", binding("Role/r", &["Group:g"]));
    check(&index, "jane", "list pods", "ns", "");
    check(&index, "jane/g", "list pods", "ns", r#"RoleBinding "b/ns" of Role "r" to Group "g""#);
    index.remove(PolicyKind::Role, "ns", "r");
    check(&index, "jane/g", "list pods", "ns", missing);
    index.remove(PolicyKind::RoleBinding, "ns", "b");
    check(&index, "jane/g", "list pods", "ns", "");
    index.remove(PolicyKind::RoleBinding, "ns", "b");
    index.remove(PolicyKind::ClusterRoleBinding, "", "b");
    index.remove(PolicyKind::ClusterRole, "", "r");
    index.set_cluster_role("r", role(&[]));
    index.remove(PolicyKind::ClusterRole, "", "r");
    let state = index.state.read();
    assert!(state.users.is_empty() && state.groups.is_empty() && state.binding_names.is_empty());
    assert!(state.role_names.is_empty() && state.cluster_role_names.is_empty());
    assert!((0..9).all(|slot| state.roles.get(slot).is_none() && state.bindings.get(slot).is_none()));
}

#[test]
fn the_rules_of_a_user_are_listed_in_order_and_once_for_each_binding() {
    let read_pods = rule("get,watch", "v1", "pods", "", "");
    let read_services = rule("get,watch", "v1", "services", "a", "");
    let paths = rule("get", "", "", "", "/healthz");
    let everything = rule("*", "*", "*", "", "*");
    let index = RbacIndex::default();
    index.set_role("ns1", "read", role(&[read_pods.clone(), read_services.clone()]));
    index.set_cluster_role("admin", role(std::slice::from_ref(&everything)));
    index.set_cluster_role("paths", role(std::slice::from_ref(&paths)));
    index.set_role_binding("ns1", "b", binding("Role/read", &["User:foo", "Group:group1"]));
    index.set_cluster_role_binding("y", binding("ClusterRole/admin", &["User:admin", "Group:admin"]));
    index.set_cluster_role_binding("x", binding("ClusterRole/paths", &["Group:admin"]));
    index.set_cluster_role_binding("z", binding("ClusterRole/gone", &["Group:admin"]));
    let check = |who: &str, namespace: &str, expect: &[&PolicyRule]| {
        let found = index.rules_for(&user(who), namespace).rules;
        assert_eq!(found.iter().collect::<Vec<_>>(), expect, "{who} in {namespace:?}");
    };
    check("foo", "ns1", &[&read_pods, &read_services]);
    check("foo/group1", "ns1", &[&read_pods, &read_services]);
    check("foo", "ns2", &[]);
    check("foo", "", &[]);
    check("", "ns1", &[]);
    check("foo/admin", "", &[&paths, &everything]);
    check("admin/admin,group1", "ns1", &[&paths, &everything, &read_pods, &read_services]);

    let AuthFuture::Ready(Some(review)) = index.rules(&user("foo/admin"), "ns1") else { panic!("not ready") };
    let resource = |rule: &PolicyRule| ResourceRule {
        verbs: rule.verbs.clone(),
        groups: rule.api_groups.clone(),
        resources: rule.resources.clone(),
        names: rule.resource_names.clone(),
    };
    let path = |rule: &PolicyRule| NonResourceRule { verbs: rule.verbs.clone(), paths: rule.non_resource_urls.clone() };
    let expect = RulesReview {
        resource_rules: [&everything, &read_pods, &read_services].map(resource).into(),
        non_resource_rules: [&paths, &everything].map(path).into(),
        incomplete: false,
        error: Some(r#"clusterrole.rbac.authorization.k8s.io "gone" not found"#.to_owned()),
    };
    assert_eq!(review, expect);
}

#[test]
fn the_rules_of_a_role_are_found_by_reference() {
    let index = RbacIndex::default();
    let rules = [rule("get", "", "pods", "", "")];
    index.set_role("ns", "r", role(&rules));
    index.set_cluster_role("c", role(&rules));
    let find = |kind, name: &str, namespace: &str| {
        let found = index.role_rules(&RoleRef { kind, name: name.into() }, namespace);
        found.map_err(|error| error.storage_text("rolebindings"))
    };
    assert_eq!(find(RoleKind::Role, "r", "ns").as_deref(), Ok(&rules[..]));
    assert_eq!(find(RoleKind::ClusterRole, "c", "ns").as_deref(), Ok(&rules[..]));
    assert_eq!(find(RoleKind::ClusterRole, "c", "").as_deref(), Ok(&rules[..]));
    let missing = |text: &str| Err(text.to_owned());
    assert_eq!(find(RoleKind::Role, "r", ""), missing(r#"rolebindings.rbac.authorization.k8s.io "r" not found"#));
    assert_eq!(find(RoleKind::Role, "r", "x"), missing(r#"rolebindings.rbac.authorization.k8s.io "r" not found"#));
    assert_eq!(
        find(RoleKind::ClusterRole, "r", ""),
        missing(r#"rolebindings.rbac.authorization.k8s.io "r" not found"#)
    );
}

#[test]
fn the_subjects_of_an_action_are_those_of_all_bindings_that_allow_it() {
    let index = RbacIndex::default();
    index.set_cluster_role("admin", role(&[rule("*", "*", "*", "", "")]));
    index.set_role("ns1", "get", role(&[rule("get", "*", "pods", "", "")]));
    index.set_cluster_role_binding("a", binding("ClusterRole/admin", &["User:super", "Group:supers"]));
    index.set_role_binding("ns1", "b", binding("Role/get", &["User:super", "ServiceAccount:robot"]));
    index.set_role_binding("ns1", "c", binding("Role/gone", &["User:nobody"]));
    let check = |request: &str, namespace: &str, expect: &[&str], errors: usize| {
        let (subjects, found_errors) = index.allowed_subjects(&attributes(request, namespace));
        let describe = |subject: &Subject| {
            let mut text = String::new();
            subject.describe(&mut text, "");
            text
        };
        assert_eq!(subjects.iter().map(describe).collect::<Vec<_>>(), expect, "{request} in {namespace:?}");
        assert_eq!(found_errors.len(), errors);
    };
    let everywhere = [r#"Group "system:masters""#, r#"User "super""#, r#"Group "supers""#];
    let local = [everywhere[0], everywhere[1], everywhere[2], r#"ServiceAccount "robot/ns1""#];
    check("get pods", "ns1", &local, 1);
    check("create pods", "ns1", &everywhere, 1);
    check("get pods", "ns2", &everywhere, 0);
    check("get pods", "", &everywhere, 0);
    check("get /healthz", "", &everywhere[..1], 0);
}
