//! `pintle serve --from`, with processes of the server.

use pintle_integration::{Cluster, Options, run};

use super::server::{Server, printed, serve};

const CRD: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"kind":"Gadget","plural":"gadgets","singular":"gadget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#;

#[test]
fn a_server_begins_with_the_data_directory_of_another() {
    let [prepared, one, two] = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let original = Server::start(prepared.path(), &[]);
    let crd = prepared.path().join("definition.json");
    std::fs::write(&crd, CRD).expect("a file");
    printed(prepared.path(), &["apply", "-f", crd.to_str().expect("UTF-8")]);
    printed(prepared.path(), &["wait", "--for=condition=Established", "crd/gadgets.example.com"]);
    printed(prepared.path(), &["create", "configmap", "prepared", "--from-literal=a=one"]);
    let uid = printed(prepared.path(), &["get", "configmap", "prepared", "-o", "jsonpath={.metadata.uid}"]);

    let from = ["--storage-backend", "memory", "--from", prepared.path().to_str().expect("UTF-8")];
    let refused = serve(one.path(), &from).output().expect("the program runs");
    assert!(!refused.status.success(), "a running server is not copied");
    original.stop();

    let servers = [&one, &two].map(|data_dir| Server::start(data_dir.path(), &from));
    for data_dir in [&one, &two] {
        let found = printed(data_dir.path(), &["get", "configmap", "prepared", "-o", "jsonpath={.metadata.uid}"]);
        assert_eq!(found, uid);
        assert_eq!(printed(data_dir.path(), &["get", "gadgets.example.com", "-o", "name"]), "");
    }
    printed(one.path(), &["delete", "configmap", "prepared"]);
    printed(two.path(), &["get", "configmap", "prepared"]);
    drop(servers);

    // The server starts with the same data directory again, but not with the data directory of another cluster.
    Server::start(one.path(), &from).stop();
    let other = tempfile::tempdir().expect("a folder");
    Server::start(other.path(), &[]).stop();
    let refused = serve(other.path(), &from).output().expect("the program runs");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("has the keys of another cluster"), "{text}");
}

#[test]
fn what_cannot_be_a_beginning_is_refused() {
    let [data_dir, empty] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let empty = empty.path().to_str().expect("UTF-8");
    let check = |arguments: &[&str], expect: &str| {
        let output = serve(data_dir.path(), arguments).output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(expect), "{arguments:?}: {text}");
    };
    check(&["--storage-backend", "memory", "--from", empty], "is not the data directory of a server");
    Server::start(data_dir.path(), &[]).stop();
    let own = data_dir.path().to_str().expect("UTF-8");
    check(&["--from", own], "only the memory store can begin with the objects of a snapshot");
}

#[test]
fn keys_that_expire_do_so_in_a_copy() {
    run(async {
        let original =
            Cluster::with_options(Options { event_ttl: std::time::Duration::from_secs(2), ..Options::default() }).await;
        let event = r#"{"metadata":{"name":"a"},"involvedObject":{"namespace":"default"}}"#;
        let _ = original.post("/api/v1/namespaces/default/events", event).await.expect(201);
        let snapshot = original.snapshot().await;
        let copy =
            Cluster::with_options(Options { from: Some(std::sync::Arc::new(snapshot)), ..Options::default() }).await;
        let _ = copy.get("/api/v1/namespaces/default/events/a").await.expect(200);
        copy.get_until_status("/api/v1/namespaces/default/events/a", 404).await;
    });
}
