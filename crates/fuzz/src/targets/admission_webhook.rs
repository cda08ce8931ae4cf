//! The answers of admission webhooks, and the patches in them. An input begins with a byte that chooses the webhook and
//! the write. The rest is an answer, or a patch and more members of the response, separated by a zero byte.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use pintle_admission::webhook::{ReviewEndpoint, WebhookCall, WebhookCallError, WebhookCaller};
use pintle_admission::{AdmissionOperation, AdmissionPlugin, built_in_plugin};
use pintle_registry::BoxFuture;
use pintle_schema::base64;
use pintle_value::Value;

use super::plugin_write::{Admitted, FIXTURE, PluginWrite, check_object, parse};
use crate::{MemoryLimit, with_memory_limit};

/// The copies of a JSON patch have their own limit, 3 MiB.
const LIMIT: MemoryLimit = MemoryLimit { per_byte: 4_000, base: 64 << 20 };

/// The placeholder for the review's uid in an input.
const UID: &str = "@UID@";
const NAME: &str = "w.example.com";

/// The bits of the first byte. The other bits choose the kind.
const V1BETA1: u8 = 1;
const IGNORE: u8 = 1 << 1;
const STRUCTURED: u8 = 1 << 2;
const VALIDATING: u8 = 1 << 3;
const UPDATE: u8 = 1 << 4;
const KIND: u32 = 5;

/// A plugin with the configuration of one webhook.
struct Configured {
    plugin: Arc<dyn AdmissionPlugin>,
    stored: Vec<(&'static str, Value)>,
}

/// The plugins by the lowest bits of the first byte: version, failure policy and type.
static PLUGINS: LazyLock<Vec<Configured>> = LazyLock::new(|| {
    let configured = |bits: u8| {
        let version = if bits & V1BETA1 == 0 { "v1" } else { "v1beta1" };
        let policy = if bits & IGNORE == 0 { "Fail" } else { "Ignore" };
        let is_validating = bits & VALIDATING != 0;
        let (kind, plural, plugin) = match is_validating {
            true => ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "ValidatingAdmissionWebhook"),
            false => ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "MutatingAdmissionWebhook"),
        };
        let plugin = built_in_plugin(plugin).expect("a built-in plugin");
        // The webhook sees a HorizontalPodAutoscaler at another version than the request's.
        let stored = parse(&format!(
            r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"{kind}","metadata":{{"name":"c"}},"webhooks":[
                {{"name":"{NAME}","clientConfig":{{"url":"https://127.0.0.1:1/"}},"admissionReviewVersions":["{version}"],
                "rules":[{{"operations":["*"],"apiGroups":["*"],"apiVersions":["v1"],"resources":["*"],"scope":"*"}}],
                "failurePolicy":"{policy}","matchPolicy":"Equivalent","namespaceSelector":{{}},"objectSelector":{{}},
                "sideEffects":"None","timeoutSeconds":10,"reinvocationPolicy":"IfNeeded"}}]}}"#
        ));
        Configured { plugin, stored: vec![(plural, stored)] }
    };
    (0..16).map(configured).collect()
});

/// A webhook that answers with an input.
struct Answerer<'a> {
    version: &'static str,
    is_structured: bool,
    input: &'a [u8],
    /// The uid of the review and the answer.
    answered: Mutex<Option<(String, Vec<u8>)>>,
}

impl Answerer<'_> {
    fn answer(&self, uid: &str) -> Vec<u8> {
        if !self.is_structured {
            return String::from_utf8_lossy(self.input).replace(UID, uid).into_bytes();
        }
        let zero = self.input.iter().position(|byte| *byte == 0).unwrap_or(self.input.len());
        let members = self.input.get(zero + 1..).unwrap_or_default();
        let mut answer = format!(
            r#"{{"apiVersion":"admission.k8s.io/{}","kind":"AdmissionReview","response":{{"uid":"{uid}","allowed":true,"patchType":"JSONPatch","patch":"{}""#,
            self.version,
            base64::encode(&self.input[..zero])
        )
        .into_bytes();
        answer.extend_from_slice(members);
        answer.extend_from_slice(b"}}");
        answer
    }
}

