//! Sequences made from a seed: requests with every verb for the objects of one resource, with all parameters.

mod aggregation;
mod at_once;
mod bodies;
mod definitions;
mod malformed;
mod resources;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::normal::GENERATED;
use crate::sequence::{RANDOM, Request, Sequence};
pub(crate) use aggregation::random_aggregation_sequence;
use at_once::at_once;
use bodies::{change, json_patch, metadata};
use malformed::damage;
use resources::{Resource, choose_resource};

/// The maximum number of requests in a sequence.
const MAX_STEPS: usize = 22;
const NAMES: &[&str] = &["a", "b", "c"];
const MANAGERS: &[&str] = &["alice", "bob", "carol"];
const SELECTORS: &[&str] = &[
    "app=x",
    "app!=x",
    "app%20in%20(x,y)",
    "app%20notin%20(x)",
    "tier",
    "!tier",
    "app=x,tier=front",
    "app==y",
    "app%20in%20()",
    "app=",
    "%3D",
    "a/b/c=d",
];

/// The special requests of a sequence. With two kinds of them in one sequence, answers would depend on chance.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SequenceKind {
    /// Watches.
    Watches,
    /// Deletes of whole collections, whose objects Pintle deletes at the same time.
    DeleteCollections,
    /// Requests of several clients at the same moment.
    AtOnce,
    /// Changes of the resource's CRD.
    Definition,
    /// Malformed requests.
    Malformed,
}

impl SequenceKind {
    fn choose(rng: &mut Rng, resource: &Resource) -> Self {
        match rng.usize(..10) {
            0..=3 => Self::Watches,
            4 | 5 => Self::DeleteCollections,
            6 => Self::AtOnce,
            7 | 8 if resource.is_custom => Self::Definition,
            7 => Self::Watches,
            _ => Self::Malformed,
        }
    }
}

/// Makes the sequence of a seed. With `has_cbor`, it has requests and responses in CBOR.
#[must_use]
pub(crate) fn random_sequence(seed: u64, has_cbor: bool) -> Sequence {
    let mut rng = Rng::with_seed(seed);
    let resource = choose_resource(&mut rng);
    let kind = SequenceKind::choose(&mut rng, &resource);
    let mut requests = resource.prepare.clone();
    let steps = rng.usize(5..=MAX_STEPS) + resource.prepare.len();
    while requests.len() < steps {
        let step = requests.len();
        let name = pick(&mut rng, NAMES);
        match kind {
            SequenceKind::AtOnce if one_in(&mut rng, 4) => {
                requests.extend(at_once(&mut rng, &resource, name, step));
                continue;
            }
            SequenceKind::Definition if one_in(&mut rng, 4) => {
                requests.push(definitions::change(&mut rng, resource.is_namespaced));
                requests.push(definitions::read_after_change(&mut rng, &resource.collection));
                continue;
            }
            _ => {}
        }
        let mut request = request(&mut rng, &resource, step);
        let is_delete_collection = request.method == "DELETE"
            && request.path.starts_with(&resource.collection)
            && !request.path[resource.collection.len()..].starts_with('/');
        if (is_delete_collection && kind != SequenceKind::DeleteCollections)
            || (request.is_watch() && kind != SequenceKind::Watches)
        {
            continue;
        }
        if has_cbor && one_in(&mut rng, 3) {
            request = in_cbor(&mut rng, request);
        }
        if kind == SequenceKind::Malformed && rng.bool() {
            request = damage(&mut rng, &resource, request);
        }
        requests.push(request);
    }
    Sequence::new(format!("{RANDOM}/{seed} ({})", resource.name), requests)
}

/// Changes a request so that its body, its answer or both are in CBOR.
fn in_cbor(rng: &mut Rng, mut request: Request) -> Request {
    for (name, value) in &mut request.headers {
        let media_type = match value.as_str() {
            "application/json" => "application/cbor",
            "application/apply-patch+yaml" => "application/apply-patch+cbor",
            _ => continue,
        };
        if name == "content-type" {
            *value = media_type.to_owned();
            request.in_cbor = true;
        }
    }
    if rng.bool() {
        request.headers.retain(|(name, _)| name != "accept");
        let accept = if request.is_watch() { "application/cbor-seq" } else { "application/cbor" };
        request = request.header("accept", accept);
    }
    request
}

