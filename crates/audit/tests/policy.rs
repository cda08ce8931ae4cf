//! Policies and their decisions, compared with upstream's library.

use pintle_audit::{Policy, Stage};
use pintle_auth::{AuthorizationAttributes, UserInfo};
use serde_json::Value;

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|row| serde_json::from_str(row).expect("a row")).collect()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

#[test]
fn policies_have_upstream_errors_and_warnings() {
    for row in rows(include_str!("recorded/policies.jsonl")) {
        let policy = Policy::parse(text(&row, "Text").as_bytes());
        let error = policy.as_ref().err().map(String::as_str).unwrap_or_default();
        assert_eq!(error, text(&row, "Error"), "{}", text(&row, "Text"));
        if let Ok(policy) = policy {
            assert_eq!(policy.warning().unwrap_or_default(), text(&row, "Warning"), "{}", text(&row, "Text"));
        }
    }
}

#[test]
fn the_first_matching_rule_decides() {
    let rows = rows(include_str!("recorded/decisions.jsonl"));
    assert!(rows.len() > 200);
    for row in rows {
        let policy = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{}", text(&row, "Policy"));
        let policy = Policy::parse(policy.as_bytes()).expect("a policy");
        let request = &row["Request"];
        let groups = request["Groups"].as_array().into_iter().flatten();
        let user = request["User"].as_str().map(|name| UserInfo {
            name: name.into(),
            groups: groups.filter_map(|group| Some(group.as_str()?.into())).collect(),
            ..UserInfo::default()
        });
        let decision = policy.decide(
            user.as_ref(),
            &AuthorizationAttributes {
                verb: text(request, "Verb"),
                group: text(request, "Group"),
                resource: text(request, "Resource"),
                subresource: text(request, "Subresource"),
                namespace: text(request, "Namespace"),
                name: text(request, "Name"),
                path: text(request, "Path"),
                ..AuthorizationAttributes::default()
            },
        );
        let mut stages: Vec<_> = decision.omit_stages.iter().map(Stage::name).collect();
        stages.sort_unstable();
        assert_eq!(decision.level.name(), text(&row, "Level"), "{row}");
        assert_eq!(serde_json::json!(stages), row["OmitStages"], "{row}");
        assert_eq!(decision.omit_managed_fields, row["OmitManagedFields"], "{row}");
    }
}

#[test]
fn files_that_cannot_be_read_have_upstream_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("a\"b");
    let shown = missing.display();
    let expect = format!(
        "loading audit policy file: failed to read file path {:?}: open {shown}: no such file or directory",
        missing.to_str().expect("a path")
    );
    assert_eq!(Policy::read(&missing), Err(expect));
    std::fs::write(&missing, "{}").expect("a file");
    let expect = format!(
        "loading audit policy file: unknown group version field audit.k8s.io/__internal, Kind=Policy in policy: from \
         file {shown}"
    );
    assert_eq!(Policy::read(&missing), Err(expect));
}
