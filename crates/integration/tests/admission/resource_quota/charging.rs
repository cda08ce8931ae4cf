//! The charges of writes, and the charges that failed writes give back.

use std::sync::Arc;

use futures_util::future::join_all;
use pintle::Options;
use pintle_admission::{AdmissionAttributes, AdmissionConfiguration, AdmissionPlugin};
use pintle_integration::run;
use pintle_registry::{ApiError, BoxFuture};

use super::*;

#[test]
fn concurrent_creates_never_exceed_a_quota() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_quota(&cluster, "q", json!({"hard": {"pods": "10"}})).await;
        create_quota(&cluster, "wide", json!({"hard": {"count/pods": "100"}})).await;
        let names: Vec<String> = (0..64).map(|number| format!("p{number}")).collect();
        let creates = names.iter().map(|name| cluster.post(PODS, pod(name, json!({})).to_string()));
        let mut created = 0;
        for (name, response) in names.iter().zip(join_all(creates).await) {
            match response.status.as_u16() {
                201 => created += 1,
                _ => check_forbidden(
                    response,
                    &format!("pods \"{name}\""),
                    "exceeded quota: q, requested: pods=1, used: pods=10, limited: pods=10",
                ),
            }
        }
        assert_eq!(created, 10);
        let pods = cluster.get(PODS).await.expect(200).json();
        assert_eq!(pods["items"].as_array().map(Vec::len), Some(10));
        assert_eq!(status(&cluster, "q").await["used"], json!({"pods": "10"}));
        assert_eq!(status(&cluster, "wide").await["used"], json!({"count/pods": "10"}));
        cluster.stop().await;
    });
}

#[test]
fn creates_and_deletes_at_the_same_time_never_exceed_a_quota() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_quota(&cluster, "q", json!({"hard": {"configmaps": "5"}})).await;
        let list = cluster.get(CONFIG_MAPS).await.expect(200).json();
        let version = list["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
        let churn = (0..16).map(|writer| {
            let cluster = &cluster;
            async move {
                for round in 0..8 {
                    let name = format!("c{writer}-{round}");
                    if cluster.post(CONFIG_MAPS, config_map(&name).to_string()).await.status == 201 {
                        let _ = cluster.delete(&format!("{CONFIG_MAPS}/{name}")).await.expect(200);
                    }
                }
            }
        });
        join_all(churn).await;
        // The write may have to wait for the controller. It is charged while the controller counts.
        while cluster.post(CONFIG_MAPS, config_map("last").to_string()).await.status != 201 {}
        let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={version}")).await;
        let mut present = 0;
        loop {
            let event = watch.next().await.expect("an event");
            match event["type"].as_str() {
                Some("ADDED") => present += 1,
                _ => present -= 1,
            }
            assert!(present <= 5, "{event}");
            if event["object"]["metadata"]["name"] == "last" {
                break;
            }
        }
        wait_for_used(&cluster, "q", json!({"configmaps": "1"})).await;
        cluster.stop().await;
    });
}

#[test]
fn dry_runs_are_checked_but_not_charged() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_quota(&cluster, "q", json!({"hard": {"configmaps": "1"}})).await;
        let before = cluster.get(&format!("{QUOTAS}/q")).await.expect(200).json();
        let dry_run = format!("{CONFIG_MAPS}?dryRun=All");
        create(&cluster, &dry_run, config_map("a")).await;
        create(&cluster, &dry_run, config_map("a")).await;
        assert_eq!(cluster.get(&format!("{QUOTAS}/q")).await.expect(200).json(), before);
        create(&cluster, CONFIG_MAPS, config_map("a")).await;
        check_forbidden(
            cluster.post(&dry_run, config_map("b").to_string()).await,
            "configmaps \"b\"",
            "exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1",
        );
        cluster.stop().await;
    });
}

/// Refuses objects with the name `refused`.
struct RefusingPlugin;

