//! An authorization webhook in a program with upstream's types.

use pintle_integration::{AccessServices, AuthorizationMode, AuthorizationOptions, Cluster, run};

use super::{MAPS, error, get_as, options, reason};

#[test]
fn a_webhook_of_upstreams_types_understands_reviews() {
    run(async {
        for version in ["v1", "v1beta1"] {
            let services = AccessServices::start();
            let authorization = AuthorizationOptions {
                webhook_config_file: Some(services.authorizer()),
                webhook_version: version.to_owned(),
                ..AuthorizationOptions::default()
            };
            let cluster = Cluster::with_options(options(&[AuthorizationMode::Webhook], authorization)).await;
            let _ =
                get_as(&cluster, "alice", &format!("{MAPS}?labelSelector=a%3Db,c%20notin%20(d),!e")).await.expect(200);
            assert_eq!(reason(&cluster, "bob", MAPS).await, ": bob is unknown");
            assert_eq!(reason(&cluster, "alice", "/api/v1/namespaces/default/secrets").await, ": no secrets for alice");
            let pods = "/api/v1/pods?fieldSelector=spec.nodeName%3D";
            let _ = get_as(&cluster, "bob", &format!("{pods}bob")).await.expect(200);
            let _ = get_as(&cluster, "bob", &format!("{pods}other")).await.expect(403);
            let _ = get_as(&cluster, "bob", "/version").await.expect(403);
            // Without the webhook, no authorizer allows a request without a cached decision.
            drop(services);
            let path = "/api/v1/namespaces/default/events";
            let mut message = error(&cluster, "alice", path).await;
            if message.contains("unexpected EOF") {
                // The server had not noticed the end of the connection when it sent the review.
                message = error(&cluster, "alice", path).await;
            }
            assert!(
                message.contains("Post \"https://127.0.0.1:") && message.contains("connection refused"),
                "{message}"
            );
            cluster.stop().await;
        }
    });
}
