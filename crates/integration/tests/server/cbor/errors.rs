//! Error messages of rejected CBOR requests.

use pintle_integration::{Cluster, run};

use super::{CBOR, CONFIGMAPS, WIDGETS, cbor_body, cluster, decode_cbor};

const OBJECT_MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let digit = |d: u8| char::from(d).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Posts bytes as CBOR and checks the error message.
async fn check(cluster: &Cluster, path: &str, hex: &str, code: u16, message: &str) {
    let response =
        cluster.request("POST", path).header("accept", CBOR).body(CBOR, from_hex(hex)).send().await.expect(code);
    assert_eq!(cbor_body(&response).str_at(&["message"]), message, "{hex}");
}

#[test]
fn invalid_bodies_are_rejected_with_upstream_messages() {
    run(async {
        let cluster = cluster().await;
        let unrecognized = |why: &str, bytes: &str| {
            format!(
                "the object provided is unrecognized (must be of type ConfigMap): unable to determine \
                 group/version/kind: {why} ({bytes})"
            )
        };
        for (hex, why, bytes) in [
            ("", "EOF", "<empty>"),
            ("d9d9f7", "unexpected EOF", "d9d9f7"),
            ("d9d9f7a1", "unexpected EOF", "d9d9f7a1"),
            ("a000", "cbor: 1 bytes of extraneous data starting at index 1", "a000"),
            ("7b22", "unexpected EOF", "{\""),
            (
                "fb7ff8000000000000",
                "cbor: data item of cbor type primitives is not accepted by protocol: floating-point NaN",
                "fb7ff8000000000000",
            ),
            (
                "80",
                "cbor: cannot unmarshal array into Go value of type v1.TypeMeta (cannot decode CBOR array to struct without toarray option)",
                "80",
            ),
            (
                "a2 4464617461 a0 6464617461 a0",
                "cbor: found duplicate map key \"data\" at map element index 1",
                "a24464617461a06464617461a0",
            ),
            (
                "a1446b696e6401",
                "cbor: cannot unmarshal positive integer into Go struct field v1.TypeMeta.kind of type string",
                "a1446b696e6401",
            ),
        ] {
            check(&cluster, CONFIGMAPS, hex, 400, &unrecognized(why, bytes)).await;
        }
        let unhandled = |why: &str| format!("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: {why}");
        for (hex, why) in [
            (
                "a1 4464617461 01",
                "cbor: cannot unmarshal positive integer into Go struct field v1.ConfigMap.data of type map[string]string",
            ),
            (
                "a1 4464617461 a1416101",
                "cbor: cannot unmarshal positive integer into Go struct field v1.ConfigMap.data of type string",
            ),
            ("a1 4464617461 a2 41614162 61614163", "cbor: found duplicate map key \"a\" at map element index 1"),
            (
                "a1 4a62696e61727944617461 a1 4161 4121",
                "cbor: failed to decode base64 from byte string: illegal base64 data at input byte 0",
            ),
        ] {
            check(&cluster, CONFIGMAPS, hex, 400, &unhandled(why)).await;
        }
        let widget =
            "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in '{}' (a0)";
        check(&cluster, WIDGETS, "a0", 400, widget).await;
        let widget = "Widget in version \"\" cannot be handled as a Widget: Object 'apiVersion' is missing in '{'kind': 'Widget'}'";
        check(&cluster, WIDGETS, "a1 446b696e64 46576964676574", 400, widget).await;
        cluster.stop().await;
    });
}

#[test]
fn unknown_fields_follow_the_field_validation_parameter() {
    run(async {
        let cluster = cluster().await;
        // {"metadata": {"name": NAME}, "nope": 1}
        let map = |name: u8| from_hex(&format!("a2 486d65746164617461 a1446e616d65 41{name:02x} 446e6f7065 01"));
        let post = |validation: &str, name| {
            let path = format!("{CONFIGMAPS}?fieldValidation={validation}");
            cluster.request("POST", &path).body(CBOR, map(name))
        };
        let created = post("Ignore", b'a').send().await.expect(201);
        assert_eq!(created.header("warning"), "");
        let created = post("Warn", b'b').send().await.expect(201);
        assert_eq!(created.header("warning"), "299 - \"cbor: found unknown field at map element index 1\"");
        let error = post("Strict", b'c').send().await.expect(400);
        assert_eq!(
            error.json()["message"],
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: cbor: found unknown \
             field at map element index 1"
        );
        cluster.stop().await;
    });
}

#[test]
fn errors_list_cbor_only_with_the_gate_enabled() {
    run(async {
        let (enabled, disabled) = (cluster().await, Cluster::start().await);
        for (cluster, cbor, sequence) in
            [(&enabled, ", application/cbor", ", application/cbor-seq"), (&disabled, "", "")]
        {
            let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
            let error = cluster.request("GET", CONFIGMAPS).header("accept", "text/plain").send().await.expect(406);
            let known = format!(
                "406: Not Acceptable\n\nAvailable representations: {OBJECT_MEDIA_TYPES}{cbor}, {streams}{sequence}"
            );
            assert_eq!(error.json()["message"], known);
            let only = format!("only the following media types are accepted: {streams}{sequence}");
            let watch = format!("{CONFIGMAPS}?watch=true");
            let error = cluster.request("GET", &watch).header("accept", "application/yaml").send().await.expect(406);
            // The error is in YAML, which wraps long lines.
            assert_eq!(error.text().replace("\n ", "").matches(&only).count(), 1, "{}", error.text());
            let error = cluster.request("POST", CONFIGMAPS).body("text/plain", "x").send().await.expect(415);
            let text = error.json()["message"].as_str().unwrap_or_default().to_owned();
            assert!(text.ends_with(&format!(": {OBJECT_MEDIA_TYPES}{cbor}")), "{text}");
            let patch = cluster.request("PATCH", &format!("{CONFIGMAPS}/m"));
            let patched = patch.body("application/apply-patch+cbor", "x").send().await;
            assert_eq!(patched.status == 415, cbor.is_empty(), "{}", patched.text());
        }
        // Without the gate, CBOR is an unknown media type.
        let _ = disabled.request("GET", CONFIGMAPS).header("accept", CBOR).send().await.expect(406);
        let _ = disabled.request("POST", CONFIGMAPS).body(CBOR, vec![0xa0]).send().await.expect(415);
        let patch = disabled.request("PATCH", &format!("{CONFIGMAPS}/m?fieldManager=a"));
        let _ = patch.body("application/apply-patch+cbor", vec![0xa0]).send().await.expect(415);
        // With the gate, tables are not available in CBOR, and clients fall back to the next media type.
        let table = "application/cbor;as=Table;g=meta.k8s.io;v=v1";
        let _ = enabled.request("GET", CONFIGMAPS).header("accept", table).send().await.expect(406);
        let both = format!("{table},{CBOR}");
        let list = enabled.request("GET", CONFIGMAPS).header("accept", &both).send().await.expect(200);
        assert_eq!(decode_cbor(&list.body).kind(), "ConfigMapList");
        let missing =
            enabled.request("GET", &format!("{CONFIGMAPS}/nope")).header("accept", CBOR).send().await.expect(404);
        assert_eq!(cbor_body(&missing).str_at(&["reason"]), "NotFound");
        for path in ["/api", "/apis", "/apis/apps", "/apis/example.com/v1"] {
            let _ = enabled.request("GET", path).header("accept", CBOR).send().await.expect(406);
        }
        enabled.stop().await;
        disabled.stop().await;
    });
}