/// Chooses one of the values.
pub(crate) fn pick<'a, T: ?Sized>(rng: &mut Rng, from: &[&'a T]) -> &'a T {
    from[rng.usize(..from.len())]
}

/// True with a probability of one in `n`.
pub(crate) fn one_in(rng: &mut Rng, n: usize) -> bool {
    rng.usize(..n) == 0
}

fn request(rng: &mut Rng, resource: &Resource, step: usize) -> Request {
    let name = pick(rng, NAMES);
    let request = match rng.usize(..100) {
        0..=24 => create(rng, resource, step),
        25..=34 => update(rng, resource, name, step),
        35..=44 => merge_patch(rng, resource, name, step),
        45..=51 => patch_with_operations(rng, resource, name),
        52..=55 => strategic_patch(rng, resource, name),
        56..=70 => apply(rng, resource, name),
        71..=76 => return get(rng, resource, name, step),
        77..=86 => return list(rng, resource, step),
        87..=90 => return watch(rng, resource, step),
        91..=96 => delete(rng, resource, name, step),
        _ => delete_collection(rng, resource),
    };
    if one_in(rng, 6) { request.header("accept", pick(rng, accepts(resource))) } else { request }
}

/// Adds a parameter to the query.
pub(crate) fn with(mut request: Request, parameter: &str) -> Request {
    request.path.push(if request.path.contains('?') { '&' } else { '?' });
    request.path.push_str(parameter);
    request
}

/// The parameters of every write.
fn write_options(rng: &mut Rng, mut request: Request) -> Request {
    if one_in(rng, 8) {
        request =
            with(request, pick(rng, &["dryRun=All", "dryRun=All", "dryRun=", "dryRun=Some", "dryRun=All&dryRun=All"]));
    }
    if one_in(rng, 4) {
        let validation = ["Strict", "Warn", "Ignore", "Strict", "strict", ""];
        request = with(request, &format!("fieldValidation={}", pick(rng, &validation)));
    }
    if one_in(rng, 3) {
        request = with(request, &format!("fieldManager={}", pick(rng, MANAGERS)));
    }
    if one_in(rng, 40) {
        request = with(request, pick(rng, &["pretty=true", "pretty=1", "unknown=1", "fieldManager=%00"]));
    }
    request
}

/// Sets the body in one of the encodings of objects.
fn encode(rng: &mut Rng, request: Request, object: &Value) -> Request {
    if one_in(rng, 12) {
        return request.body("application/yaml", object.to_string());
    }
    request.json(object.to_string())
}

fn create(rng: &mut Rng, resource: &Resource, step: usize) -> Request {
    let name = (!one_in(rng, 12)).then(|| pick(rng, NAMES));
    let mut object = resource.object(rng, name);
    if name.is_none() && rng.bool() {
        // The step number keeps the order of lists independent of the generated part.
        object["metadata"]["generateName"] = format!("{GENERATED}{step:02}-").into();
    }
    let request = write_options(rng, Request::new("POST", &resource.collection));
    encode(rng, request, &object)
}

fn update(rng: &mut Rng, resource: &Resource, name: &str, step: usize) -> Request {
    let mut object = resource.object(rng, Some(name));
    match rng.usize(..5) {
        0 => {}
        1 => object["metadata"]["resourceVersion"] = revision(rng, step).into(),
        2 => object["metadata"]["uid"] = format!("{{uid:{}}}", rng.usize(..=step)).into(),
        3 => object["metadata"]["managedFields"] = pick(rng, &["[]", "[{}]", "null"]).parse().unwrap_or_default(),
        _ => object["metadata"]["generation"] = json!(rng.u32(..9)),
    }
    let path = resource.path(rng, name);
    let request = write_options(rng, Request::new("PUT", path));
    encode(rng, request, &object)
}

