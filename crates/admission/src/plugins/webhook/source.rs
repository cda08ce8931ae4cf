//! The webhooks of files, and the webhooks of the stored configurations, which come after them. A configuration is
//! compiled once for each of its states (upstream: `admission/configuration`, `admission/plugin/webhook/accessors.go`,
//! `webhook/generic/composite_webhook_source.go`).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use pintle_admission_cel::MatchConditions;
use pintle_auth::review::ReviewVersion;
use pintle_registry::{ApiError, GroupResource, StoredObjects, WebhookClientConfig};
use pintle_value::{Str, Value};

use crate::AdmissionAttributes;
use crate::cached_derivation::CachedDerivation;
use crate::manifest::{ManifestTarget, StaticObjects};
use crate::matching::{Matching, MatchingList, RequestMatcher, is_exempt, is_review};

/// The time limit of a webhook that has none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The effect of a failed call on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailurePolicy {
    /// The request fails.
    Fail,
    /// The request goes on.
    Ignore,
}

/// Whether a webhook may be called for a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SideEffects {
    /// The webhook has no side effects for a dry run.
    NoneOnDryRun,
    /// The webhook may have side effects for a dry run.
    Some,
    /// The configuration does not say.
    Unset,
}

/// A webhook of a configuration.
#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) name: Str,
    /// The name of the configuration.
    pub(super) configuration: Str,
    /// Identifies the webhook among all others of its kind.
    pub(super) uid: Str,
    pub(super) matcher: RequestMatcher,
    /// The address for calls; `None` if the configuration has neither a service nor a URL.
    pub(super) client: Option<WebhookClientConfig>,
    pub(super) failure_policy: FailurePolicy,
    pub(super) side_effects: SideEffects,
    pub(super) timeout: Duration,
    /// The version of reviews; `None` if the webhook accepts no version that exists.
    pub(super) review_version: Option<ReviewVersion>,
    /// The conditions on requests beside the rules and selectors.
    pub(super) conditions: MatchConditions,
    /// True if the webhook is called again when others have changed the object.
    pub(super) is_reinvocable: bool,
}

impl Matching for Arc<Webhook> {
    fn matcher(&self) -> Option<&RequestMatcher> {
        Some(&self.matcher)
    }
}

impl Webhook {
    /// Compiles a webhook of a configuration, which is the `index`th webhook with its name. `prefix` tells webhooks of
    /// files apart.
    fn compile((prefix, configuration): (&str, &str), index: usize, webhook: &Value) -> Self {
        let name = webhook.str_at(&["name"]);
        let versions = webhook.items_at(&["admissionReviewVersions"]).iter().filter_map(Value::as_str);
        let known = |name: &str| ReviewVersion::parse(name, "admission webhook").ok();
        let seconds = webhook.int_at(&["timeoutSeconds"]).and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            name: name.into(),
            configuration: configuration.into(),
            uid: format!("{prefix}{configuration}/{name}/{index}").into(),
            matcher: RequestMatcher::of_webhook(webhook),
            client: webhook.get("clientConfig").and_then(WebhookClientConfig::parse),
            failure_policy: match webhook.str_at(&["failurePolicy"]) {
                "Ignore" => FailurePolicy::Ignore,
                _ => FailurePolicy::Fail,
            },
            side_effects: match webhook.str_at(&["sideEffects"]) {
                "None" | "NoneOnDryRun" => SideEffects::NoneOnDryRun,
                "" => SideEffects::Unset,
                _ => SideEffects::Some,
            },
            timeout: seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs),
            review_version: versions.into_iter().find_map(known),
            conditions: match webhook.items_at(&["matchConditions"]) {
                [] => MatchConditions::default(),
                conditions => MatchConditions::of_webhook(conditions),
            },
            is_reinvocable: webhook.str_at(&["reinvocationPolicy"]) == "IfNeeded",
        }
    }
}

/// The webhooks of a configuration at a revision.
#[derive(Debug)]
struct Configuration {
    revision: u64,
    webhooks: Vec<Arc<Webhook>>,
}

/// The webhooks of all stored configurations of a kind.
#[derive(Debug)]
struct StoredWebhooks {
    configurations: Vec<Configuration>,
    /// The webhooks in the order of their configurations' names, then of their positions in the configuration.
    webhooks: MatchingList<Arc<Webhook>>,
}

/// The webhooks that may see requests of a kind, in the order in which they are called. The webhooks of files come
/// first.
#[derive(Debug, Default)]
pub(super) struct Webhooks {
    of_files: Option<Arc<MatchingList<Arc<Webhook>>>>,
    stored: Option<Arc<StoredWebhooks>>,
}

impl Webhooks {
    /// The webhooks whose rules may match a request, with their positions among all webhooks, in order.
    pub(super) fn candidates(&self, attributes: &AdmissionAttributes<'_>) -> Vec<(usize, &Webhook)> {
        let of_files = self.of_files.as_deref();
        let (stored, first) = (self.stored.as_deref(), of_files.map_or(0, MatchingList::len));
        let of_files = of_files.into_iter().flat_map(|webhooks| webhooks.candidates(attributes));
        let stored = stored.into_iter().flat_map(|stored| stored.webhooks.candidates(attributes));
        let stored = stored.map(|(position, webhook)| (first + position, webhook));
        of_files.chain(stored).map(|(position, webhook)| (position, &**webhook)).collect()
    }
}

