//! An authorization webhook made of upstream's types (`tools/webhook`).

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use pintle_testkit::{AuthorizationMode, AuthorizationOptions, Cluster, run, tool_path};

use crate::{Files, MAPS, error, get_as, options, reason};

/// The running program.
struct Webhook(Child);

impl Webhook {
    /// Starts the program, which writes its kubeconfig to a file.
    fn start(files: &Files) -> (Self, AuthorizationOptions) {
        let kubeconfig = files.write("kubeconfig", "");
        let mut program = Command::new(tool_path("webhook"));
        let program = program.arg(&kubeconfig).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = program.spawn().expect("the program runs");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let _ = output.read_line(&mut line).expect("a line");
        assert_eq!(line, "READY\n");
        let options = AuthorizationOptions { webhook_config_file: Some(kubeconfig), ..AuthorizationOptions::default() };
        (Self(child), options)
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_webhook_of_upstreams_types_understands_reviews() {
    run(async {
        for version in ["v1", "v1beta1"] {
            let files = Files::new(version);
            let (webhook, authorization) = Webhook::start(&files);
            let authorization = AuthorizationOptions { webhook_version: version.to_owned(), ..authorization };
            let cluster = Cluster::with_options(options(&[AuthorizationMode::Webhook], authorization)).await;
            let _ =
                get_as(&cluster, "alice", &format!("{MAPS}?labelSelector=a%3Db,c%20notin%20(d),!e")).await.expect(200);
            assert_eq!(reason(&cluster, "bob", MAPS).await, ": bob is unknown");
            assert_eq!(reason(&cluster, "alice", "/api/v1/namespaces/default/secrets").await, ": no secrets for alice");
            let pods = "/api/v1/pods?fieldSelector=spec.nodeName%3D";
            let _ = get_as(&cluster, "bob", &format!("{pods}bob")).await.expect(200);
            let _ = get_as(&cluster, "bob", &format!("{pods}other")).await.expect(403);
            let _ = get_as(&cluster, "bob", "/version").await.expect(403);
            // Nobody allows what the webhook is not there to decide about.
            drop(webhook);
            let message = error(&cluster, "alice", "/api/v1/namespaces/default/events").await;
            assert!(
                message.contains("Post \"https://127.0.0.1:") && message.contains("connection refused"),
                "{message}"
            );
            cluster.stop().await;
        }
    });
}
