//! The requests of the users.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use pintle_fuzz::{Random, TARGETS, mutate};
use pintle_integration::COSTLY_REQUESTS;
use serde_json::Value;

/// The timeout that every request asks for.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(8);
/// The size of an enlarged body, in bytes. It is about the maximum that a server reads.
const MAX_BODY: usize = 3_000_000;
/// The names of objects. There are few names, so that writes often find existing objects.
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The media types that lists accept.
const ACCEPTED: [&str; 5] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/cbor, */*;q=0.1",
];

/// The media types of patches, each with the fuzz target for it.
const PATCHES: [(&str, &str); 5] = [
    ("json_patch", "application/json-patch+json"),
    ("merge_patch", "application/merge-patch+json"),
    ("strategic_merge_patch", "application/strategic-merge-patch+json"),
    ("apply", "application/apply-patch+yaml"),
    ("json_object", "application/apply-patch+yaml"),
];

pub(crate) struct HostileRequest {
    pub(crate) method: &'static str,
    /// The path with the query.
    pub(crate) path: String,
    /// The media type of the body; empty if there is no body.
    pub(crate) media_type: &'static str,
    pub(crate) body: Vec<u8>,
    pub(crate) headers: Vec<(&'static str, Vec<u8>)>,
}

/// An object of some kind.
struct Sample {
    object: Value,
    /// The path of its collection in the namespace `default`, if the kind has namespaces. The collection may not exist.
    collection: String,
}

/// An endless sequence of requests.
pub(crate) struct Requests {
    random: Random,
    samples: Vec<Sample>,
    protobuf: Vec<Vec<u8>>,
    /// The seed inputs of the other fuzz targets, by name.
    seeds: HashMap<&'static str, Vec<Vec<u8>>>,
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let target = TARGETS.iter().find(|known| known.name == target).expect("a fuzz target");
    (target.seeds)()
}

/// The path of a collection. The name is guessed from the kind. The guess is right for nearly all built-in kinds.
fn collection_of(object: &Value) -> Option<String> {
    let (version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?.to_lowercase());
    let plural = match kind.strip_suffix('y') {
        Some(stem) if !kind.ends_with("ay") => format!("{stem}ies"),
        _ if kind.ends_with('s') => format!("{kind}es"),
        _ => format!("{kind}s"),
    };
    let root = if version.contains('/') { "apis" } else { "api" };
    Some(format!("/{root}/{version}/namespaces/default/{plural}"))
}

impl Requests {
    pub(crate) fn new(seed: u64) -> Self {
        let objects = seeds("json_object").into_iter().filter_map(|json| serde_json::from_slice::<Value>(&json).ok());
        let samples = objects.filter_map(|object| Some(Sample { collection: collection_of(&object)?, object }));
        Self {
            random: Random::new(seed),
            samples: samples.collect(),
            protobuf: seeds("protobuf_object"),
            seeds: HashMap::new(),
        }
    }

    pub(crate) fn next(&mut self) -> HostileRequest {
        match self.random.below(20) {
            0 => self.costly(),
            1..=4 => self.patch(),
            5..=6 => self.list(),
            7 => self.with_headers(),
            8 => self.crd(),
            9 => self.policy(),
            10 => self.delete(),
            11..=12 => self.protobuf(),
            _ => self.write(),
        }
    }

    fn request(&self, method: &'static str, path: &str, media_type: &'static str, body: Vec<u8>) -> HostileRequest {
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = match path.contains("timeout=") {
            true => path.to_owned(),
            false => format!("{path}{separator}timeout={}s", TIMEOUT.as_secs()),
        };
        HostileRequest { method, path, media_type, body, headers: Vec::new() }
    }

    fn seed_of(&mut self, target: &'static str) -> Vec<u8> {
        let seeds = self.seeds.entry(target).or_insert_with(|| seeds(target));
        let (one, other) = (self.random.pick(seeds), self.random.pick(seeds));
        if self.random.once_in(3) { one.clone() } else { mutate(&mut self.random, one, other) }
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.random.below(NAMES.len())]
    }

    fn costly(&mut self) -> HostileRequest {
        let costly = self.random.pick(COSTLY_REQUESTS);
        let mut body = (costly.body)();
        if self.random.once_in(2) {
            body = mutate(&mut self.random, &body, b"{}");
        }
        self.request("POST", costly.path, costly.media_type, body)
    }

    /// A create, update or apply of a sample. It often has very large parts, and is often slightly invalid.
    fn write(&mut self) -> HostileRequest {
        let index = self.random.below(self.samples.len());
        let name = self.name();
        let Sample { object, collection } = &self.samples[index];
        let (mut object, collection) = (object.clone(), collection.clone());
        object["metadata"]["name"] = name.into();
        object["metadata"]["namespace"] = "default".into();
        if self.random.once_in(3) {
            grow(&mut self.random, &mut object);
        }
        let mut body = object.to_string().into_bytes();
        if self.random.once_in(3) {
            let other = self.random.below(self.samples.len());
            body = mutate(&mut self.random, &body, self.samples[other].object.to_string().as_bytes());
        }
        body.truncate(MAX_BODY);
        let media_type = *self.random.pick(&["application/json", "application/json", "application/yaml"]);
        match self.random.below(4) {
            0 => self.request("PUT", &format!("{collection}/{name}"), media_type, body),
            1 => {
                let path = format!("{collection}/{name}?fieldManager={name}&force=true");
                self.request("PATCH", &path, "application/apply-patch+yaml", body)
            }
            2 => self.request("POST", &format!("{collection}?dryRun=All&fieldValidation=Warn"), media_type, body),
            _ => self.request("POST", &collection, media_type, body),
        }
    }

    fn protobuf(&mut self) -> HostileRequest {
        let index = self.random.below(self.protobuf.len());
        let other = self.random.below(self.protobuf.len());
        let mut body = mutate(&mut self.random, &self.protobuf[index], &self.protobuf[other]);
        if self.random.once_in(4) {
            // Decoders merge later messages with the first message, so repeated fields grow.
            let message = body.split_off(body.len().min(4));
            let times = 1 + self.random.below(MAX_BODY / message.len().max(1));
            body.extend(message.iter().copied().cycle().take(message.len().saturating_mul(times).min(MAX_BODY)));
        }
        let collection = self.collection();
        self.request("POST", &collection, "application/vnd.kubernetes.protobuf", body)
    }

    fn patch(&mut self) -> HostileRequest {
        let (target, media_type) = *self.random.pick(&PATCHES);
        let (collection, name) = (self.collection(), self.name());
        let mut body = self.seed_of(target);
        if self.random.once_in(4)
            && let Ok(mut patch) = serde_json::from_slice::<Value>(&body)
        {
            grow(&mut self.random, &mut patch);
            body = patch.to_string().into_bytes();
        }
        body.truncate(MAX_BODY);
        let query = if media_type.contains("apply") { "?fieldManager=m&force=true" } else { "" };
        self.request("PATCH", &format!("{collection}/{name}{query}"), media_type, body)
    }

    fn list(&mut self) -> HostileRequest {
        let selector = percent_encoded(&self.seed_of("selector"));
        let collection = self.collection();
        let key = *self.random.pick(&["labelSelector", "fieldSelector", "continue", "resourceVersion", "limit"]);
        let path = format!("{collection}?{key}={selector}");
        let mut request = self.request("GET", &path, "", Vec::new());
        let accept = ACCEPTED[self.random.below(ACCEPTED.len())];
        request.headers.push(("accept", accept.into()));
        request
    }

    fn with_headers(&mut self) -> HostileRequest {
        let (name, target) = *self.random.pick(&[
            ("authorization", "token"),
            ("impersonate-extra-a", "impersonation_headers"),
            ("sec-websocket-protocol", "websocket_protocols"),
            ("accept", "name"),
            ("accept-encoding", "name"),
            ("if-none-match", "name"),
        ]);
        let mut value = self.seed_of(target);
        value.retain(|byte| (0x20..0x7f).contains(byte));
        value.truncate(20_000);
        let collection = self.collection();
        let mut request = self.request("GET", &collection, "", Vec::new());
        request.headers.push((name, value));
        request
    }

    fn crd(&mut self) -> HostileRequest {
        let mut body = self.seed_of("crd");
        if let Ok(mut crd) = serde_json::from_slice::<Value>(&body) {
            if self.random.once_in(2) {
                grow(&mut self.random, &mut crd);
            }
            body = crd.to_string().into_bytes();
        }
        body.truncate(MAX_BODY);
        // A dry run, because real CRDs would stay. The server validates a dry run in the same way.
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
        self.request("POST", path, "application/json", body)
    }

    fn policy(&mut self) -> HostileRequest {
        let expression = String::from_utf8_lossy(&self.seed_of("cel")).into_owned();
        let rules =
            serde_json::json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]);
        let policy = serde_json::json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": self.name()},
            "spec": {
                "matchConstraints": {"resourceRules": rules},
                "variables": [{"name": "v", "expression": expression}],
                "validations": [{"expression": expression}],
            },
        });
        let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies?dryRun=All";
        self.request("POST", path, "application/json", policy.to_string().into_bytes())
    }

    fn delete(&mut self) -> HostileRequest {
        let (collection, name) = (self.collection(), self.name());
        let body = self.seed_of("json");
        self.request("DELETE", &format!("{collection}/{name}"), "application/json", body)
    }

    /// Mostly a collection that all users write, so that requests find each other's objects.
    fn collection(&mut self) -> String {
        if self.random.once_in(2) {
            return (*self.random.pick(&[
                "/api/v1/namespaces/default/configmaps",
                "/api/v1/namespaces/default/pods",
                "/apis/apps/v1/namespaces/default/deployments",
                "/apis/costly.example.com/v1/namespaces/default/defaults",
            ]))
            .to_owned();
        }
        let index = self.random.below(self.samples.len());
        self.samples[index].collection.clone()
    }
}

fn percent_encoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes.iter().take(4000) {
        let _ = write!(text, "%{byte:02X}");
    }
    text
}

/// Makes a part of a value very large. A list or a map gets many items, a text gets many characters, or the part is
/// nested deeply.
fn grow(random: &mut Random, value: &mut Value) {
    let times = *random.pick(&[10, 1_000, 50_000, 500_000]);
    let part = random_part(random, value);
    let size = part.to_string().len() + 2;
    let times = times.min(MAX_BODY / size).max(1);
    match part {
        Value::Array(items) if !items.is_empty() => {
            let copies = items.clone();
            items.extend(copies.into_iter().cycle().take(times));
        }
        Value::Object(members) => {
            let value = members.values().next().cloned().unwrap_or_default();
            let times = times.min(MAX_BODY / (value.to_string().len() + 12));
            members.extend((0..times).map(|number| (format!("k{number}"), value.clone())));
        }
        Value::String(text) => *text = if text.is_empty() { "x".repeat(times) } else { text.repeat(times) },
        // The value gets deeper than any decoder allows.
        other => {
            for _ in 0..times.min(2_000) {
                *other = Value::Array(vec![other.take()]);
            }
        }
    }
}

/// A part of a value, found by a random walk.
fn random_part<'v>(random: &mut Random, value: &'v mut Value) -> &'v mut Value {
    let count = match &*value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    };
    if count == 0 || random.once_in(6) {
        return value;
    }
    let index = random.below(count);
    match value {
        Value::Array(items) => random_part(random, &mut items[index]),
        Value::Object(members) => match members.values_mut().nth(index) {
            Some(member) => random_part(random, member),
            None => unreachable!("the index is below the number of members"),
        },
        _ => value,
    }
}
