//! Tokens with which API servers authenticate themselves to admission webhooks (KEP-5793).

use pintle::Options;
use pintle_gates::Gates;
use pintle_integration::{AccessOptions, AuthorizationMode, Cluster, run};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::{Value, json};

use super::{ACCOUNTS, ISSUER, claims, create, request_token, review, start};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const URL: &str = "https://validate.test/hook";
const FEATURE: &str = "APIServerWebhookAuthenticationToken";
const KINDS: [(&str, &str); 2] = [
    ("ValidatingWebhookConfiguration", "validatingwebhookconfiguration"),
    ("MutatingWebhookConfiguration", "mutatingwebhookconfiguration"),
];

fn gates(minor: u8, enabled: bool) -> Gates {
    let changed = enabled.then(|| (FEATURE.to_owned(), true)).into_iter().collect();
    let defaults = Gates::of(EffectiveVersion::of(Minor::new(minor)));
    defaults.overridden(&changed).expect("a settable feature gate").0
}

/// A cluster whose service account `robot` may attest groups, with a configuration of webhooks of each kind.
async fn cluster() -> Cluster {
    let access = AccessOptions { authorization_modes: vec![AuthorizationMode::Rbac], ..AccessOptions::default() };
    let cluster = start(Options { gates: gates(37, true), access, ..Options::default() }).await;
    for account in ["all", "stranger"] {
        create(&cluster, ACCOUNTS, json!({"metadata": {"name": account}})).await;
    }
    for (account, groups) in [("robot", json!(["apps", "batch"])), ("all", json!(["*"]))] {
        let rule = json!({
            "apiGroups": ["authentication.k8s.io"], "resources": ["admissionReviewAPIGroups"], "verbs": ["attest"],
            "resourceNames": groups,
        });
        create(&cluster, &format!("{RBAC}/clusterroles"), json!({"metadata": {"name": account}, "rules": [rule]}))
            .await;
        let binding = json!({
            "metadata": {"name": account},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
        });
        create(&cluster, &format!("{RBAC}/clusterrolebindings"), binding).await;
    }
    for (kind, claim) in KINDS {
        let webhook = |name: &str, config: Value| {
            json!({
                "name": name, "clientConfig": config, "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "rules": [{"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["none"]}],
            })
        };
        let service = |name: &str, more: &Value| {
            let mut service = json!({"namespace": "hooks", "name": name});
            service.as_object_mut().expect("an object").extend(more.as_object().expect("fields").clone());
            json!({ "service": service })
        };
        let webhooks = [
            webhook("a.test.io", json!({"url": URL})),
            webhook("b.test.io", service("full", &json!({"port": 8443, "path": "/validate"}))),
            webhook("c.test.io", service("short", &json!({}))),
        ];
        let object = json!({"kind": kind, "metadata": {"name": "w"}, "webhooks": webhooks});
        create(&cluster, &format!("{ADMISSION}/{claim}s"), object).await;
    }
    cluster
}

fn spec(kind: &str, audience: &str, group: &str) -> Value {
    json!({
        "audiences": [audience],
        "boundObjectRef": {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "name": "w"},
        "attestations": {"admissionReviewAPIGroups": [group]},
    })
}

#[test]
fn tokens_are_bound_to_configurations_and_attest_groups() {
    run(async {
        let cluster = cluster().await;
        for (kind, claim) in KINDS {
            let path = format!("{ADMISSION}/{claim}s/w");
            let uid = cluster.get(&path).await.expect(200).json()["metadata"]["uid"].clone();
            let mut request = spec(kind, URL, "apps");
            request["boundObjectRef"]["uid"] = uid.clone();
            let created = request_token(&cluster, "robot", request).await.expect(201).json();
            assert_eq!(created["spec"]["expirationSeconds"], 600);
            assert_eq!(created["spec"]["attestations"], json!({"admissionReviewAPIGroups": ["apps"]}));
            let token = created["status"]["token"].as_str().expect("a token");
            let found = claims(token);
            let time = |claim: &str| found[claim].as_i64().expect("a time");
            assert_eq!((time("exp") - time("iat"), &found["aud"]), (600, &json!([URL])));
            let account = cluster.get(&format!("{ACCOUNTS}/robot")).await.expect(200).json();
            assert_eq!(
                found["kubernetes.io"],
                json!({
                    "namespace": "default", "serviceaccount": {"name": "robot", "uid": account["metadata"]["uid"]},
                    claim: {"name": "w", "uid": uid}, "attestations": {"admissionReviewAPIGroups": ["apps"]},
                })
            );
            let mut extra = review(&cluster, token, &[URL]).await["user"]["extra"].clone();
            extra.as_object_mut().expect("attributes").remove("authentication.kubernetes.io/credential-id");
            let prefix = "authentication.kubernetes.io";
            assert_eq!(
                extra,
                json!({
                    format!("{prefix}/{claim}-name"): ["w"],
                    format!("{prefix}/{claim}-uid"): [uid],
                    format!("attestation.{prefix}/admissionReviewAPIGroups"): ["apps"],
                })
            );
            for audience in ["https://full.hooks.svc:8443/validate", "https://short.hooks.svc:443/"] {
                let _ = request_token(&cluster, "robot", spec(kind, audience, "apps")).await.expect(201);
            }
            // A token for all groups needs no webhook.
            let _ = request_token(&cluster, "all", spec(kind, "https://other.test", "*")).await.expect(201);
            let _ = cluster.delete(&path).await.expect(200);
            let reviewed = review(&cluster, token, &[URL]).await;
            assert_eq!(reviewed["error"], "[invalid bearer token, service account token has been invalidated]");
        }
        cluster.stop().await;
    });
}

