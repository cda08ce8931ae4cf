//! Runs a sequence on both servers and finds the first step whose answers differ.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use regex::{Captures, Regex};
use serde_json::Value;

use crate::aggregation::is_projected;
use crate::audit::{self, Members, take_events};
use crate::exchange::{Answer, send, wait_for_events};
use crate::known_differences::is_known;
use crate::normal::Symbols;
use crate::sequence::{Request, Sequence, Step};
use crate::server::{Servers, Side};

/// The number of the next run. Each run has its own names, so that runs do not affect each other.
static RUN: AtomicUsize = AtomicUsize::new(1);

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The name of the step that creates the namespace.
const NAMESPACE: &str = "namespace";
/// The Go API server delays creates for two seconds after a CRD was established. Waiting for that keeps the times of
/// both servers together.
const ESTABLISHED: Duration = Duration::from_millis(2050);
/// How long a change of a CRD may take to have its effect. When a CRD is deleted, the Go API server checks only every
/// few seconds whether it has objects left.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The additional wait after the conditions of a CRD are set. The Go API server learns about a change of a CRD through
/// an informer.
const SETTLE: Duration = Duration::from_millis(400);

/// A step whose answers differ.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// The step.
    pub(crate) step: Step,
    /// This server's answer.
    pub(crate) pintle: String,
    /// The Go API server's answer.
    pub(crate) go: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "step {}: {}", self.step.name, self.step.request)?;
        let same = self.pintle.bytes().zip(self.go.bytes()).take_while(|(a, b)| a == b).count();
        let head = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        let part = |text: &str| {
            let start = (0..=same.saturating_sub(100)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text[start..].chars().take(900).collect::<String>()
        };
        writeln!(f, "  pintle ({}): …{}", head(&self.pintle), part(&self.pintle))?;
        write!(f, "  go     ({}): …{}", head(&self.go), part(&self.go))
    }
}

/// The values that a server returned in this run.
struct Session {
    symbols: Symbols,
    /// The metadata of the response to each step, if it was JSON with metadata.
    metadata: HashMap<String, Value>,
}

static PLACEHOLDER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{(rv|uid|continue):([\w-]+)\}").expect("a valid pattern"));

impl Session {
    fn new(literals: Vec<(String, &'static str)>) -> Self {
        Self { symbols: Symbols::new(literals), metadata: HashMap::new() }
    }

    /// Replaces the placeholders of a request.
    fn resolve(&self, run: &Run, request: &Request) -> Request {
        let text = |text: &str| {
            let text = text.replace("{ns}", &run.namespace).replace("{group}", &run.group);
            PLACEHOLDER
                .replace_all(&text, |found: &Captures<'_>| {
                    let field = match &found[1] {
                        "rv" => "resourceVersion",
                        other => other,
                    };
                    // If a step has no such value, the namespace's value is used.
                    let of = |step: &str| self.metadata.get(step)?[field].as_str();
                    of(&found[2]).or_else(|| of(NAMESPACE)).unwrap_or_default().to_owned()
                })
                .into_owned()
        };
        let mut body =
            std::str::from_utf8(&request.body).map_or_else(|_| request.body.clone(), |body| Bytes::from(text(body)));
        if request.in_cbor
            && let Ok(value) = serde_json::from_slice(&body)
        {
            body = pintle_codec::cbor::encode(&value).into();
        }
        Request {
            path: text(&request.path),
            headers: request.headers.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
            body,
            ..request.clone()
        }
    }

    fn learn(&mut self, step: &str, answer: &Answer) {
        if let Some(mut body) = answer.json() {
            self.metadata.insert(step.to_owned(), body["metadata"].take());
        }
    }
}

/// The names of a run.
struct Run {
    namespace: String,
    group: String,
}

/// Sends a sequence to both servers and returns the first difference.
pub(crate) async fn run(servers: &Servers, sequence: &Sequence) -> Option<Difference> {
    send_all(servers, sequence, true).await.into_iter().next()
}

