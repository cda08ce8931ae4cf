//! The warnings about pods that violate a policy which their namespace begins to enforce (upstream:
//! `Admission.EvaluatePodsInNamespace`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use pintle_registry::{ApiError, GroupResource, ObjectClient, StoredObject};
use pintle_value::{Str, Value};
use pintle_versions::Minor;

use super::evaluator::Violations;
use super::pod::PodTemplate;
use super::policy::LevelVersion;

/// How many of the pods of a namespace are checked (upstream: `Admission.namespaceMaxPodsToCheck` and
/// `namespacePodCheckTimeout`).
#[derive(Clone, Copy, Debug)]
pub struct ExistingPodLimits {
    /// The number of pods.
    pub count: usize,
    /// The maximum time. Half of the time until the deadline of the request is a limit, too.
    pub time: Duration,
}

impl Default for ExistingPodLimits {
    fn default() -> Self {
        Self { count: 3000, time: Duration::from_secs(1) }
    }
}

/// The number of pods after which other tasks of the thread run.
const PODS_PER_TURN: usize = 32;

/// Returns the warnings for a namespace.
pub(super) async fn warnings(client: &dyn ObjectClient, namespace: &str, mut check: NamespaceCheck<'_>) -> Vec<String> {
    if check.run(client, namespace).await.is_err() {
        return vec!["failed to list pods while checking new PodSecurity enforce level".to_owned()];
    }
    check.warnings(namespace)
}

/// The state of the check of a namespace.
pub(super) struct NamespaceCheck<'a> {
    enforce: LevelVersion,
    /// The version of the server.
    server: Minor,
    exempt_runtime_classes: &'a [Str],
    max_pods: usize,
    deadline: Instant,
    is_late: bool,
    /// The pods that are not exempt.
    total: usize,
    checked: usize,
    /// How many pods were read.
    turns: usize,
    /// The violations by their reasons: the first name of a pod, and the number of pods.
    violations: BTreeMap<String, (Str, usize)>,
}

impl<'a> NamespaceCheck<'a> {
    /// The check of a policy that will be enforced. It ends after half of the time until the deadline of the request.
    pub(super) fn new(
        enforce: LevelVersion,
        server: Minor,
        exempt_runtime_classes: &'a [Str],
        limits: ExistingPodLimits,
        deadline: Option<Instant>,
    ) -> Self {
        let now = Instant::now();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(now) / 2);
        let time = left.map_or(limits.time, |left| limits.time.min(left));
        let (is_late, violations) = (false, BTreeMap::new());
        Self {
            enforce,
            server,
            exempt_runtime_classes,
            max_pods: limits.count,
            deadline: now + time,
            is_late,
            total: 0,
            checked: 0,
            turns: 0,
            violations,
        }
    }

    /// Checks the pods of a namespace. Pods without a controller and the first pod of each controller come first. The
    /// other pods of the controllers follow.
    async fn run(&mut self, client: &dyn ObjectClient, namespace: &str) -> Result<(), ApiError> {
        let mut controllers: HashSet<Str> = HashSet::new();
        let mut others: Vec<Box<dyn StoredObject>> = Vec::new();
        for stored in client.read_all(&GroupResource::new("", "pods"), namespace)? {
            self.total += 1;
            if self.is_late || self.is_full() && self.exempt_runtime_classes.is_empty() {
                continue;
            }
            let pod = stored.decode()?;
            if self.is_exempt(&pod) {
                self.total -= 1;
            } else if controller_uid(&pod).is_some_and(|controller| !controllers.insert(controller.into())) {
                if others.len() < self.max_pods {
                    others.push(stored);
                }
            } else if !self.is_full() {
                self.check(&pod);
            }
            self.end_turn().await;
        }
        for stored in others {
            if self.is_full() {
                break;
            }
            self.check(&stored.decode()?);
            self.end_turn().await;
        }
        Ok(())
    }

    /// Ends the work on a pod. At least one pod is checked.
    async fn end_turn(&mut self) {
        self.is_late = self.checked > 0 && Instant::now() >= self.deadline;
        self.turns += 1;
        if self.turns.is_multiple_of(PODS_PER_TURN) {
            yield_now().await;
        }
    }

    /// True if no further pods are checked.
    fn is_full(&self) -> bool {
        self.is_late || self.checked >= self.max_pods
    }

    fn is_exempt(&self, pod: &Value) -> bool {
        self.exempt_runtime_classes.iter().any(|class| class == PodTemplate::of(pod).runtime_class())
    }

    fn check(&mut self, pod: &Value) {
        self.checked += 1;
        let violations = Violations::find(self.enforce.known_to(self.server), PodTemplate::of(pod));
        if !violations.is_empty() {
            let name = Str::from(pod.name());
            match self.violations.entry(violations.reasons()) {
                Entry::Vacant(entry) => drop(entry.insert((name, 1))),
                Entry::Occupied(mut entry) => {
                    let (first, count) = entry.get_mut();
                    *count += 1;
                    if name < *first {
                        *first = name;
                    }
                }
            }
        }
    }

    fn warnings(self, namespace: &str) -> Vec<String> {
        let Self { enforce, total, checked, violations, .. } = self;
        let mut warnings = Vec::new();
        if checked < total {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
            ));
        }
        if !violations.is_empty() {
            let namespace = pintle_value::field::quote(namespace);
            warnings.push(format!(
                "existing pods in namespace {namespace} violate the new PodSecurity enforce level \"{enforce}\""
            ));
        }
        let mut pods: Vec<String> = violations
            .into_iter()
            .map(|(reasons, (name, count))| match count {
                1 => format!("{name}: {reasons}"),
                2 => format!("{name} (and 1 other pod): {reasons}"),
                count => format!("{name} (and {} other pods): {reasons}", count - 1),
            })
            .collect();
        pods.sort();
        warnings.append(&mut pods);
        warnings
    }
}

/// The uid of the owner that controls a pod.
fn controller_uid(pod: &Value) -> Option<&str> {
    let owners = pod.items_at(&["metadata", "ownerReferences"]);
    owners.iter().find(|owner| owner.bool_at(&["controller"])).map(|owner| owner.str_at(&["uid"]))
}

/// Lets other tasks of the thread run.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