impl AdmissionPlugin for RefusingPlugin {
    fn name(&self) -> &'static str {
        "RefusingPlugin"
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a pintle_value::Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            match object.name() {
                "refused" => Err(attributes.forbidden(object, "its name says so")),
                _ => Ok(()),
            }
        })
    }
}

#[test]
fn creates_that_fail_give_their_share_back() {
    run(async {
        let admission =
            AdmissionConfiguration { additional: vec![Arc::new(RefusingPlugin)], ..AdmissionConfiguration::default() };
        let cluster = Cluster::with_options(Options { admission, ..options() }).await;
        create_quota(&cluster, "q", json!({"hard": {"configmaps": "2", "count/configmaps": "5"}})).await;
        create(&cluster, CONFIG_MAPS, config_map("a")).await;
        let failing = [
            (config_map("refused"), 403),
            (config_map("a"), 409),
            (json!({"metadata": {"name": "b", "resourceVersion": "1"}}), 500),
        ];
        for (object, code) in failing {
            let _ = cluster.post(CONFIG_MAPS, object.to_string()).await.expect(code);
            assert_eq!(status(&cluster, "q").await["used"], json!({"configmaps": "1", "count/configmaps": "1"}));
        }
        let racing = (0..16).map(|_| cluster.post(CONFIG_MAPS, config_map("b").to_string()));
        assert_eq!(join_all(racing).await.iter().filter(|response| response.status == 201).count(), 1);
        assert_eq!(status(&cluster, "q").await["used"], json!({"configmaps": "2", "count/configmaps": "2"}));
        cluster.stop().await;
    });
}

/// The controller manager may have counted without the failed write. A returned charge would then belong to another
/// write.
#[test]
fn nothing_is_given_back_while_a_controller_manager_holds_its_lease() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_quota(&cluster, "q", json!({"hard": {"configmaps": "5"}})).await;
        create(&cluster, CONFIG_MAPS, config_map("a")).await;
        let lease = json!({
            "metadata": {"name": "kube-controller-manager"},
            "spec": {
                "holderIdentity": "someone",
                "leaseDurationSeconds": 3600,
                "renewTime": "2200-01-01T00:00:00.000000Z",
            },
        });
        create(&cluster, LEASES, lease).await;
        let _ = cluster.post(CONFIG_MAPS, config_map("a").to_string()).await.expect(409);
        assert_eq!(status(&cluster, "q").await["used"], json!({"configmaps": "2"}));
        cluster.stop().await;
    });
}

#[test]
fn updates_that_fail_give_their_share_back() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_quota(&cluster, "q", json!({"hard": {"services.nodeports": "3"}})).await;
        let service =
            json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"name": "a", "port": 1}]}});
        let mut created = create(&cluster, SERVICES, service).await;
        created["spec"]["ports"] = json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]);
        created["metadata"]["resourceVersion"] = json!("1");
        let _ = cluster.put(&format!("{SERVICES}/a"), created.to_string()).await.expect(409);
        assert_eq!(status(&cluster, "q").await["used"], json!({"services.nodeports": "1"}));
        created["metadata"]["resourceVersion"].take();
        let _ = cluster.put(&format!("{SERVICES}/a"), created.to_string()).await.expect(200);
        assert_eq!(status(&cluster, "q").await["used"], json!({"services.nodeports": "2"}));
        cluster.stop().await;
    });
}

#[test]
fn generated_names_are_charged_once() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_quota(&cluster, "q", json!({"hard": {"configmaps": "2"}})).await;
        let generated = json!({"metadata": {"generateName": "c-"}});
        create(&cluster, CONFIG_MAPS, generated.clone()).await;
        create(&cluster, CONFIG_MAPS, generated.clone()).await;
        assert_eq!(status(&cluster, "q").await["used"], json!({"configmaps": "2"}));
        let refused = cluster.post(CONFIG_MAPS, generated.to_string()).await.expect(403).json();
        let message = refused["message"].as_str().expect("a message");
        assert!(message.starts_with("configmaps \"c-"), "{message}");
        assert!(
            message.ends_with(
                "is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2"
            ),
            "{message}"
        );
        cluster.stop().await;
    });
}
