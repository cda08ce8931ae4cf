//! Malformed requests: each gets the answer that kube-apiserver 1.36 gives, none makes the server panic, and none
//! changes an object. The rows are in the `.txt` files next to this one; `corpus.rs` says how they read. To see what
//! the server answers to a new row, give it `=> 0`.

mod corpus;
mod wire;

use std::collections::BTreeMap;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use corpus::{Row, parse};
use pintle_testkit::{Cluster, Options};
use serde_json::Value;

/// What is there while the corpus runs, `path: body`. The last two are being deleted, and held.
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

fn full(path: &str) -> String {
    path.replacen('~', "/api/v1/namespaces/default", 1)
}

async fn cluster() -> Cluster {
    // What the cluster does by itself must not be taken for what a request has done.
    let cluster = Cluster::with_options(Options { controllers: false, ..Options::default() }).await;
    for (path, body) in OBJECTS {
        let _ = cluster.post(&full(path), *body).await.expect(201);
    }
    for path in DELETED {
        let _ = cluster.delete(&full(path)).await.expect(200);
    }
    cluster
}

/// Everything that the server has, by its collection.
async fn state(cluster: &Cluster) -> BTreeMap<String, Value> {
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
                // What a failed create allocated and gave back moves the store's revision, here and upstream.
                list["metadata"] = Value::Null;
                state.insert(path, list);
            }
        }
    }
    state
}

/// Sends a row's request; what differs from its answer, if anything.
async fn check(cluster: &Cluster, row: &Row) -> Option<String> {
    let mut ask = cluster.request(&row.method, &row.path).raw(row.body.clone());
    for (name, value) in &row.headers {
        ask = ask.header_bytes(name, value);
    }
    let answer = ask.send().await;
    let code = answer.status.as_u16();
    let status: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let (reason, message) = if status["kind"] == "Status" && status["apiVersion"] == "v1" && status["code"] == code {
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        (text("reason"), text("message"))
    } else {
        ("text".to_owned(), answer.text())
    };
    let allowed = (400..500).contains(&code) || row.comment.contains("pstream");
    if row.expect.matches(code, &reason, &message) && allowed {
        return None;
    }
    let reason = if reason.is_empty() { "-" } else { &reason };
    let shown: String = message.replace('\n', "\\n").chars().take(1500).collect();
    Some(format!("=> {code} {reason}: {shown}"))
}

/// Panics of the server so far.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics from now on, except the tests' own: that is how a failed assertion looks.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let of_a_test = panic.location().is_some_and(|l| l.file().contains("testkit"));
            PANICS.fetch_add(usize::from(!of_a_test), Ordering::SeqCst);
            before(panic);
        }));
    });
}

/// Runs a file of the corpus.
fn run(file: &'static str, text: &'static str) {
    count_panics();
    let rows = parse(text);
    let count = rows.len();
    let wrong = pintle_testkit::run(async move {
        let cluster = cluster().await;
        let before = state(&cluster).await;
        let mut wrong = Vec::new();
        for row in &rows {
            if let Some(found) = check(&cluster, row).await {
                let Row { line, method, path, expect, .. } = row;
                let path: String = path.chars().take(200).collect();
                wrong.push(format!("{file}:{line}: {method} {path}\n   found {found}\n  expect {expect}"));
            }
        }
        let after = state(&cluster).await;
        let changed: Vec<_> = after.iter().filter(|(path, list)| before.get(*path) != Some(list)).collect();
        wrong.extend(changed.iter().map(|(path, list)| format!("{file} changed {path}: {list}")));
        cluster.stop().await;
        wrong
    });
    assert!(wrong.is_empty(), "{} of {count} rows differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "the server panicked");
}

macro_rules! corpora {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            run(concat!(stringify!($name), ".txt"), include_str!(concat!(stringify!($name), ".txt")));
        }
    )*};
}

corpora!(bodies, deletes, lists, names, options, patches, paths, scalars, subresources);
