//! `spec.scheduling` of jobs: how the pods of a job are scheduled together.

use pintle_gates::Gates;
use pintle_integration::{Cluster, Options, run};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::{Value, json};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn job(scheduling: &Value) -> String {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    json!({"metadata": {"name": "j"}, "spec": {"template": template, "scheduling": scheduling}}).to_string()
}

#[test]
fn scheduling_is_validated_by_tags_and_code() {
    run(async {
        let changed = [("GenericWorkload".to_owned(), true), ("WorkloadWithJob".to_owned(), true)].into();
        let (gates, _) =
            Gates::of(EffectiveVersion::of(Minor::new(37))).overridden(&changed).expect("settable feature gates");
        let cluster = Cluster::with_options(Options { gates, ..Options::default() }).await;
        let refused = cluster.post(JOBS, job(&json!({"disruptionMode": {"all": {}}}))).await;
        refused.expect_error(
            422,
            "Invalid",
            "Job.batch \"j\" is invalid: spec.scheduling.disruptionMode: Invalid value: \"\": the disruptionMode `all` is \
             not supported with the Basic scheduling policy",
        );
        let refused = cluster.post(JOBS, job(&json!({"schedulingPolicy": {"gang": {"minCount": 0}}}))).await;
        refused.expect_error(
            422,
            "Invalid",
            "Job.batch \"j\" is invalid: spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: 0: must be greater \
             than or equal to 1",
        );
        let gang = json!({"schedulingPolicy": {"gang": {"minCount": 1}}, "disruptionMode": {"all": {}}});
        let created = cluster.post(JOBS, job(&gang)).await.expect(201).json();
        assert_eq!(created["spec"]["scheduling"], gang);

        let patch = async |scheduling: Value| {
            let patch = json!({"spec": {"scheduling": scheduling}}).to_string();
            cluster.patch(&format!("{JOBS}/j"), "merge", patch).await
        };
        let larger = patch(json!({"schedulingPolicy": {"gang": {"minCount": 2}}})).await.expect(200).json();
        assert_eq!(larger["spec"]["scheduling"]["schedulingPolicy"], json!({"gang": {"minCount": 2}}));
        let messages = |status: Value| -> Vec<String> {
            let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
            causes.iter().map(|c| format!("{}: {}", c["field"], c["message"]).replace('"', "")).collect()
        };
        let other = patch(json!({"schedulingPolicy": {"gang": null, "basic": {}}, "disruptionMode": null})).await;
        assert_eq!(
            messages(other.expect(422).json()),
            [
                "spec.scheduling.schedulingPolicy: Invalid value: null: field is immutable",
                "spec.scheduling.disruptionMode: Invalid value: null: field is immutable",
            ]
        );
        assert_eq!(
            messages(patch(Value::Null).await.expect(422).json()),
            ["spec.scheduling: Invalid value: null: field cannot be cleared once set"]
        );
        cluster.stop().await;

        // Older versions do not know the field.
        let cluster = Cluster::start().await;
        let created = cluster.post(JOBS, job(&gang)).await.expect(201).json();
        assert_eq!(created["spec"].get("scheduling"), None);
        cluster.stop().await;
    });
}