/// Sends a whole sequence to both servers and returns all differences.
pub(crate) async fn run_to_the_end(servers: &Servers, sequence: &Sequence) -> Vec<Difference> {
    send_all(servers, sequence, false).await
}

async fn send_all(servers: &Servers, sequence: &Sequence, stop_at_first: bool) -> Vec<Difference> {
    let number = RUN.fetch_add(1, Ordering::Relaxed);
    let run = Run { namespace: format!("compare-{number}-ns"), group: format!("g{number}.compare.io") };
    let literals = vec![(run.namespace.clone(), "{ns}"), (run.group.clone(), "{group}")];
    let mut pintle = Session::new(literals.clone());
    let mut go = Session::new(literals);
    let namespace = format!(r#"{{"metadata": {{"name": "{}"}}}}"#, run.namespace);
    let create = Request::new("POST", "/api/v1/namespaces").json(namespace);
    let (from_pintle, from_go) = tokio::join!(send(servers, Side::Pintle, &create), send(servers, Side::Go, &create));
    pintle.learn(NAMESPACE, &from_pintle);
    go.learn(NAMESPACE, &from_go);

    let mut watches = Vec::new();
    let mut definitions = Vec::new();
    let mut differences = Vec::new();
    for step in &sequence.steps {
        let (to_pintle, to_go) = (pintle.resolve(&run, &step.request), go.resolve(&run, &step.request));
        if step.request.clients > 1 {
            let ((from_pintle, ids_pintle), (from_go, ids_go)) =
                tokio::join!(send_at_once(servers, Side::Pintle, &to_pintle), send_at_once(servers, Side::Go, &to_go));
            if from_pintle != from_go {
                let text = |codes: Vec<u16>| format!("status codes {codes:?}");
                differences.push(Difference { step: step.clone(), pintle: text(from_pintle), go: text(from_go) });
            } else {
                differences.extend(
                    compare_events_of_clients(servers, step, (&ids_pintle, &mut pintle), (&ids_go, &mut go)).await,
                );
            }
            if stop_at_first && !differences.is_empty() {
                break;
            }
            continue;
        }
        let (from_pintle, from_go) =
            tokio::join!(send(servers, Side::Pintle, &to_pintle), send(servers, Side::Go, &to_go));
        pintle.learn(&step.name, &from_pintle);
        go.learn(&step.name, &from_go);
        if from_pintle.is_stream() && from_go.is_stream() {
            watches.push((step, from_pintle, from_go));
            continue;
        }
        let found = compare(servers, step, (&from_pintle, &mut pintle), (&from_go, &mut go)).await;
        let is_known = found.is_none() && from_pintle.status() != from_go.status() && sequence.is_random();
        differences.extend(found);
        // After a known difference only one of the servers may have executed the request, and watches show that too.
        if is_known {
            watches.clear();
            break;
        }
        if stop_at_first && !differences.is_empty() {
            break;
        }
        if step.request.changes_definition()
            && from_go.status() < 300
            && let Some(name) = definition_name(&to_go, &from_go)
        {
            tokio::join!(settle(servers, Side::Pintle, &name), settle(servers, Side::Go, &name));
            tokio::time::sleep(if step.request.method == "POST" { ESTABLISHED } else { SETTLE }).await;
            definitions.push(name);
        }
    }
    for (step, mut from_pintle, mut from_go) in watches {
        if stop_at_first && !differences.is_empty() {
            break;
        }
        wait_for_events(&from_pintle, &from_go).await;
        let compared = compare_answers(step, (&from_pintle, &mut pintle), (&from_go, &mut go)).await;
        from_pintle.close();
        from_go.close();
        match compared {
            Compared::Differ(difference) => differences.push(difference),
            same => differences
                .extend(compare_events(servers, step, &same, (&from_pintle, &mut pintle), (&from_go, &mut go)).await),
        }
    }
    for name in definitions {
        tokio::join!(remove_definition(servers, Side::Pintle, &name), remove_definition(servers, Side::Go, &name));
    }
    differences
}

/// Deletes a CRD with its objects. Their finalizers are removed first. Otherwise five remaining objects would keep the
/// Go API server from finishing the deletion of any other CRD for a minute.
async fn remove_definition(servers: &Servers, side: Side, name: &str) {
    let path = format!("{DEFINITIONS}/{name}");
    let definition = send(servers, side, &Request::new("GET", &path)).await.json().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let versions = definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let (group, plural) = (text(&definition["spec"]["group"]), text(&definition["spec"]["names"]["plural"]));
    if let Some(served) = versions.iter().find(|version| version["served"] == true) {
        let root = format!("/apis/{group}/{}", text(&served["name"]));
        let list = send(servers, side, &Request::new("GET", format!("{root}/{plural}"))).await.json();
        for object in list.iter().flat_map(|list| list["items"].as_array().into_iter().flatten()) {
            let metadata = &object["metadata"];
            if metadata.get("finalizers").is_none() {
                continue;
            }
            let namespace = metadata["namespace"].as_str().map(|namespace| format!("namespaces/{namespace}/"));
            let path = format!("{root}/{}{plural}/{}", namespace.unwrap_or_default(), text(&metadata["name"]));
            let patch = r#"{"metadata": {"finalizers": null}}"#;
            send(servers, side, &Request::new("PATCH", path).body("application/merge-patch+json", patch)).await;
        }
    }
    send(servers, side, &Request::new("DELETE", path)).await;
}

/// Lets several clients send a request at the same moment. Returns the status codes of the answers, sorted, and the
/// identifiers of their audit events.
async fn send_at_once(servers: &Servers, side: Side, request: &Request) -> (Vec<u16>, Vec<String>) {
    let clients = (1..=request.clients).map(|client| request.of_client(client));
    let answers = clients.map(|request| async move {
        let answer = send(servers, side, &request).await;
        (answer.status(), answer.audit_id().to_owned())
    });
    let (mut codes, ids): (Vec<_>, _) = futures_util::future::join_all(answers).await.into_iter().unzip();
    codes.sort_unstable();
    (codes, ids)
}

/// The answers to a request and their audit events.
async fn compare(
    servers: &Servers,
    step: &Step,
    (pintle, pintle_session): (&Answer, &mut Session),
    (go, go_session): (&Answer, &mut Session),
) -> Option<Difference> {
    match compare_answers(step, (pintle, pintle_session), (go, go_session)).await {
        Compared::Differ(difference) => Some(difference),
        same => compare_events(servers, step, &same, (pintle, pintle_session), (go, go_session)).await,
    }
}

/// The result of a comparison of answers.
enum Compared {
    Equal,
    /// The answers differ in an accepted way.
    Known,
    Differ(Difference),
}

async fn compare_answers(
    step: &Step,
    (pintle, pintle_session): (&Answer, &mut Session),
    (go, go_session): (&Answer, &mut Session),
) -> Compared {
    let (pintle, go) = (pintle.render(&mut pintle_session.symbols).await, go.render(&mut go_session.symbols).await);
    if pintle == go {
        return Compared::Equal;
    }
    // The two servers report the end of a connection in different words.
    let no_answer = pintle.starts_with("0\n") && go.starts_with("0\n");
    if no_answer || is_known(&step.request, &pintle, &go) {
        return Compared::Known;
    }
    pintle_session.symbols.loosen();
    go_session.symbols.loosen();
    Compared::Differ(Difference { step: step.clone(), pintle, go })
}

/// Compares the audit events of a request, whose answers were compared before.
async fn compare_events(
    servers: &Servers,
    step: &Step,
    answers: &Compared,
    (pintle, pintle_session): (&Answer, &mut Session),
    (go, go_session): (&Answer, &mut Session),
) -> Option<Difference> {
    let logs = [Side::Pintle, Side::Go].map(|side| servers.audit_log(side));
    let is_watch = step.request.is_watch();
    let is_projected = servers.aggregate() && is_projected(&step.request.path);
    let [pintle, go] = take_events((logs[0], pintle.audit_id()), (logs[1], go.audit_id()), is_watch).await;
    // The servers may have given different answers, or only a part of them was compared.
    let has_same_answers = matches!(answers, Compared::Equal) && !is_projected;
    let members = if has_same_answers { Members::All } else { Members::WithoutAnswer };
    let pintle = audit::render(&pintle, members, &mut pintle_session.symbols);
    let go = audit::render(&go, members, &mut go_session.symbols);
    event_difference(step, (pintle, go), (pintle_session, go_session))
}

/// Compares the audit events of several clients, whose order is not known. Their objects depend on the order.
async fn compare_events_of_clients(
    servers: &Servers,
    step: &Step,
    (pintle, pintle_session): (&[String], &mut Session),
    (go, go_session): (&[String], &mut Session),
) -> Option<Difference> {
    let logs = [Side::Pintle, Side::Go].map(|side| servers.audit_log(side));
    let render = |events: &[String], session: &Session| {
        audit::render(events, Members::WithoutObjects, &mut session.symbols.unordered())
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for (pintle, go) in pintle.iter().zip(go) {
        let [pintle, go] = take_events((logs[0], pintle), (logs[1], go), false).await;
        ours.push(render(&pintle, pintle_session));
        theirs.push(render(&go, go_session));
    }
    let sorted = |mut events: Vec<String>| {
        events.sort_unstable();
        events.join("\n")
    };
    event_difference(step, (sorted(ours), sorted(theirs)), (pintle_session, go_session))
}

/// The difference between the events of a request.
fn event_difference(
    step: &Step,
    (pintle, go): (String, String),
    (pintle_session, go_session): (&mut Session, &mut Session),
) -> Option<Difference> {
    if pintle == go || audit::is_known(&step.request, &pintle, &go) {
        return None;
    }
    pintle_session.symbols.loosen();
    go_session.symbols.loosen();
    let text = |events: String| format!("audit events\n{events}");
    Some(Difference { step: step.clone(), pintle: text(pintle), go: text(go) })
}

/// The name of the CRD that a request has changed.
fn definition_name(request: &Request, answer: &Answer) -> Option<String> {
    let path = request.path.split('?').next()?;
    match path.strip_prefix(DEFINITIONS)?.strip_prefix('/') {
        Some(rest) => Some(rest.split('/').next()?.to_owned()),
        None => Some(answer.json()?["metadata"]["name"].as_str()?.to_owned()),
    }
}

/// Waits until a CRD is established, refused or gone.
async fn settle(servers: &Servers, side: Side, name: &str) {
    let get = Request::new("GET", format!("{DEFINITIONS}/{name}"));
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    while Instant::now() < deadline {
        let answer = send(servers, side, &get).await;
        let Some(found) = answer.json().filter(|_| answer.status() == 200) else { return };
        let condition = |kind: &str| {
            let conditions = found["status"]["conditions"].as_array();
            let condition = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == kind));
            condition.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_owned()
        };
        let is_ending = found["metadata"].get("deletionTimestamp").is_some();
        let is_refused = condition("NamesAccepted") == "False";
        if !is_ending && (condition("Established") == "True" || is_refused) {
            return wait_for_watch_caches(servers, side, &found).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the watch caches of a CRD's versions are ready. Upstream creates them at the first request, and answers
/// some requests differently before.
async fn wait_for_watch_caches(servers: &Servers, side: Side, definition: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&definition["spec"]["group"]), text(&definition["spec"]["names"]["plural"]));
    for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
        if version["served"] == true {
            let path = format!("/apis/{group}/{}/{plural}?limit=1&resourceVersion=1", text(&version["name"]));
            send(servers, side, &Request::new("GET", path)).await;
        }
    }
}
