//! Requests that would cost a server without limits gigabytes or minutes (`pintle_integration::COSTLY_REQUESTS`). This
//! is a separate test program because it measures its process.

use pintle_integration::{COSTLY_REQUESTS, Cluster, CostlyRequest, ProcessMemory, run};

/// The maximum memory that the process may use for a request, in bytes. Two such requests at once would fit into a
/// small machine. Without limits, the requests use from 1 to 47 GB.
const MAX_MEMORY: usize = 600 << 20;
/// The maximum size of an answer, in bytes. Errors repeat the values of the request, in their message and in their
/// causes.
const MAX_ANSWER: usize = 8 << 20;

/// Creates the objects that a request needs, and waits until they take effect.
async fn set_up(cluster: &Cluster, request: &CostlyRequest) {
    for (path, object) in (request.setup)() {
        let _ = cluster.post(path, object.to_string()).await.expect(201);
    }
    let collection = request.path.split('?').next().unwrap_or_default();
    cluster.get_until_status(collection, 200).await;
}

#[test]
fn costly_requests_end_within_their_budgets() {
    run(async {
        let cluster = Cluster::start().await;
        for request in COSTLY_REQUESTS {
            set_up(&cluster, request).await;
            let body = (request.body)();
            ProcessMemory::reset_own_peak();
            let response = cluster.request("POST", request.path).body(request.media_type, body).send().await;
            let (code, length) = (response.status.as_u16(), response.body.len());
            let text: String = response.text().chars().take(300).collect();
            assert!(request.codes.contains(&code), "{}: {code} {text}", request.name);
            assert!(length <= MAX_ANSWER, "{}: {length} bytes: {text}", request.name);
            let memory = ProcessMemory::own().map(|memory| memory.peak);
            assert!(memory.is_none_or(|bytes| bytes <= MAX_MEMORY), "{}: {memory:?} bytes", request.name);
            // The server still serves requests, on the same connection.
            let small = r#"{"metadata":{"generateName":"small-"},"data":{"a":"b"}}"#;
            let _ = cluster.post("/api/v1/namespaces/default/configmaps", small).await.expect(201);
        }
    });
}

#[test]
fn errors_of_an_object_are_counted_beyond_a_number() {
    run(async {
        let cluster = Cluster::start().await;
        let finalizers = vec!["/"; 3000];
        let object = serde_json::json!({"metadata": {"name": "a", "finalizers": finalizers}}).to_string();
        let response = cluster.post("/api/v1/namespaces/default/configmaps", object).await.expect(422).json();
        let message = response["message"].as_str().expect("a message");
        assert!(
            message.starts_with("ConfigMap \"a\" is invalid: [metadata.finalizers: Invalid value: \"/\": "),
            "{message}"
        );
        assert!(message.ends_with(" more]"), "{message}");
        assert_eq!(response["details"]["causes"].as_array().map(Vec::len), Some(1000));
    });
}