/// A revision from an earlier response, or another revision.
fn revision(rng: &mut Rng, step: usize) -> String {
    match rng.usize(..12) {
        0 => "0".to_owned(),
        1 => String::new(),
        2 => "x".to_owned(),
        3 => "99999999999".to_owned(),
        _ => format!("{{rv:{}}}", rng.usize(..=step)),
    }
}

fn merge_patch(rng: &mut Rng, resource: &Resource, name: &str, step: usize) -> Request {
    let mut patch = change(rng, resource);
    if one_in(rng, 8) {
        patch["metadata"]["resourceVersion"] = revision(rng, step).into();
    }
    let path = resource.path(rng, name);
    let request = write_options(rng, Request::new("PATCH", path));
    request.body("application/merge-patch+json", patch.to_string())
}

fn strategic_patch(rng: &mut Rng, resource: &Resource, name: &str) -> Request {
    let patch = change(rng, resource);
    let path = resource.path(rng, name);
    let request = write_options(rng, Request::new("PATCH", path));
    request.body("application/strategic-merge-patch+json", patch.to_string())
}

fn patch_with_operations(rng: &mut Rng, resource: &Resource, name: &str) -> Request {
    let patch = json_patch(rng, resource);
    let path = resource.path(rng, name);
    let request = write_options(rng, Request::new("PATCH", path));
    request.body("application/json-patch+json", patch.to_string())
}

fn apply(rng: &mut Rng, resource: &Resource, name: &str) -> Request {
    let object = resource.applied(rng, name);
    let path = resource.path(rng, name);
    let mut request = Request::new("PATCH", path);
    if !one_in(rng, 30) {
        request = with(request, &format!("fieldManager={}", pick(rng, MANAGERS)));
    }
    if rng.bool() {
        request = with(request, &format!("force={}", rng.bool()));
    }
    if one_in(rng, 10) {
        request = with(request, pick(rng, &["dryRun=All", "fieldValidation=Strict", "fieldValidation=Ignore"]));
    }
    request.body("application/apply-patch+yaml", object.to_string())
}

fn accepts(resource: &Resource) -> &'static [&'static str] {
    const COMMON: &[&str] = &[
        "application/json",
        "application/yaml",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=Table;g=meta.k8s.io;v=v1beta1,application/json",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        "application/vnd.kubernetes.protobuf,application/json",
        "text/html",
        "*/*",
        "application/json;q=0.1, application/yaml",
    ];
    // The Go API server has no columns for built-in kinds.
    const BUILT_IN: &[&str] = &[
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1",
        "*/*",
    ];
    if resource.is_custom { COMMON } else { BUILT_IN }
}

fn get(rng: &mut Rng, resource: &Resource, name: &str, step: usize) -> Request {
    let path = resource.path(rng, name);
    let mut request = Request::new("GET", path);
    if one_in(rng, 4) {
        let revision = revision(rng, step);
        request = with(request, &format!("resourceVersion={revision}"));
    }
    if one_in(rng, 6) {
        request =
            with(request, pick(rng, &["pretty=true", "includeObject=None", "includeObject=Object", "includeObject=x"]));
    }
    if rng.bool() { request.header("accept", pick(rng, accepts(resource))) } else { request }
}

fn selectors(rng: &mut Rng, resource: &Resource, mut request: Request) -> Request {
    if one_in(rng, 4) {
        request = with(request, &format!("labelSelector={}", pick(rng, SELECTORS)));
    }
    if one_in(rng, 4) {
        let fields = [
            &[
                "metadata.name=a",
                "metadata.name!=a",
                "metadata.namespace={ns}",
                "spec.nothing=1",
                "metadata.name=a,metadata.name=b",
                "=",
            ],
            resource.field_selectors,
        ]
        .concat();
        request = with(request, &format!("fieldSelector={}", pick(rng, &fields)));
    }
    request
}