impl WebhookCaller for Answerer<'_> {
    fn call<'a>(&'a self, call: WebhookCall<'a>) -> BoxFuture<'a, Result<Bytes, WebhookCallError>> {
        let review: serde_json::Value = serde_json::from_slice(&call.review).expect("a review is JSON");
        let uid = review["request"]["uid"].as_str().expect("a uid").to_owned();
        let answer = self.answer(&uid);
        let body = Bytes::from(answer.clone());
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some((uid, answer));
        Box::pin(async move { Ok(body) })
    }

    fn review<'a>(
        &'a self,
        _: &'a ReviewEndpoint,
        _: Bytes,
        _: Option<Instant>,
    ) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async { Err("no plugin asks for a review".to_owned()) })
    }
}

/// Only an answer to the review that allows the request admits it, whatever else a webhook answers. The object remains
/// an object of its kind.
pub(super) fn admission_review(input: &[u8]) {
    let Some((&choice, rest)) = input.split_first() else { return };
    let Configured { plugin, stored } = &PLUGINS[usize::from(choice & (V1BETA1 | IGNORE | VALIDATING))];
    let (resource, object) = &FIXTURE.kinds[usize::from(choice >> KIND) % FIXTURE.kinds.len()];
    let has = |bit: u8| choice & bit != 0;
    let version = if has(V1BETA1) { "v1beta1" } else { "v1" };
    let answerer = Answerer { version, is_structured: has(STRUCTURED), input: rest, answered: Mutex::default() };
    let write = PluginWrite {
        resource,
        operation: if has(UPDATE) { AdmissionOperation::Update } else { AdmissionOperation::Create },
        object: object.clone(),
        stored,
        webhooks: &answerer,
    };
    let admitted = with_memory_limit(input.len(), LIMIT, || write.run(&**plugin));
    let answered = answerer.answered.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (uid, body) = answered.expect("the webhook is called");
    check_answer(&admitted, version, &uid, &body, has(IGNORE), object);
    let Admitted { result, object: admitted, .. } = admitted;
    if has(VALIDATING) {
        assert_eq!(admitted, *object, "a validating webhook changes nothing");
    } else if result.is_ok() {
        check_object(resource, admitted);
    }
}

/// Compares the result of a write with the answer, if another decoder reads the answer.
fn check_answer(admitted: &Admitted, version: &str, uid: &str, body: &[u8], ignores_failures: bool, before: &Value) {
    let Admitted { result, object, warnings, annotations } = admitted;
    let Ok(answer) = serde_json::from_slice::<serde_json::Value>(body) else { return };
    let response = &answer["response"];
    let is_review = version != "v1"
        || (response["uid"] == uid
            && answer["kind"] == "AdmissionReview"
            && answer["apiVersion"] == format!("admission.k8s.io/{version}"));
    let allows = is_review && response["allowed"] == true;
    if !allows {
        assert!(result.is_err() || ignores_failures, "{answer}");
        assert_eq!(object, before, "{answer}");
    }
    if !is_review {
        assert_eq!(*warnings, Vec::<String>::new(), "{answer}");
        assert!(annotations.iter().all(|key| !key.starts_with(NAME)), "{answer}");
    }
    if result.is_ok() && !ignores_failures {
        let given = |member: &str| response[member].as_array().map_or(0, Vec::len);
        assert_eq!(warnings.len(), given("warnings"), "{answer}");
        let of_webhook = annotations.iter().filter(|key| key.starts_with(NAME)).count();
        assert_eq!(of_webhook, response["auditAnnotations"].as_object().map_or(0, serde_json::Map::len), "{answer}");
    }
}

