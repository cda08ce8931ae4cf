//! `/metrics` and `/metrics/slis`: the format, and the event that each metric counts.

mod scrape;

use std::time::Duration;

use pintle::{AccessOptions, Options};
use pintle_gates::Gates;
use pintle_integration::{Cluster, Protocol, eventually, run};
use pintle_server::RequestLimits;
use pintle_versions::{EffectiveVersion, Minor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(crate) use scrape::Scrape;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn scrape(cluster: &Cluster) -> Scrape {
    Scrape::of(cluster, "/metrics").await
}

/// Waits until a selected sum has a value. It is only for requests and tasks that end after their client has seen the
/// end.
async fn wait_for(cluster: &Cluster, selector: &str, expect: f64) {
    let reached = || async { scrape(cluster).await.sum(selector) == expect };
    eventually(&format!("{selector}: {expect}"), reached).await;
}

fn config_map(name: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)
}

#[test]
fn metrics_are_in_the_prometheus_text_format() {
    run(async {
        let cluster = Cluster::durable().await;
        let _ = cluster.post(MAPS, config_map("a")).await.expect(201);
        let _ = cluster.get(MAPS).await.expect(200);
        for (accept, escaping) in [
            ("", "underscores"),
            ("application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.3", "underscores"),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                "allow-utf-8",
            ),
            ("text/plain;escaping=dots", "dots"),
            ("text/plain;escaping=other", "underscores"),
        ] {
            let response = cluster.request("GET", "/metrics").header("accept", accept).send().await.expect(200);
            let expect = format!("text/plain; version=0.0.4; charset=utf-8; escaping={escaping}");
            assert_eq!(response.header("content-type"), expect, "{accept}");
            assert!(response.header("process-start-time-unix").parse::<u64>().is_ok_and(|time| time > 1_700_000_000));
            let scraped = Scrape::parse(&response.text());
            assert!(scraped.sum("apiserver_request_total{verb=POST,code=201,resource=configmaps}") == 1.0);
        }
        let compressed = cluster.request("GET", "/metrics").header("accept-encoding", "gzip").send().await.expect(200);
        assert_eq!(compressed.header("content-encoding"), "gzip");
        for method in ["POST", "PUT"] {
            let response = cluster.request(method, "/metrics").send().await.expect(200);
            Scrape::parse(&response.text());
        }
        cluster.stop().await;
    });
}

#[test]
fn requests_for_unserved_names_add_no_series() {
    run(async {
        let cluster = Cluster::start().await;
        // The server closes HTTP/2 connections after requests that it refuses.
        let client = cluster.client(Protocol::Http1);
        let invented = async |name: &str| {
            let method = format!("{}X", name.to_uppercase());
            for (method, path) in [
                ("GET", format!("/apis/{name}.example.com/v1/things")),
                ("POST", format!("/apis/apps/{name}/deployments")),
                ("GET", format!("/apis/apps/v1/{name}")),
                ("GET", format!("/apis/apps/v1/namespaces/{name}/deployments/{name}/{name}")),
                ("GET", format!("/api/v1/pods?dryRun={name}&limit=1")),
                ("GET", format!("/openapi/v3/{name}")),
                (&*method, "/api/v1/pods".to_owned()),
                (&*method, format!("/{name}")),
            ] {
                for anonymous in [true, false] {
                    let request = client.request(method, &path);
                    let request = if anonymous { request.anonymous() } else { request };
                    let code = request.send().await.status.as_u16();
                    assert_eq!(code == 401, anonymous, "{method} {path}: {code}");
                }
            }
        };
        invented("first").await;
        let before = scrape(&cluster).await;
        for index in 0..1000 {
            invented(&format!("g{index}")).await;
        }
        let after = scrape(&cluster).await;
        assert_eq!(before.series(), after.series());
        cluster.stop().await;
    });
}