fn list(rng: &mut Rng, resource: &Resource, step: usize) -> Request {
    let mut request = selectors(rng, resource, Request::new("GET", &resource.collection));
    if one_in(rng, 3) {
        request = with(request, &format!("limit={}", pick(rng, &["1", "2", "0", "-1", "500", "x"])));
    }
    if one_in(rng, 4) {
        request = with(request, &format!("continue={{continue:{}}}", rng.usize(..=step)));
    }
    if one_in(rng, 4) {
        let revision = revision(rng, step);
        request = with(request, &format!("resourceVersion={revision}"));
    }
    if one_in(rng, 6) {
        request =
            with(request, &format!("resourceVersionMatch={}", pick(rng, &["Exact", "NotOlderThan", "exact", ""])));
    }
    if one_in(rng, 10) {
        request = with(
            request,
            pick(
                rng,
                &[
                    "includeObject=None",
                    "includeObject=Object",
                    "timeoutSeconds=x",
                    "sendInitialEvents=true",
                    "pretty=true",
                ],
            ),
        );
    }
    if rng.bool() { request.header("accept", pick(rng, accepts(resource))) } else { request }
}

fn watch(rng: &mut Rng, resource: &Resource, step: usize) -> Request {
    let mut request = selectors(rng, resource, with(Request::new("GET", &resource.collection), "watch=1"));
    if rng.bool() {
        let revision = revision(rng, step);
        request = with(request, &format!("resourceVersion={revision}"));
    }
    if one_in(rng, 3) {
        request = with(
            request,
            pick(
                rng,
                &[
                    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
                    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                    "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
                    "sendInitialEvents=true",
                    "resourceVersionMatch=NotOlderThan",
                    "allowWatchBookmarks=true",
                    "limit=1",
                    "continue=x",
                ],
            ),
        );
    }
    // The Go API server silently ends a watch of partial lists.
    let accepts: Vec<&str> = accepts(resource).iter().copied().filter(|accept| !accept.contains("List")).collect();
    if one_in(rng, 3) { request.header("accept", pick(rng, &accepts)) } else { request }
}

fn delete_options(rng: &mut Rng, request: Request, step: usize) -> Request {
    match rng.usize(..4) {
        0 | 1 => request,
        // The Go API server has no garbage collector, which would end the deletion of an object that orphans its
        // dependents.
        2 => with(
            request,
            pick(
                rng,
                &[
                    "propagationPolicy=Background",
                    "propagationPolicy=Orphan&dryRun=All",
                    "propagationPolicy=Sideways",
                    "gracePeriodSeconds=0",
                    "gracePeriodSeconds=5",
                    "gracePeriodSeconds=-1",
                    "gracePeriodSeconds=x",
                    "orphanDependents=true&dryRun=All",
                    "orphanDependents=true&propagationPolicy=Orphan",
                    "dryRun=All",
                    "dryRun=x",
                ],
            ),
        ),
        _ => {
            let bodies = [
                r#"{"propagationPolicy":"Background"}"#.to_owned(),
                r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}"#.to_owned(),
                format!(r#"{{"preconditions":{{"uid":"{{uid:{}}}"}}}}"#, rng.usize(..=step)),
                format!(r#"{{"preconditions":{{"resourceVersion":"{{rv:{}}}"}}}}"#, rng.usize(..=step)),
                r#"{"dryRun":["All"]}"#.to_owned(),
                r#"{"kind":"Pod","apiVersion":"v1"}"#.to_owned(),
                r#"{"unknown":1}"#.to_owned(),
                "{".to_owned(),
                r#"{"orphanDependents":true,"propagationPolicy":"Orphan"}"#.to_owned(),
            ];
            request.json(bodies[rng.usize(..bodies.len())].clone())
        }
    }
}

fn delete(rng: &mut Rng, resource: &Resource, name: &str, step: usize) -> Request {
    let path = format!("{}/{name}", resource.collection);
    delete_options(rng, Request::new("DELETE", path), step)
}

fn delete_collection(rng: &mut Rng, resource: &Resource) -> Request {
    let request = selectors(rng, resource, Request::new("DELETE", &resource.collection));
    delete_options(rng, request, 0)
}

/// Metadata that every kind may have.
fn random_metadata(rng: &mut Rng, resource: &Resource, name: Option<&str>) -> Value {
    metadata(rng, resource, name)
}
