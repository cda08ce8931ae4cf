//! The plugin `PodSecurity`. Pods must follow the Pod Security Standards as far as the labels of their namespace
//! require it (upstream: `k8s.io/pod-security-admission`, `plugin/pkg/admission/security/podsecurity`).
//!
//! - `policy`: levels, versions, and the labels of namespaces.
//! - `pod`, `checks`, `evaluator`: what each level forbids at each version.
//! - `target`: the resources with pods and pod templates.
//! - `existing_pods`: the warnings when a namespace begins to enforce a policy.
//! - `configuration`, `metrics`.
//!
//! **Invariant:** an object of a namespace without a policy is neither copied nor read.

mod checks;
mod configuration;
mod evaluator;
mod existing_pods;
mod metrics;
mod pod;
mod policy;
mod target;

use std::collections::HashMap;

use pintle_metrics::Exposition;
use pintle_registry::{ApiError, BoxFuture};
use pintle_value::{Errors, Str, Value};
use pintle_versions::Minor;

pub use self::configuration::{Exemptions, PodSecurityConfiguration};
pub use self::evaluator::{Violation, Violations};
pub use self::existing_pods::ExistingPodLimits;
use self::existing_pods::NamespaceCheck;
use self::metrics::{Mode, PodSecurityMetrics};
pub use self::pod::PodTemplate;
use self::policy::PolicyLabels;
pub use self::policy::{Level, LevelVersion, Policy, Version};
use self::target::Target;
use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin, Phase, PluginError, pods};

const ENFORCE_POLICY: &str = "pod-security.kubernetes.io/enforce-policy";
const AUDIT_VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";
const EXEMPT: &str = "pod-security.kubernetes.io/exempt";
const ERROR: &str = "pod-security.kubernetes.io/error";

/// The subresources of pods whose writes cannot violate a policy.
const IGNORED_SUBRESOURCES: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// The admission plugin `PodSecurity`.
#[derive(Debug, Default)]
pub struct PodSecurity {
    configuration: PodSecurityConfiguration,
    existing_pod_limits: ExistingPodLimits,
    /// The version of the server. It does not know newer standards.
    server: Minor,
    metrics: PodSecurityMetrics,
}

/// The policy of a namespace, and the errors in its labels.
type NamespacePolicy = (Policy, Errors);

impl PodSecurity {
    /// The plugin with a configuration.
    #[must_use]
    pub fn new(configuration: PodSecurityConfiguration) -> Self {
        Self { configuration, ..Self::default() }
    }

    /// The plugin with a configuration in YAML or JSON.
    ///
    /// # Errors
    /// The configuration is malformed or invalid.
    pub fn from_text(text: Option<&[u8]>) -> Result<Self, PluginError> {
        PodSecurityConfiguration::load(text.unwrap_or_default()).map(Self::new)
    }

    /// The same plugin with other limits on the check of existing pods.
    #[must_use]
    pub fn with_existing_pod_limits(self, existing_pod_limits: ExistingPodLimits) -> Self {
        Self { existing_pod_limits, ..self }
    }

    /// The same plugin in a server of a version.
    #[must_use]
    pub fn in_server(self, server: Minor) -> Self {
        Self { server, ..self }
    }