#[test]
fn requests_are_counted_with_the_labels_of_upstream() {
    run(async {
        let cluster = Cluster::start().await;
        let _ = cluster.post(&format!("{MAPS}?dryRun=All"), config_map("a")).await.expect(201);
        let _ = cluster.post(MAPS, config_map("a")).await.expect(201);
        let _ = cluster.get(&format!("{MAPS}/a")).await.expect(200);
        let _ = cluster.get(&format!("{MAPS}/b")).await.expect(404);
        let _ = cluster.get(MAPS).await.expect(200);
        let _ = cluster.get("/api/v1/configmaps").await.expect(200);
        let _ = cluster.get("/api/v1/configmaps?fieldSelector=metadata.name%3Da").await.expect(200);
        let _ = cluster.get("/api/v1/configmaps?watch=1&timeoutSeconds=1").await.expect(200);
        let _ = cluster.delete(MAPS).await.expect(200);
        let apply = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
        let request = cluster.request("PATCH", &format!("{MAPS}/a?fieldManager=m"));
        let _ = request.body("application/apply-patch+yaml", apply).send().await.expect(201);
        // The server answers these requests before they reach a handler, and counts them elsewhere.
        let _ = cluster.request("GET", MAPS).anonymous().send().await.expect(401);
        let _ = cluster.request("PUT", MAPS).send().await.expect(405);
        let found = scrape(&cluster).await;
        for (verb, dry_run, scope, code, count) in [
            ("POST", "All", "resource", 201, 1),
            ("POST", "", "resource", 201, 1),
            ("GET", "", "resource", 200, 1),
            ("GET", "", "resource", 404, 1),
            ("LIST", "", "namespace", 200, 1),
            ("LIST", "", "cluster", 200, 2),
            ("WATCH", "", "cluster", 200, 1),
            ("DELETE", "", "namespace", 200, 1),
            ("APPLY", "", "resource", 201, 1),
        ] {
            let labels = format!("verb={verb},scope={scope},group=,version=v1,resource=configmaps,subresource=");
            let selector =
                format!("apiserver_request_total{{{labels},dry_run={dry_run},component=apiserver,code={code}}}");
            assert_eq!(found.sum(&selector), f64::from(count), "{selector}: {found:#?}");
        }
        assert_eq!(
            found.sum("apiserver_request_total{code=401}") + found.sum("apiserver_request_total{code=405}"),
            0.0
        );
        assert_eq!(found.sum("authentication_attempts{result=failure}"), 1.0);
        cluster.stop().await;
    });
}

