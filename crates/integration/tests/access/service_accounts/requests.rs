//! Requests for tokens, and the claims of the tokens.

use std::time::Duration;

use pintle::{Options, ServiceAccountOptions};
use pintle_integration::run;
use serde_json::{Value, json};

use super::{
    ACCOUNTS, ISSUER, PODS, SECRETS, bound_to, claims, create, create_pod, request_token, review, start, token, whoami,
};

#[test]
fn requested_tokens_authenticate_their_service_account() {
    run(async {
        let cluster = start(Options::default()).await;
        let created = request_token(&cluster, "robot", json!({})).await.expect(201).json();
        assert_eq!(
            (&created["apiVersion"], &created["kind"]),
            (&json!("authentication.k8s.io/v1"), &json!("TokenRequest"))
        );
        assert_eq!(
            (&created["metadata"]["name"], &created["metadata"]["namespace"]),
            (&json!("robot"), &json!("default"))
        );
        let spec = json!({"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": null});
        assert_eq!(created["spec"], spec);
        let token = created["status"]["token"].as_str().expect("a token");
        let claims = claims(token);
        assert_eq!((&claims["iss"], &claims["aud"]), (&json!(ISSUER), &json!([ISSUER])));
        let time = |claim: &str| claims[claim].as_i64().expect("a time");
        assert_eq!((time("exp") - time("iat"), time("nbf")), (3600, time("iat")));
        let robot = cluster.get(&format!("{ACCOUNTS}/robot")).await.expect(200).json();
        let uid = &robot["metadata"]["uid"];
        let kubernetes = json!({"namespace": "default", "serviceaccount": {"name": "robot", "uid": uid}});
        assert_eq!(claims["kubernetes.io"], kubernetes);
        let id = format!("JTI={}", claims["jti"].as_str().expect("an id"));
        let user = json!({
            "username": "system:serviceaccount:default:robot",
            "uid": uid,
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": [id]},
        });
        assert_eq!(whoami(&cluster, token).await, user);
        let reviewed = json!({"authenticated": true, "user": user, "audiences": [ISSUER]});
        assert_eq!(review(&cluster, token, &[]).await, reviewed);
        cluster.stop().await;
    });
}