    fn policy<'l>(&self, labels: impl Iterator<Item = (&'l str, &'l str)>) -> NamespacePolicy {
        PolicyLabels::of(labels).policy(&self.configuration.defaults)
    }

    /// The policy of the namespace of a write. `describe` makes the audit annotation of an error from its message.
    ///
    /// # Errors
    /// Returns the message if the namespace cannot be read.
    fn policy_of_namespace(
        &self,
        attributes: &AdmissionAttributes<'_>,
        describe: impl FnOnce(&str) -> String,
    ) -> Result<NamespacePolicy, String> {
        attributes.read_namespace().map(|namespace| self.policy(namespace.labels())).map_err(|error| {
            self.metrics.error(attributes, true);
            let why = format!("failed to lookup namespace {}", pintle_value::field::quote(attributes.namespace));
            attributes.recorder.annotate(ERROR, format!("{}: {error}", describe(&why)));
            why
        })
    }

    fn is_exempt_namespace(&self, namespace: &str) -> bool {
        !namespace.is_empty() && self.configuration.exemptions.namespaces.iter().any(|exempt| exempt == namespace)
    }

    /// Records a write that is exempt by its namespace or its user. Returns true for an exempt write.
    fn is_exempt(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let users = &self.configuration.exemptions.usernames;
        let why = if self.is_exempt_namespace(attributes.namespace) {
            "namespace"
        } else if users.contains(&attributes.user.name) {
            "user"
        } else {
            return false;
        };
        self.metrics.exemption(attributes);
        attributes.recorder.annotate(EXEMPT, why.to_owned());
        true
    }

    /// Checks the labels of a namespace. Warns of existing pods that violate a newly enforced policy, or of an
    /// exemption.
    async fn validate_namespace(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
        let (policy, errors) = self.policy(labels(object));
        let mut is_unchanged = errors.is_empty();
        let mut needs_check = false;
        if let Some(old) = attributes.old {
            let (old_policy, old_errors) = self.policy(labels(old));
            // Errors that were there before are accepted.
            is_unchanged |= errors == old_errors;
            let (new, old) = (policy.enforce, old_policy.enforce);
            let is_relaxed = new.version == old.version && new.level <= old.level;
            needs_check = new != old && new.level != Level::Privileged && !is_relaxed;
        }
        if !is_unchanged {
            let (kind, name) = (attributes.resource.gvk(), Str::from(attributes.name));
            return Err(ApiError::Invalid { kind, name, errors });
        }
        let is_create = attributes.operation == AdmissionOperation::Create;
        if self.is_exempt_namespace(attributes.namespace) {
            if is_create || needs_check {
                self.warn_of_exemption(attributes, object, &policy);
            }
        } else if needs_check {
            let classes = &self.configuration.exemptions.runtime_classes;
            let (client, limits) = (attributes.client, self.existing_pod_limits);
            let check = NamespaceCheck::new(policy.enforce, self.server, classes, limits, attributes.deadline);
            let warnings = existing_pods::warnings(client, object.name(), check).await;
            warnings.into_iter().for_each(|warning| attributes.recorder.warn(warning));
        }
        Ok(())
    }

    /// Warns that the labels of an exempt namespace have no effect.
    fn warn_of_exemption(&self, attributes: &AdmissionAttributes<'_>, namespace: &Value, policy: &Policy) {
        if policy.is_privileged() || policy.is_equivalent(&self.configuration.defaults) {
            return;
        }
        let modes = PolicyLabels::of(labels(namespace)).describe(policy);
        let name = pintle_value::field::quote(namespace.name());
        attributes
            .recorder
            .warn(format!("namespace {name} is exempt from Pod Security, and the policy ({modes}) will be ignored"));
    }

    fn validate_pod(&self, attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<(), ApiError> {
        if self.is_exempt(attributes) {
            return Ok(());
        }
        let refusal = |why: &str| ApiError::Internal(why.to_owned());
        let found = self.policy_of_namespace(attributes, |why| refusal(why).to_string());
        let (policy, errors) = found.map_err(|why| refusal(&why))?;
        if errors.is_empty() && policy.is_privileged() {
            self.metrics.evaluation(attributes, Mode::Enforce, policy.enforce, true);
            attributes.recorder.annotate(ENFORCE_POLICY, LevelVersion::PRIVILEGED.to_string());
            return Ok(());
        }
        if attributes.old.is_some_and(|old| !is_significant_update(pod, old)) {
            return Ok(());
        }
        self.evaluate(attributes, &policy, &errors, PodTemplate::of(pod), true)
    }

    fn validate_template(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &Value,
        path: &[&str],
    ) -> Result<(), ApiError> {
        if self.is_exempt(attributes) {
            return Ok(());
        }
        // A pod template is admitted even if the namespace cannot be read.
        let Ok((policy, errors)) = self.policy_of_namespace(attributes, str::to_owned) else { return Ok(()) };
        let is_privileged = policy.warn.level == Level::Privileged && policy.audit.level == Level::Privileged;
        if errors.is_empty() && is_privileged {
            return Ok(());
        }
        // The template of a replication controller is optional.
        let Some(template) = object.at(path) else { return Ok(()) };
        self.evaluate(attributes, &policy, &errors, PodTemplate::of(template), false)
    }

    /// Evaluates the policy of a namespace. Only pods are refused; pod templates get warnings and audit annotations.
    fn evaluate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        policy: &Policy,
        errors: &Errors,
        pod: PodTemplate<'_>,
        enforces: bool,
    ) -> Result<(), ApiError> {
        let classes = &self.configuration.exemptions.runtime_classes;
        if !pod.runtime_class().is_empty() && classes.iter().any(|class| class == pod.runtime_class()) {
            self.metrics.exemption(attributes);
            attributes.recorder.annotate(EXEMPT, "runtimeClass".to_owned());
            return Ok(());
        }
        if !errors.is_empty() {
            attributes.recorder.annotate(ERROR, format!("Failed to parse policy: {}", errors.message()));
            self.metrics.error(attributes, false);
        }
        let mut evaluations = Evaluations { pod, server: self.server, found: Vec::new() };
        let mut refusal = None;
        if enforces {
            attributes.recorder.annotate(ENFORCE_POLICY, policy.enforce.to_string());
            let violations = evaluations.of(policy.enforce);
            if !violations.is_empty() {
                let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, violations.details());
                refusal = Some(ApiError::Forbidden {
                    resource: attributes.resource.group_resource(),
                    name: attributes.name.into(),
                    why,
                    causes: Vec::new(),
                });
            }
            self.metrics.evaluation(attributes, Mode::Enforce, policy.enforce, refusal.is_none());
        }
        let mut describe = |mode, policy| {
            let violations = evaluations.of(policy);
            (!violations.is_empty()).then(|| {
                self.metrics.evaluation(attributes, mode, policy, false);
                format!("would violate PodSecurity \"{policy}\": {}", violations.details())
            })
        };
        if let Some(text) = describe(Mode::Audit, policy.audit) {
            attributes.recorder.annotate(AUDIT_VIOLATIONS, text);
        }
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        if let Some(text) = describe(Mode::Warn, policy.warn) {
            attributes.recorder.warn(text);
        }
        Ok(())
    }
}