impl StoredWebhooks {
    /// Compiles configurations, which are read in the order of their names. Unchanged configurations are not compiled
    /// again.
    fn compile(configurations: StoredObjects, before: Option<&Self>, excludes_reviews: bool) -> Result<Self, ApiError> {
        let known = before.into_iter().flat_map(|before| &before.configurations);
        let known: HashMap<u64, &Configuration> = known.map(|known| (known.revision, known)).collect();
        let compiled = configurations.map(|stored| {
            let revision = stored.revision();
            let webhooks = match known.get(&revision) {
                Some(known) => known.webhooks.clone(),
                None => {
                    let configuration = stored.decode()?;
                    if excludes_reviews {
                        log_excluded_resources(&configuration);
                    }
                    compile_configuration("", &configuration).collect()
                }
            };
            Ok(Configuration { revision, webhooks })
        });
        let configurations = compiled.collect::<Result<Vec<_>, ApiError>>()?;
        let webhooks = configurations.iter().flat_map(|configuration| &configuration.webhooks).cloned().collect();
        Ok(Self { configurations, webhooks })
    }
}

/// Logs the resources that the rules of a configuration name although its webhooks do not see them. Rules with wildcards
/// do not count.
fn log_excluded_resources(configuration: &Value) {
    let rules = configuration.items_at(&["webhooks"]).iter().flat_map(|webhook| webhook.items_at(&["rules"]));
    let mut excluded = BTreeSet::new();
    for rule in rules {
        let texts = |field: &str| rule.items_at(&[field]).iter().filter_map(Value::as_str).collect::<Vec<_>>();
        let (groups, resources) = (texts("apiGroups"), texts("resources"));
        if groups.contains(&"*") || resources.contains(&"*") {
            continue;
        }
        let named = groups.iter().flat_map(|group| resources.iter().map(move |resource| (*group, *resource)));
        let named = named.filter(|(group, resource)| is_review(group, resource));
        excluded.extend(named.map(|(group, resource)| format!("{resource}.{group}")));
    }
    if !excluded.is_empty() {
        tracing::info!(
            kind = configuration.kind(),
            name = configuration.name(),
            resources = ?excluded,
            "Admission webhook configuration names resources that are excluded from admission webhooks"
        );
    }
}

fn compile_configuration(prefix: &str, configuration: &Value) -> impl Iterator<Item = Arc<Webhook>> {
    let webhooks = configuration.items_at(&["webhooks"]);
    // Webhooks with the same name are numbered.
    let number = move |index: usize| {
        let name = webhooks[index].str_at(&["name"]);
        webhooks[..index].iter().filter(|other| other.str_at(&["name"]) == name).count()
    };
    let compiled = webhooks.iter().enumerate();
    compiled
        .map(move |(index, webhook)| Webhook::compile((prefix, configuration.name()), number(index), webhook).into())
}

/// The configurations of a kind, compiled.
#[derive(Debug)]
pub(super) struct WebhookSource {
    resource: GroupResource,
    compiled: CachedDerivation<StoredWebhooks>,
    of_files: StaticObjects<MatchingList<Arc<Webhook>>>,
    /// Whether reviews of authentication and authorization are not for webhooks.
    excludes_reviews: bool,
}

impl ManifestTarget for WebhookSource {
    fn set_of_files(&self, configurations: &[Value]) {
        let compiled =
            configurations.iter().flat_map(|configuration| compile_configuration("manifest/", configuration));
        self.of_files.set(compiled.collect());
    }
}

impl WebhookSource {
    /// The source for a resource of `admissionregistration.k8s.io`.
    pub(super) fn new(plural: &str, excludes_reviews: bool) -> Self {
        Self {
            resource: GroupResource::new("admissionregistration.k8s.io", plural),
            compiled: CachedDerivation::default(),
            of_files: StaticObjects::default(),
            excludes_reviews,
        }
    }

    /// True if webhooks may see a request. Only webhooks of files see the configurations of admission.
    pub(super) fn concerns(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let is_excluded = self.excludes_reviews && is_review(&attributes.resource.group, &attributes.resource.plural);
        !is_excluded && (!is_exempt(attributes) || self.of_files.get().is_some())
    }

    /// The webhooks that may see a request, as they are now.
    ///
    /// # Errors
    /// A configuration cannot be read.
    pub(super) fn webhooks(&self, attributes: &AdmissionAttributes<'_>) -> Result<Webhooks, ApiError> {
        let compile =
            |stored: StoredObjects, before: Option<&_>| StoredWebhooks::compile(stored, before, self.excludes_reviews);
        let stored = || self.compiled.get(attributes.client, &self.resource, compile);
        let stored = (!is_exempt(attributes)).then(stored).transpose()?;
        Ok(Webhooks { of_files: self.of_files.get(), stored })
    }
}