/// The expected change of each selected sum.
type Expected<'e> = &'e [(&'e str, f64)];

/// Sends a request, and checks the changes of the metrics.
async fn check(cluster: &Cluster, method: &str, path: &str, body: &str, expect: Expected<'_>) {
    let before = scrape(cluster).await;
    let request = cluster.request(method, path);
    let request = if body.is_empty() { request } else { request.json(body) };
    let response = request.send().await;
    assert!(response.status.as_u16() < 500, "{method} {path}: {}", response.text());
    let after = scrape(cluster).await;
    for (selector, added) in expect {
        let found = after.sum(selector) - before.sum(selector);
        assert_eq!(found, *added, "{method} {path}: {selector} {after:#?}");
    }
}

#[test]
fn each_metric_changes_by_the_event_that_it_counts() {
    run(async {
        let cluster = Cluster::durable().await;
        let (one, map) = (1.0, config_map("a"));
        check(
            &cluster,
            "POST",
            MAPS,
            &map,
            &[
                ("apiserver_request_total{verb=POST,resource=configmaps,code=201}", one),
                ("apiserver_request_duration_seconds_count{verb=POST,resource=configmaps}", one),
                ("apiserver_request_sli_duration_seconds_count{verb=POST,resource=configmaps}", one),
                ("apiserver_response_sizes_count{resource=configmaps}", 0.0),
                ("apiserver_storage_objects{resource=configmaps}", one),
                ("apiserver_resource_objects{group=,resource=configmaps}", one),
                ("apiserver_watch_cache_events_received_total{resource=configmaps}", one),
                ("apiserver_watch_cache_events_dispatched_total{resource=configmaps}", one),
                ("apiserver_storage_events_received_total{resource=configmaps}", one),
                ("pintle_watch_cache_events{resource=configmaps}", one),
                ("etcd_requests_total{operation=create,resource=configmaps}", one),
                ("etcd_request_duration_seconds_count{operation=create,resource=configmaps}", one),
                // These count the request and the second scrape.
                ("authentication_attempts{result=success}", 2.0),
                ("authentication_duration_seconds_count{result=success}", 2.0),
                ("authorization_attempts_total{result=allowed}", 2.0),
                ("authorization_duration_seconds_count{result=allowed}", 2.0),
                ("apiserver_request_filter_duration_seconds_count{filter=authentication}", 2.0),
                ("apiserver_request_filter_duration_seconds_count{filter=authorization}", 2.0),
                ("authenticated_user_requests", 2.0),
            ],
        )
        .await;
        check(
            &cluster,
            "POST",
            &format!("{MAPS}?dryRun=All"),
            &config_map("dry"),
            &[
                ("apiserver_request_duration_seconds_count{verb=POST,resource=configmaps,dry_run=All}", one),
                ("apiserver_request_sli_duration_seconds_count{verb=POST,resource=configmaps}", 0.0),
                ("etcd_requests_total{resource=configmaps}", 0.0),
            ],
        )
        .await;
        check(
            &cluster,
            "GET",
            &format!("{MAPS}/a"),
            "",
            &[
                ("apiserver_response_sizes_count{verb=GET,resource=configmaps,scope=resource}", one),
                ("apiserver_cache_list_total{resource=configmaps}", 0.0),
            ],
        )
        .await;
        let _ = cluster.post(MAPS, config_map("b")).await.expect(201);
        for (query, returned) in
            [("", 2.0), ("?limit=1", 1.0), ("?labelSelector=none", 0.0), ("?fieldSelector=metadata.name%3Db", 1.0)]
        {
            let fetched = if query.starts_with("?field") { 1.0 } else { 2.0 };
            check(
                &cluster,
                "GET",
                &format!("{MAPS}{query}"),
                "",
                &[
                    ("apiserver_response_sizes_count{verb=LIST,resource=configmaps,scope=namespace}", one),
                    ("apiserver_cache_list_total{group=,resource=configmaps,index=}", one),
                    ("apiserver_cache_list_fetched_objects_total{group=,resource=configmaps,index=}", fetched),
                    ("apiserver_cache_list_returned_objects_total{group=,resource=configmaps}", returned),
                    ("apiserver_watch_cache_consistent_read_total{resource=configmaps,success=true}", one),
                    ("apiserver_watch_cache_read_wait_seconds_count{resource=configmaps}", one),
                ],
            )
            .await;
        }
        let pods = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn";
        check(&cluster, "GET", pods, "", &[("apiserver_cache_list_total{resource=pods,index=f:spec.nodeName}", one)])
            .await;
        check(
            &cluster,
            "GET",
            "/api/v1/namespaces/default/endpoints",
            "",
            &[("apiserver_requested_deprecated_apis{version=v1,resource=endpoints,removed_release=}", one)],
        )
        .await;
        check(
            &cluster,
            "DELETE",
            &format!("{MAPS}/b"),
            "",
            &[
                ("etcd_requests_total{operation=delete,resource=configmaps}", one),
                ("apiserver_storage_objects{resource=configmaps}", -1.0),
            ],
        )
        .await;
        let before = scrape(&cluster).await;
        let impersonating = cluster.request("GET", MAPS).header("impersonate-user", "someone");
        let _ = impersonating.header("impersonate-group", "system:masters").send().await.expect(200);
        let after = scrape(&cluster).await;
        for (impersonations, count) in [
            ("apiserver_request_filter_duration_seconds_count{filter=constrainedimpersonation}", 1.0),
            ("apiserver_impersonation_attempts_total{mode=legacy,decision=allowed}", 1.0),
            ("apiserver_impersonation_attempts_duration_seconds_count{mode=legacy,decision=allowed}", 1.0),
            // The constrained mode refuses the administrators' group before it asks the authorizer.
            ("apiserver_impersonation_authorization_attempts_total{mode=user-info,decision=allowed}", 2.0),
            ("apiserver_impersonation_authorization_attempts_total{mode=legacy,decision=allowed}", 2.0),
        ] {
            assert_eq!(after.sum(impersonations) - before.sum(impersonations), count, "{impersonations}");
        }
        check(&cluster, "GET", "/livez", "", &[("apiserver_request_total{subresource=/livez,component=}", one)]).await;
        let openapi = [("apiserver_request_total{subresource=openapi/v3/,component=}", one)];
        check(&cluster, "GET", "/openapi/v3/api/v1", "", &openapi).await;
        let before = scrape(&cluster).await;
        let path = format!("{MAPS}/a");
        let body = r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#;
        let _ = cluster.put(&path, body).await.expect(200);
        let after = scrape(&cluster).await;
        let added = |selector: &str| after.sum(selector) - before.sum(selector);
        assert_eq!(added("etcd_requests_total{operation=update,resource=configmaps}"), 1.0);
        for changed in ["pintle_store_changes_total", "pintle_store_commit_duration_seconds_count"] {
            assert!(added(changed) >= 1.0, "{changed}");
        }
        for present in [
            "apiserver_storage_size_bytes{storage_cluster_id=etcd-0}",
            "apiserver_current_inflight_requests{request_kind=readOnly}",
            "apiserver_watch_cache_resource_version{resource=configmaps}",
            "apiserver_watch_cache_initializations_total{resource=configmaps}",
            "pintle_watch_cache_history_events",
            "pintle_watch_cache_history_bytes",
            "kubernetes_build_info{major=1,minor=36}",
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_open_fds",
            "process_max_fds",
            "process_start_time_seconds",
        ] {
            assert!(after.sum(present) > 0.0 || !cfg!(target_os = "linux"), "{present}");
        }
        cluster.stop().await;
    });
}

#[test]
fn watches_are_counted_while_they_last_and_when_they_end() {
    run(async {
        let cluster = Cluster::start().await;
        let _ = cluster.post(MAPS, config_map("a")).await.expect(201);
        let _ = cluster.post(MAPS, config_map("b")).await.expect(201);
        let open = "apiserver_longrunning_requests{verb=WATCH,resource=configmaps,scope=namespace}";
        let ended = "apiserver_request_total{verb=WATCH,resource=configmaps,scope=namespace}";
        let events = "apiserver_watch_events_total{group=,version=v1,resource=configmaps}";
        let mut watch = cluster.watch(&format!("{MAPS}?watch=1")).await;
        watch.expect("ADDED", "a").await;
        watch.expect("ADDED", "b").await;
        let _ = cluster.delete(&format!("{MAPS}/a")).await.expect(200);
        watch.expect("DELETED", "a").await;
        let found = scrape(&cluster).await;
        assert_eq!((found.sum(open), found.sum(ended), found.sum(events)), (1.0, 0.0, 3.0));
        assert_eq!(found.sum("apiserver_watch_events_sizes_count{version=v1,resource=configmaps}"), 3.0);
        assert_eq!(found.sum("apiserver_init_events_total{group=,resource=configmaps}"), 2.0);
        drop(watch);
        wait_for(&cluster, open, 0.0).await;
        let found = scrape(&cluster).await;
        assert_eq!(found.sum(ended), 1.0);
        assert_eq!(found.sum("apiserver_request_duration_seconds_count{verb=WATCH,resource=configmaps}"), 1.0);
        cluster.stop().await;
    });
}

#[test]
fn work_queues_and_failed_handshakes_are_counted() {
    run(async {
        let cluster = Cluster::start().await;
        let _ = cluster.post("/api/v1/namespaces", config_map("n")).await.expect(201);
        let _ = cluster.delete("/api/v1/namespaces/n").await.expect(200);
        // Only the system namespaces remain when the controller has finalized the namespace.
        wait_for(&cluster, "apiserver_storage_objects{resource=namespaces}", 4.0).await;
        let found = scrape(&cluster).await;
        for metric in ["workqueue_adds_total", "workqueue_queue_duration_seconds_count"] {
            assert!(found.sum(&format!("{metric}{{name=namespace}}")) >= 1.0, "{metric}: {found:#?}");
        }
        for metric in ["workqueue_depth", "workqueue_retries_total", "workqueue_longest_running_processor_seconds"] {
            assert!(found.family(metric).count() > 0, "{metric}");
        }
        let queue = "{name=admission_quota_controller}";
        for metric in ["workqueue_adds_total", "workqueue_work_duration_seconds_count"] {
            assert!(found.sum(&format!("{metric}{queue}")) >= 1.0, "{metric}: {found:#?}");
        }
        assert_eq!(found.sum(&format!("workqueue_depth{queue}")), 0.0);
        // Quota decisions are not retried.
        let retried = |name: &str| {
            found.family("workqueue_retries_total").any(|(labels, _)| labels.get("name").is_some_and(|own| own == name))
        };
        assert_eq!((retried("namespace"), retried("admission_quota_controller")), (true, false));
        let errors = "apiserver_tls_handshake_errors_total";
        assert_eq!(found.sum(errors), 0.0);
        let address = cluster.url().trim_start_matches("https://").to_owned();
        let mut plain = tokio::net::TcpStream::connect(address).await.expect("the server listens");
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("the request is sent");
        let _ = plain.read_to_end(&mut Vec::new()).await;
        wait_for(&cluster, errors, 1.0).await;
        cluster.stop().await;
    });
}

#[test]
fn requests_whose_client_goes_away_are_counted_as_terminated() {
    run(async {
        let cluster = Cluster::start().await;
        let mut socket = cluster.connect().await;
        // The request waits for a revision that never comes.
        let head = format!("GET {MAPS}?resourceVersion=999999 HTTP/1.1\r\nhost: x\r\n\r\n");
        socket.write_all(head.as_bytes()).await.expect("the head is sent");
        // The other request is the scrape.
        wait_for(&cluster, "apiserver_current_inflight_requests{request_kind=readOnly}", 2.0).await;
        drop(socket);
        let terminated = "apiserver_request_terminations_total{verb=LIST,resource=configmaps,scope=namespace,code=504}";
        wait_for(&cluster, terminated, 1.0).await;
        assert_eq!(scrape(&cluster).await.sum("apiserver_request_total{resource=configmaps,code=504}"), 1.0);
        cluster.stop().await;
    });
}

#[test]
fn requests_that_limits_end_are_counted_as_terminated() {
    run(async {
        let limits = RequestLimits {
            max_mutating_requests_in_flight: 1,
            priority_and_fairness: false,
            ..RequestLimits::default()
        };
        let access = AccessOptions { tokens: Some("secret,user,1".to_owned()), ..AccessOptions::default() };
        let cluster = Cluster::with_options(Options { limits, access, ..Options::default() }).await;
        let terminated = "apiserver_request_terminations_total{verb=POST,resource=configmaps,scope=resource,code";
        // The body of this request does not arrive.
        let mut socket = cluster.connect().await;
        let head = format!("POST {MAPS}?timeout=100ms HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n");
        socket.write_all(head.as_bytes()).await.expect("the head is sent");
        wait_for(&cluster, &format!("{terminated}=504}}"), 1.0).await;
        assert_eq!(scrape(&cluster).await.sum("apiserver_request_total{resource=configmaps,code=504}"), 1.0);

        // Another write waits for its body while the others arrive.
        let mut socket = cluster.connect().await;
        let head = format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n");
        socket.write_all(head.as_bytes()).await.expect("the head is sent");
        // Otherwise the server could refuse this write instead.
        wait_for(&cluster, "apiserver_current_inflight_requests{request_kind=mutating}", 1.0).await;
        let refused = async {
            for name in 0.. {
                let request = cluster.request("POST", MAPS).anonymous().header("authorization", "Bearer secret");
                if request.json(config_map(&format!("m{name}"))).send().await.status == 429 {
                    break;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), refused).await.expect("a request is refused");
        let found = scrape(&cluster).await;
        assert_eq!(found.sum(&format!("{terminated}=429}}")), 1.0);
        assert_eq!(found.sum("apiserver_request_total{verb=POST,resource=configmaps,code=429}"), 1.0);
        assert!(found.sum("apiserver_current_inflight_requests{request_kind=mutating}") >= 1.0);
        drop(socket);
        cluster.stop().await;
    });
}

#[test]
fn metrics_are_reset_by_delete() {
    run(async {
        let cluster = Cluster::start().await;
        let _ = cluster.get(MAPS).await.expect(200);
        let _ = cluster.get("/livez").await.expect(200);
        let checked = "kubernetes_healthchecks_total{name=ping,type=livez,status=success}";
        let slis = Scrape::of(&cluster, "/metrics/slis").await;
        assert_eq!((slis.sum(checked), slis.sum("kubernetes_healthcheck{name=ping,type=livez}")), (1.0, 1.0));
        assert!(slis.sum("process_start_time_seconds") > 0.0 || !cfg!(target_os = "linux"));
        let lists = "apiserver_request_total{verb=LIST,resource=configmaps}";
        assert_eq!(scrape(&cluster).await.sum(lists), 1.0);
        for path in ["/metrics", "/metrics/slis"] {
            let response = cluster.delete(path).await.expect(200);
            assert_eq!(response.text(), "metrics reset\n");
            assert_eq!(response.header("content-type"), "text/plain; charset=utf-8");
        }
        assert_eq!(scrape(&cluster).await.sum(lists), 0.0);
        assert_eq!(Scrape::of(&cluster, "/metrics/slis").await.sum(checked), 0.0);
        let _ = cluster.get(MAPS).await.expect(200);
        assert_eq!(scrape(&cluster).await.sum(lists), 1.0);
        cluster.stop().await;
    });
}

/// Since 1.37, lists from the watch cache count among the lists from storage.
#[test]
fn metrics_differ_between_versions() {
    run(async {
        for (minor, storage_lists, watch_events, cache_lists) in [
            (36, 0.0, "[ALPHA] Events", "[ALPHA] Lists"),
            (37, 1.0, "[BETA] Events", "[ALPHA] (Deprecated since 1.37.0) Lists"),
        ] {
            let gates = Gates::of(EffectiveVersion::of(Minor::new(minor)));
            let cluster = Cluster::with_options(Options { gates, ..Options::default() }).await;
            let _ = cluster.post(MAPS, config_map("a")).await.expect(201);
            let mut watch = cluster.watch(&format!("{MAPS}?watch=1")).await;
            watch.expect("ADDED", "a").await;
            let list = "apiserver_storage_list_total{group=,resource=configmaps,storage=watchcache,index=}";
            let before = scrape(&cluster).await.sum(list);
            let _ = cluster.get(MAPS).await.expect(200);
            let text = cluster.get("/metrics").await.expect(200).text();
            assert_eq!(Scrape::parse(&text).sum(list) - before, storage_lists, "1.{minor}");
            for (name, help) in [("watch_events_total", watch_events), ("cache_list_total", cache_lists)] {
                let line = format!("# HELP apiserver_{name} {help}");
                assert!(text.contains(&line), "1.{minor} has no {line}");
            }
            cluster.stop().await;
        }
    });
}