/// The violations of a pod by policy. The modes of a namespace often have the same policy.
struct Evaluations<'a> {
    pod: PodTemplate<'a>,
    server: Minor,
    found: Vec<(LevelVersion, Violations)>,
}

impl Evaluations<'_> {
    fn of(&mut self, policy: LevelVersion) -> &Violations {
        let known = self.found.iter().position(|(known, _)| *known == policy);
        let index = known.unwrap_or_else(|| {
            self.found.push((policy, Violations::find(policy.known_to(self.server), self.pod)));
            self.found.len() - 1
        });
        &self.found[index].1
    }
}

fn labels(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    let labels = object.entries_at(&["metadata", "labels"]);
    labels.filter_map(|(key, value)| Some((key, value.as_str()?)))
}

/// True if an update of a pod may violate a policy that the pod did not violate before. Such an update changes the
/// image of a container, or the containers.
fn is_significant_update(pod: &Value, old: &Value) -> bool {
    let image = |container: &Value| Str::from(container.str_at(&["image"]));
    for list in pods::LISTS {
        let (new, old) = (pod.items_at(&["spec", list]), old.items_at(&["spec", list]));
        if new.len() != old.len() || new.iter().zip(old).any(|(new, old)| image(new) != image(old)) {
            return true;
        }
    }
    let (new, old) = (pod.items_at(&["spec", "ephemeralContainers"]), old.items_at(&["spec", "ephemeralContainers"]));
    // Of several containers with the same name, the first one counts.
    let old: HashMap<&str, &Value> = old.iter().rev().map(|old| (old.str_at(&["name"]), old)).collect();
    new.iter().any(|container| old.get(container.str_at(&["name"])).is_none_or(|old| image(old) != image(container)))
}

impl AdmissionPlugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Validating]
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.is_create_or_update()
            && match Target::of(attributes.resource) {
                Some(Target::Pod) => !IGNORED_SUBRESOURCES.contains(&attributes.subresource),
                Some(Target::Namespace | Target::Template(_)) => attributes.subresource.is_empty(),
                None => false,
            }
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            match Target::of(attributes.resource) {
                Some(Target::Namespace) => self.validate_namespace(attributes, object).await,
                Some(Target::Pod) => self.validate_pod(attributes, object),
                Some(Target::Template(path)) => self.validate_template(attributes, object, path),
                None => Ok(()),
            }
        })
    }

    fn write_metrics(&self, out: &mut Exposition) {
        self.metrics.write(out);
    }
}