#[test]
fn bound_tokens_name_what_they_are_bound_to() {
    run(async {
        let cluster = start(Options::default()).await;
        let node = create(&cluster, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
        let secret = create(&cluster, SECRETS, json!({"metadata": {"name": "s"}})).await;
        let mut pods = Vec::new();
        for (name, target) in [("unbound", None), ("on-node", Some("n")), ("on-no-node", Some("gone"))] {
            pods.push(create_pod(&cluster, name, "robot").await);
            if let Some(target) = target {
                let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": target}});
                let _ = cluster.post(&format!("{PODS}/{name}/binding"), binding.to_string()).await.expect(201);
            }
        }
        for (kind, name, expect) in [
            ("Pod", "unbound", json!({"pod-name": "unbound", "pod-uid": pods[0]})),
            ("Pod", "on-node", json!({"pod-name": "on-node", "pod-uid": pods[1], "node-name": "n", "node-uid": node})),
            ("Pod", "on-no-node", json!({"pod-name": "on-no-node", "pod-uid": pods[2], "node-name": "gone"})),
            ("Node", "n", json!({"node-name": "n", "node-uid": node})),
            ("Secret", "s", json!({})),
        ] {
            let token = token(&cluster, bound_to(kind, name)).await;
            let user = whoami(&cluster, &token).await;
            let mut extra = user["extra"].as_object().expect("extra attributes").clone();
            extra.remove("authentication.kubernetes.io/credential-id").expect("a credential id");
            let found: Value = extra
                .into_iter()
                .map(|(key, values)| {
                    (key.trim_start_matches("authentication.kubernetes.io/").to_owned(), values[0].clone())
                })
                .collect();
            assert_eq!(found, expect, "{kind} {name}");
        }
        let of_secret = token(&cluster, bound_to("Secret", "s")).await;
        assert_eq!(claims(&of_secret)["kubernetes.io"]["secret"], json!({"name": "s", "uid": secret}));
        cluster.stop().await;
    });
}

#[test]
fn invalid_requests_for_tokens_are_rejected_as_upstream_does() {
    run(async {
        let cluster = start(Options::default()).await;
        create_pod(&cluster, "robots", "robot").await;
        create_pod(&cluster, "others", "other").await;
        let with_uid = |mut reference: Value| {
            reference["boundObjectRef"]["uid"] = "u".into();
            reference
        };
        let expiration = |seconds: i64| json!({"expirationSeconds": seconds});
        let invalid = |seconds: i64, why: &str| {
            format!(
                "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: {seconds}: \
                 may not specify a duration {why}"
            )
        };
        for (account, spec, code, reason, message) in [
            ("nobody", json!({}), 404, "NotFound", "serviceaccounts \"nobody\" not found".to_owned()),
            ("robot", expiration(599), 422, "Invalid", invalid(599, "less than 10 minutes")),
            ("robot", expiration((1 << 32) + 1), 422, "Invalid", invalid((1 << 32) + 1, "larger than 2^32 seconds")),
            ("robot", bound_to("Pod", "gone"), 404, "NotFound", "pods \"gone\" not found".to_owned()),
            ("robot", bound_to("Node", "gone"), 404, "NotFound", "nodes \"gone\" not found".to_owned()),
            ("robot", bound_to("Secret", "gone"), 404, "NotFound", "secrets \"gone\" not found".to_owned()),
            (
                "robot",
                bound_to("ConfigMap", "gone"),
                400,
                "BadRequest",
                "cannot bind token to object of type /v1, Kind=ConfigMap".to_owned(),
            ),
            (
                "robot",
                json!({"boundObjectRef": {"apiVersion": "apps/v1", "kind": "Pod", "name": "robots"}}),
                400,
                "BadRequest",
                "cannot bind token to object of type apps/v1, Kind=Pod".to_owned(),
            ),
            (
                "robot",
                bound_to("Pod", "others"),
                400,
                "BadRequest",
                "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name."
                    .to_owned(),
            ),
            (
                "robot",
                with_uid(bound_to("Pod", "robots")),
                409,
                "Conflict",
                "Operation cannot be fulfilled on Pod \"robots\": the UID in the bound object reference (u) does not \
                 match the UID in record. The object might have been deleted and then recreated"
                    .to_owned(),
            ),
        ] {
            request_token(&cluster, account, spec).await.expect_error(code, reason, &message);
        }
        let path = format!("{ACCOUNTS}/robot/token");
        let uid = cluster.get(&format!("{ACCOUNTS}/robot")).await.json()["metadata"]["uid"].clone();
        for (metadata, code, reason, message) in [
            (
                json!({"name": "other"}),
                422,
                "Invalid",
                "TokenRequest.authentication.k8s.io \"robot\" is invalid: metadata.name: Invalid value: \"other\": must \
                 match the service account name if specified"
                    .to_owned(),
            ),
            (
                json!({"namespace": "other"}),
                400,
                "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the request".to_owned(),
            ),
            (
                json!({"uid": "u"}),
                409,
                "Conflict",
                format!(
                    "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"robot\": the UID in the token \
                     request (u) does not match the UID of the service account ({})",
                    uid.as_str().expect("a uid")
                ),
            ),
        ] {
            let refused = cluster.post(&path, json!({"metadata": metadata, "spec": {}}).to_string()).await;
            refused.expect_error(code, reason, &message);
        }
        let same = json!({"metadata": {"name": "robot", "namespace": "default", "uid": uid}, "spec": {}});
        let _ = cluster.post(&path, same.to_string()).await.expect(201);
        let _ = cluster.get(&path).await.expect(405);
        cluster.stop().await;
    });
}

#[test]
fn validity_of_tokens_is_limited_and_extended_as_configured() {
    run(async {
        let service_accounts = ServiceAccountOptions {
            max_token_expiration: Duration::from_secs(7200),
            ..ServiceAccountOptions::default()
        };
        let cluster = start(Options { service_accounts, ..Options::default() }).await;
        create_pod(&cluster, "p", "robot").await;
        let lifetime = |token: &str| {
            let claims = claims(token);
            let exp = claims["exp"].as_i64().expect("a time") - claims["iat"].as_i64().expect("a time");
            let after = claims["kubernetes.io"]["warnafter"].as_i64();
            (exp, after.map(|after| after - claims["iat"].as_i64().expect("a time")))
        };
        let long = request_token(&cluster, "robot", json!({"expirationSeconds": 7201})).await.expect(201);
        assert_eq!(long.header("warning"), "299 - \"requested expiration of 7201 seconds shortened to 7200 seconds\"");
        assert_eq!(long.json()["spec"]["expirationSeconds"], 7200);
        assert_eq!(lifetime(long.json()["status"]["token"].as_str().expect("a token")), (7200, None));
        let mut to_pod = bound_to("Pod", "p");
        to_pod["expirationSeconds"] = 3607.into();
        let year = 365 * 24 * 60 * 60;
        let extended = request_token(&cluster, "robot", to_pod.clone()).await.expect(201).json();
        assert_eq!(lifetime(extended["status"]["token"].as_str().expect("a token")), (year, Some(3607)));
        // The response does not show the extension.
        assert_eq!(extended["spec"]["expirationSeconds"], 3607);
        for (key, value) in [("expirationSeconds", json!(3608)), ("audiences", json!([ISSUER, "other"]))] {
            let mut other = to_pod.clone();
            other[key] = value;
            assert_eq!(lifetime(&token(&cluster, other).await).1, None, "{key}");
        }
        assert_eq!(lifetime(&token(&cluster, json!({"expirationSeconds": 3607})).await), (3607, None));
        cluster.stop().await;
    });
}
