//! Malformed requests: each gets the response of kube-apiserver 1.36, none makes the server panic, and none changes an
//! object. The cases are in the `.txt` files in this folder, and `corpus.rs` documents their format. To print the
//! server's response to a new case, write `=> 0`.

mod corpus;
mod heads;
mod late_bodies;
mod unread_bodies;
mod wire;

use std::collections::BTreeMap;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use corpus::{RequestCase, parse_corpus};
use pintle_integration::{Cluster, Options};
use serde_json::Value;

/// The objects that exist while the corpus runs, `path: body`. The last two are terminating, with a finalizer.
const OBJECTS: &[(&str, &str)] = &[
    ("~/configmaps", r#"{"metadata": {"name": "cm"}, "data": {"a": "1"}}"#),
    ("~/configmaps", r#"{"metadata": {"name": "frozen"}, "data": {"a": "1"}, "immutable": true}"#),
    ("~/pods", r#"{"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}"#),
    ("~/services", r#"{"metadata": {"name": "svc"}, "spec": {"ports": [{"port": 80}]}}"#),
    (
        "/apis/apps/v1/namespaces/default/deployments",
        r#"{"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template":
            {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#,
    ),
    ("/apis/coordination.k8s.io/v1/namespaces/default/leases", r#"{"metadata": {"name": "lease"}, "spec": {}}"#),
    ("~/configmaps", r#"{"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}"#),
    ("/api/v1/namespaces", r#"{"metadata": {"name": "ending", "finalizers": ["example.com/hold"]}}"#),
];

const DELETED: &[&str] = &["~/configmaps/held", "/api/v1/namespaces/ending"];

fn expand_path(path: &str) -> String {
    path.replacen('~', "/api/v1/namespaces/default", 1)
}

async fn cluster() -> Cluster {
    // Without controllers, only requests change objects.
    let cluster = Cluster::with_options(Options { controllers: false, ..Options::default() }).await;
    for (path, body) in OBJECTS {
        let _ = cluster.post(&expand_path(path), *body).await.expect(201);
    }
    for path in DELETED {
        let _ = cluster.delete(&expand_path(path)).await.expect(200);
    }
    cluster
}

/// Returns all objects of the server, by collection.
async fn list_everything(cluster: &Cluster) -> BTreeMap<String, Value> {
    let mut prefixes = vec!["/api/v1".to_owned()];
    let groups = cluster.get("/apis").await.expect(200).json();
    for group in groups["groups"].as_array().expect("groups") {
        for version in group["versions"].as_array().expect("versions") {
            prefixes.push(format!("/apis/{}", version["groupVersion"].as_str().expect("a group and version")));
        }
    }
    let mut state = BTreeMap::new();
    for prefix in prefixes {
        let document = cluster.get(&prefix).await.expect(200).json();
        for resource in document["resources"].as_array().expect("resources") {
            let listed = resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"));
            if listed {
                let path = format!("{prefix}/{}", resource["name"].as_str().expect("a name"));
                let mut list = cluster.get(&path).await.expect(200).json();
                // A failed create can advance the revision by allocating and releasing an address, here and upstream.
                list["metadata"] = Value::Null;
                state.insert(path, list);
            }
        }
    }
    state
}

/// Sends the request of a case. Returns the actual response if it is not the expected one.
async fn check(cluster: &Cluster, case: &RequestCase) -> Option<String> {
    let mut request = cluster.request(&case.method, &case.path).raw(case.body.clone());
    for (name, value) in &case.headers {
        request = request.header_bytes(name, value);
    }
    let response = request.send().await;
    let code = response.status.as_u16();
    let status: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    let (reason, message) = if status["kind"] == "Status" && status["apiVersion"] == "v1" && status["code"] == code {
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        (text("reason"), text("message"))
    } else {
        ("text".to_owned(), response.text())
    };
    let allowed = (400..500).contains(&code) || case.comment.contains("pstream");
    if case.expect.matches(code, &reason, &message) && allowed {
        return None;
    }
    let reason = if reason.is_empty() { "-" } else { &reason };
    let actual: String = message.replace('\n', "\\n").chars().take(1500).collect();
    Some(format!("=> {code} {reason}: {actual}"))
}

/// The number of panics of the server.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Starts to count panics, except panics of failed assertions in the tests.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_assertion = panic.location().is_some_and(|l| l.file().contains("crates/integration"));
            PANICS.fetch_add(usize::from(!is_assertion), Ordering::SeqCst);
            before(panic);
        }));
    });
}

/// Runs the cases of a corpus file.
fn check_corpus(file: &'static str, text: &'static str) {
    count_panics();
    let cases = parse_corpus(text);
    let count = cases.len();
    let failures = pintle_integration::run(async move {
        let cluster = cluster().await;
        let before = list_everything(&cluster).await;
        let mut failures = Vec::new();
        for case in &cases {
            if let Some(found) = check(&cluster, case).await {
                let RequestCase { line, method, path, expect, .. } = case;
                let path: String = path.chars().take(200).collect();
                failures.push(format!("{file}:{line}: {method} {path}\n   found {found}\n  expect {expect}"));
            }
        }
        let after = list_everything(&cluster).await;
        let changed: Vec<_> = after.iter().filter(|(path, list)| before.get(*path) != Some(list)).collect();
        failures.extend(changed.iter().map(|(path, list)| format!("{file} changed {path}: {list}")));
        cluster.stop().await;
        failures
    });
    assert!(failures.is_empty(), "{} of {count} cases differ:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "the server panicked");
}

macro_rules! corpora {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            check_corpus(concat!(stringify!($name), ".txt"), include_str!(concat!(stringify!($name), ".txt")));
        }
    )*};
}

corpora!(bodies, deletes, lists, names, options, patches, paths, scalars, subresources);
