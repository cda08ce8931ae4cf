//! Requests with damaged bodies, headers, paths and queries.

use fastrand::Rng;

use crate::normal::GENERATED;
use crate::random::resources::Resource;
use crate::random::{one_in, pick, with};
use crate::sequence::Request;

const MEDIA_TYPES: &[&str] = &[
    "application/json",
    "application/json; charset=utf-8",
    "application/json;",
    "APPLICATION/JSON",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "text/plain",
    "*/*",
    "json",
    "",
];
const ACCEPTS: &[&str] = &[
    "application/json;as=Table;v=v2;g=meta.k8s.io",
    "application/json;as=Table;g=meta.k8s.io;v=v1,",
    "application/json;as=Other;g=meta.k8s.io;v=v1, application/json",
    "application/json;as=PartialObjectMetadata;g=apps;v=v1",
    "application/json;q=x",
    "application/*",
    "application/json;stream=watch",
    "application/json;pretty=1",
    "text/*, application/yaml;q=0.5",
    ",",
    ";",
    "",
];
const PARAMETERS: &[&str] = &[
    "dryRun=All,All",
    "dryRun=all",
    "fieldManager=a%0Ab",
    "fieldValidation=Strict&fieldValidation=Ignore",
    "force=maybe",
    "force=1",
    "watch=maybe",
    "limit=9223372036854775808",
    "limit=1&limit=2",
    "resourceVersion=-1",
    "resourceVersion=0x1",
    "resourceVersion=18446744073709551616",
    "resourceVersionMatch=Exact",
    "continue=e30",
    "continue=%00",
    "labelSelector=a%20in%20(",
    "labelSelector=a%3E1",
    "labelSelector=,",
    "fieldSelector=a%3D%5C,b",
    "gracePeriodSeconds=1.5",
    "propagationPolicy=foreground",
    // The Go API server has no garbage collector, which would end the deletion of an object that orphans its
    // dependents.
    "orphanDependents=x&dryRun=All",
    "timeoutSeconds=-1",
    "pretty=x",
    "a=%zz",
    "a;b",
    "&&",
    "=",
];

/// Damages a request. The Go API server has no rules for the bodies of most built-in kinds, and no columns for them.
pub(crate) fn damage(rng: &mut Rng, resource: &Resource, mut request: Request) -> Request {
    let has_rules = resource.is_custom || resource.kind == "ConfigMap";
    match rng.usize(..12) {
        0 => {
            let media_type = pick(rng, MEDIA_TYPES);
            request.headers.retain(|(name, _)| name != "content-type");
            if !one_in(rng, 6) {
                request = request.header("content-type", media_type);
            }
        }
        1 => {
            let accept = pick(rng, ACCEPTS);
            if resource.is_custom || !accept.contains("as=Table") {
                request.headers.retain(|(name, _)| name != "accept");
                request = request.header("accept", accept);
            }
        }
        2 | 3 => request = with(request, pick(rng, PARAMETERS)),
        4 => {
            let end = request.path.find('?').unwrap_or(request.path.len());
            match rng.usize(..6) {
                0 => request.path.insert(end, '/'),
                1 => request.path.insert_str(end, "/more"),
                2 => request.path.insert_str(end, "%20"),
                3 => request.path.insert_str(end, "%2Fstatus"),
                4 => request.path = request.path.replacen("/namespaces/", "/namespaces//", 1),
                _ => request.path.insert_str(end, "_A"),
            }
        }
        5 => request.method = pick(rng, &["POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"]).to_owned(),
        _ if has_rules => {
            let mut body = request.body.to_vec();
            for _ in 0..rng.usize(1..3) {
                damage_body(rng, &mut body);
            }
            request.body = body.into();
        }
        _ => {}
    }
    request
}

/// Changes some bytes: text may become other text, or no text at all.
fn damage_body(rng: &mut Rng, body: &mut Vec<u8>) {
    // Error messages quote the body. Symbols replace revisions, identifiers and generated names in these messages, so
    // such values must not be damaged.
    if body.is_empty()
        || [b"{rv:".as_slice(), b"{uid:", GENERATED.as_bytes()]
            .iter()
            .any(|it| body.windows(it.len()).any(|at| at == *it))
    {
        return;
    }
    let at = rng.usize(..body.len());
    match rng.usize(..8) {
        0 => body.truncate(at),
        1 => {
            body.remove(at);
        }
        2 => {
            let byte = body[at];
            body.insert(at, byte);
        }
        // Adds a member, which the object may already have.
        3 => {
            let Some(open) = (0..=at).rev().find(|at| body[*at] == b'{') else { return };
            let member = pick(
                rng,
                &[
                    r#""kind":"Other","#,
                    r#""apiVersion":"v1","#,
                    r#""name":"a","#,
                    r#""metadata":null,"#,
                    r#""":1,"#,
                    r#""spec":[],"#,
                ],
            );
            body.splice(open + 1..open + 1, member.bytes());
        }
        // Replaces a value.
        4 | 5 => {
            let Some(colon) = (0..=at).rev().find(|at| body[*at] == b':') else { return };
            let end = (colon + 1..body.len()).find(|at| matches!(body[*at], b',' | b'}')).unwrap_or(body.len());
            let value = pick(
                rng,
                &[
                    "null",
                    "1",
                    "-0",
                    "1e400",
                    "01",
                    "true",
                    "[]",
                    "{}",
                    "\"\"",
                    "\"\\ud800\"",
                    "\"\\x\"",
                    "NaN",
                    "'x'",
                    "x",
                    "9223372036854775808",
                ],
            );
            body.splice(colon + 1..end, value.bytes());
        }
        6 => body.insert(at, *[0, 0xff, b'\n', b'\t', b' ', 0x7f, b'#', b'&'].get(rng.usize(..8)).unwrap_or(&0)),
        _ => body.insert(at, *b"{}[]\",:\\".get(rng.usize(..8)).unwrap_or(&b'{')),
    }
}