pub(super) fn admission_review_seeds() -> Vec<Vec<u8>> {
    let answers = [
        r#"{"apiVersion":"admission.k8s.io/VERSION","kind":"AdmissionReview","response":{"uid":"@UID@","allowed":true,"warnings":["w","x"],"auditAnnotations":{"k":"v","l":"w"}}}"#,
        r#"{"apiVersion":"admission.k8s.io/VERSION","kind":"AdmissionReview","response":{"uid":"@UID@","allowed":false,"status":{"apiVersion":"v1","kind":"Status","metadata":{},"status":"Failure","message":"no","reason":"Forbidden","code":403,"details":{"name":"o","group":"g","kind":"k","uid":"u","causes":[{"reason":"r","message":"m","field":"f"}],"retryAfterSeconds":1}}}}"#,
        r#"{"apiVersion":"admission.k8s.io/VERSION","kind":"AdmissionReview","response":{"uid":"@UID@","allowed":true,"patchType":"JSONPatch","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscyIsInZhbHVlIjp7ImEiOiJiIn19XQ=="}}"#,
        r#"{"apiVersion":"v1","kind":"Status","status":"Failure","message":"why","code":500}"#,
    ];
    // The kinds in the order of the fixture.
    let patches: [&[&str]; 5] = [
        &[
            r#"[{"op":"add","path":"/spec/containers/-","value":{"name":"b","image":"j","env":[{"name":"E","value":"1"}]}},{"op":"replace","path":"/metadata/labels","value":{"a":"b"}}]"#,
            r#"[{"op":"test","path":"/spec/containers/0/name","value":"a"},{"op":"remove","path":"/spec/volumes/0"},{"op":"add","path":"/spec/containers/0/resources/limits","value":{"cpu":"1.5","memory":"1Gi"}}]"#,
            r#"[{"op":"add","path":"/metadata/managedFields","value":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]}]"#,
        ],
        &[
            r#"[{"op":"copy","from":"/data","path":"/data2"},{"op":"move","from":"/data/k","path":"/data/l"},{"op":"add","path":"/data/m","value":"é"}]"#,
            r#"[{"op":"replace","path":"","value":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"p"},"immutable":true}}]"#,
        ],
        &[
            r#"[{"op":"replace","path":"/spec/replicas","value":3},{"op":"add","path":"/spec/strategy","value":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":0}}}]"#,
            r#"[{"op":"remove","path":"/spec/template/spec/containers/0/env"},{"op":"add","path":"/spec/template/metadata/annotations","value":{"k":"v"}}]"#,
        ],
        &[
            r#"[{"op":"replace","path":"/spec/maxReplicas","value":7},{"op":"add","path":"/metadata/annotations","value":{"autoscaling.alpha.kubernetes.io/metrics":"[]"}}]"#,
            r#"[{"op":"add","path":"/spec/targetCPUUtilizationPercentage","value":50},{"op":"remove","path":"/spec/minReplicas"}]"#,
        ],
        &[
            r#"[{"op":"add","path":"/spec/l/-","value":{"k":"q","unknown":1}},{"op":"add","path":"/spec/e","value":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"z":[1]}}]"#,
            r#"[{"op":"replace","path":"/spec","value":null},{"op":"add","path":"/extra","value":{}}]"#,
        ],
    ];
    let members =
        ["", r#","warnings":["w"],"auditAnnotations":{"k":"v"}"#, r#","allowed":false,"status":{"code":418}"#];
    let mut seeds = Vec::new();
    for (index, answer) in answers.iter().enumerate() {
        for version in [0, V1BETA1] {
            let answer = answer.replace("VERSION", if version == 0 { "v1" } else { "v1beta1" });
            for bits in [0, IGNORE, VALIDATING] {
                let kind = u8::try_from(index).unwrap_or_default() << KIND;
                seeds.push([&[version | bits | kind], answer.as_bytes()].concat());
            }
        }
    }
    for (kind, patches) in (0_u8..).zip(patches) {
        for (index, patch) in patches.iter().enumerate() {
            let bits = STRUCTURED | kind << KIND | if index % 2 == 0 { 0 } else { UPDATE };
            seeds.push([&[bits], patch.as_bytes(), b"\0", members[index % members.len()].as_bytes()].concat());
            seeds.push([&[bits | V1BETA1], patch.as_bytes()].concat());
        }
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_of_seeds_are_applied() {
        let mut changed = 0;
        for seed in admission_review_seeds().into_iter().filter(|seed| seed[0] & (STRUCTURED | V1BETA1) == STRUCTURED) {
            let (resource, object) = &FIXTURE.kinds[usize::from(seed[0] >> KIND)];
            let Configured { plugin, stored } = &PLUGINS[0];
            let input = &seed[1..];
            let answerer = Answerer { version: "v1", is_structured: true, input, answered: Mutex::default() };
            let operation = AdmissionOperation::Create;
            let write = PluginWrite { resource, operation, object: object.clone(), stored, webhooks: &answerer };
            let Admitted { result, object: admitted, .. } = write.run(&**plugin);
            let is_denied = seed.ends_with(br#""status":{"code":418}"#);
            assert_eq!(result.is_err(), is_denied, "{}: {result:?}", seed.escape_ascii());
            changed += usize::from(admitted != *object);
        }
        assert!(changed >= 8, "{changed} objects were changed");
    }
}
