//! Match conditions of webhooks.

use pintle_integration::{Cluster, run};
use serde_json::{Value, json};

use super::webhook::{Behavior, MUTATING, VALIDATING, Webhook, allow, configure, rule};
use super::{CONFIGMAPS, config_map};

async fn configure_conditions(cluster: &Cluster, webhook: &Webhook, path: &str, policy: &str, expressions: &[&str]) {
    let rules = [rule(&["*"], &["configmaps"])];
    let numbered = expressions.iter().enumerate();
    let conditions: Vec<Value> =
        numbered.map(|(i, text)| json!({"name": format!("c{i}"), "expression": text})).collect();
    let more = json!({"matchConditions": conditions, "failurePolicy": policy});
    configure(cluster, path, "w", &[webhook.configured("w.example.com", &rules, &more)]).await;
}

#[test]
fn conditions_decide_whether_a_webhook_is_called() {
    run(async {
        let cluster = Cluster::start().await;
        let webhook = Webhook::start(Behavior::Respond(allow)).await;
        for path in [MUTATING, VALIDATING] {
            for (expressions, called) in [
                (&["true"][..], 1),
                (&["request.operation == 'CREATE'", "object.data.a == '1'"], 1),
                (&["oldObject != null"], 0),
                (&["'system:masters' in request.userInfo.groups"], 1),
                (&["authorizer.group('').resource('pods').namespace('default').check('get').allowed()"], 1),
                (&["request.options.fieldManager == 'm'", "false"], 0),
                // An error in one condition does not matter if another is false.
                (&["object.data.nothing == 'x'", "false"], 0),
            ] {
                configure_conditions(&cluster, &webhook, path, "Fail", expressions).await;
                let create = format!("{CONFIGMAPS}?dryRun=All&fieldManager=m");
                let _ = cluster.post(&create, config_map("c")).await.expect(201);
                assert_eq!(webhook.take().len(), called, "{path} {expressions:?}");
            }
            let _ = cluster.delete(&format!("{path}/w")).await.expect(200);
        }
        cluster.stop().await;
    });
}

#[test]
fn the_failure_policy_decides_about_conditions_that_fail() {
    run(async {
        let cluster = Cluster::start().await;
        let webhook = Webhook::start(Behavior::Respond(allow)).await;
        for path in [MUTATING, VALIDATING] {
            let expressions = ["object.data.nothing == 'x'", "true"];
            configure_conditions(&cluster, &webhook, path, "Fail", &expressions).await;
            cluster.post(CONFIGMAPS, config_map("c")).await.expect_error(
                403,
                "Forbidden",
                "configmaps \"c\" is forbidden: expression 'object.data.nothing == 'x'' resulted in error: no such key: \
                 nothing",
            );
            configure_conditions(&cluster, &webhook, path, "Ignore", &expressions).await;
            let _ = cluster.post(&format!("{CONFIGMAPS}?dryRun=All"), config_map("c")).await.expect(201);
            assert_eq!(webhook.take().len(), 0);
            let _ = cluster.delete(&format!("{path}/w")).await.expect(200);
        }
        let metrics = cluster.get("/metrics").await.expect(200).text();
        for step in ["admit", "validate"] {
            let labels = format!("kind=\"webhook\",name=\"w.example.com\",operation=\"CREATE\",type=\"{step}\"");
            for line in [
                format!("apiserver_admission_match_condition_evaluation_errors_total{{{labels}}} 2"),
                format!("apiserver_admission_match_condition_exclusions_total{{{labels}}} 1"),
                format!("apiserver_admission_match_condition_evaluation_seconds_count{{{labels}}} 2"),
            ] {
                assert!(metrics.contains(&line), "{line} in {metrics}");
            }
        }
        cluster.stop().await;
    });
}