#[test]
fn invalid_requests_are_rejected_as_upstream_does() {
    run(async {
        let cluster = cluster().await;
        let denied = |account: &str| format!("serviceaccounts/token \"{account}\" is forbidden: token request denied");
        let forbidden = |account: &str, group: &str| {
            format!(
                "admissionReviewAPIGroups.authentication.k8s.io \"{group}\" is forbidden: User \
                 \"system:serviceaccount:default:{account}\" cannot attest resource \"admissionReviewAPIGroups\" in API \
                 group \"authentication.k8s.io\" at the cluster scope"
            )
        };
        let invalid = |why: &str| format!("TokenRequest.authentication.k8s.io \"\" is invalid: spec.{why}");
        for (kind, _) in KINDS {
            let with = |pointer: &str, value: Value| {
                let mut spec = spec(kind, URL, "apps");
                *spec.pointer_mut(pointer).expect("a field") = value;
                spec
            };
            let mut stale = spec(kind, URL, "apps");
            stale["boundObjectRef"]["uid"] = json!("old");
            for (account, spec, code, reason, message) in [
                ("robot", with("/boundObjectRef/name", json!("gone")), 403, "Forbidden", denied("robot")),
                ("robot", spec(kind, "https://other.test", "apps"), 403, "Forbidden", denied("robot")),
                ("robot", spec(kind, "https://full.hooks.svc:8443/", "apps"), 403, "Forbidden", denied("robot")),
                ("robot", spec(kind, URL, "batch"), 403, "Forbidden", denied("robot")),
                ("robot", spec(kind, URL, "*"), 403, "Forbidden", forbidden("robot", "*")),
                ("stranger", spec(kind, URL, "apps"), 403, "Forbidden", forbidden("stranger", "apps")),
                (
                    "robot",
                    stale,
                    409,
                    "Conflict",
                    format!(
                        "Operation cannot be fulfilled on {kind}.admissionregistration.k8s.io \"w\": the UID in the bound \
                         object reference (old) does not match the UID in record. The object might have been deleted and \
                         then recreated"
                    ),
                ),
                (
                    "robot",
                    spec(kind, ISSUER, "apps"),
                    400,
                    "BadRequest",
                    "api server audiences are invalid for webhook token requests".to_owned(),
                ),
                (
                    "robot",
                    with("/audiences", json!([URL, "b"])),
                    422,
                    "Invalid",
                    invalid(&format!(
                        "audiences: Invalid value: [\"{URL}\",\"b\"]: must be length 1 when bound to a webhook config"
                    )),
                ),
                (
                    "robot",
                    with("/attestations", Value::Null),
                    422,
                    "Invalid",
                    invalid(
                        "attestations: Invalid value: null: webhook bound requests require exactly one \
                         admissionReviewAPIGroups attestation",
                    ),
                ),
                (
                    "robot",
                    spec(kind, URL, ""),
                    422,
                    "Invalid",
                    invalid("attestations[admissionReviewAPIGroups]: Invalid value: \"\": may not be an empty string"),
                ),
                (
                    "robot",
                    with("/boundObjectRef", Value::Null),
                    422,
                    "Invalid",
                    invalid(
                        "attestations: Invalid value: {\"admissionReviewAPIGroups\":[\"apps\"]}: attestations may only be \
                         specified with a webhook bound object reference",
                    ),
                ),
            ] {
                request_token(&cluster, account, spec).await.expect_error(code, reason, &message);
            }
        }
        cluster.stop().await;
    });
}

#[test]
fn without_the_feature_there_are_no_tokens_for_webhooks() {
    run(async {
        let kind = "admissionregistration.k8s.io/v1, Kind=ValidatingWebhookConfiguration";
        for (minor, end) in [(36, String::new()), (37, format!(" (feature gate {FEATURE} is disabled)"))] {
            let cluster = start(Options { gates: gates(minor, false), ..Options::default() }).await;
            let refused = request_token(&cluster, "robot", spec(KINDS[0].0, URL, "apps")).await;
            let message = format!("cannot bind token to object of type {kind}{end}");
            refused.expect_error(400, "BadRequest", &message);
            cluster.stop().await;
        }
    });
}
