//! The plugin `ImagePolicyWebhook` (upstream: `plugin/pkg/admission/imagepolicy`): asks a webhook whether the images of a
//! pod may be used.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pintle_auth::ExpiringCache;
use pintle_auth::config_file::{ConfigScheme, ConfigTypes};
use pintle_auth::review::{ReviewKind, ReviewVersion};
use pintle_codec::{json, yaml};
use pintle_registry::{ApiError, BoxFuture};
use pintle_schema::Scalar;
use pintle_value::{Value, object};

use crate::pods::{LISTS, containers};
use crate::webhook::ReviewEndpoint;
use crate::{AdmissionAttributes, AdmissionPlugin, Phase, PluginError};

const API_VERSION: &str = "imagepolicy.k8s.io/v1alpha1";
const KIND: &str = "ImageReview";
/// The webhook sees the annotations of a pod whose keys contain this text.
const ANNOTATION_PART: &str = ".image-policy.k8s.io/";
/// The prefix of the keys of audit annotations.
const AUDIT_PREFIX: &str = "imagepolicywebhook.image-policy.k8s.io/";
/// Maximum number of cached answers.
const MAX_CACHED_ANSWERS: usize = 1024;
const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

static REVIEW: LazyLock<ReviewKind> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let (text, flag) = (types.scalar(Scalar::String), types.scalar(Scalar::Bool));
    let annotations = types.map(text);
    let fields = [("allowed", flag), ("reason", text), ("auditAnnotations", annotations)];
    let status = types.object("v1alpha1.ImageReviewStatus", &fields);
    let review = types.object("v1alpha1.ImageReview", &[("kind", text), ("apiVersion", text), ("status", status)]);
    let kinds = vec![(API_VERSION, KIND, review)];
    let scheme = ConfigScheme { name: "pkg/api/legacyscheme/scheme.go:30", strict: false, types, kinds };
    ReviewKind { kind: KIND, v1: API_VERSION, v1beta1: API_VERSION, scheme }
});

/// The configuration (upstream: `imagePolicyWebhookConfig`).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Configuration {
    endpoint: ReviewEndpoint,
    /// How long an answer that allows is cached.
    allow_ttl: Duration,
    /// How long an answer that does not allow is cached.
    deny_ttl: Duration,
    /// Whether images are allowed if the webhook fails.
    default_allow: bool,
}

impl Configuration {
    fn read(text: Option<&[u8]>) -> Result<Self, String> {
        let text = text.ok_or("no config specified")?;
        let decoded = yaml::decode(text).map_err(|error| error.to_string())?.value;
        let field = |object: &Value, name: &str| {
            // As in Go's decoder, case does not matter.
            let found = object.entries_at(&[]).find(|(found, _)| found.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone()).filter(|value| !value.is_null())
        };
        let config = field(&decoded, "imagePolicy").unwrap_or_default();
        let mistyped = |value: &Value, name: &str, ty: &str| {
            let found = value.json_type();
            format!(
                "json: cannot unmarshal {found} into Go struct field imagePolicyWebhookConfig.imagePolicy.{name} of type {ty}"
            )
        };
        let duration = |name: &str, unit: Duration, limits: [Duration; 2], default: Duration| {
            let value = match field(&config, name) {
                None => 0,
                Some(value) => value.as_int().ok_or_else(|| mistyped(&value, name, "time.Duration"))?,
            };
            normalise(value, unit, limits, default)
        };
        let first_delay = duration(
            "retryBackoff",
            MILLISECOND,
            [Duration::from_nanos(1), Duration::from_secs(300)],
            Duration::from_millis(500),
        )?;
        let ttl_limits = [SECOND, Duration::from_secs(1800)];
        let allow_ttl = duration("allowTTL", SECOND, ttl_limits, Duration::from_secs(300))?;
        let deny_ttl = duration("denyTTL", SECOND, ttl_limits, Duration::from_secs(30))?;
        let default_allow = match field(&config, "defaultAllow") {
            None => false,
            Some(value) => value.as_bool().ok_or_else(|| mistyped(&value, "defaultAllow", "bool"))?,
        };
        let file = match field(&config, "kubeConfigFile") {
            None => String::new(),
            Some(value) => value.as_str().ok_or_else(|| mistyped(&value, "kubeConfigFile", "string"))?.to_owned(),
        };
        Ok(Self {
            endpoint: ReviewEndpoint { kubeconfig: PathBuf::from(file), first_delay },
            allow_ttl,
            deny_ttl,
            default_allow,
        })
    }
}

/// A duration of the configuration, in a unit. 0 stands for the default, and -1 for a duration of zero.
fn normalise(value: i64, unit: Duration, [min, max]: [Duration; 2], default: Duration) -> Result<Duration, String> {
    match value {
        -1 => return Ok(Duration::ZERO),
        0 => return Ok(default),
        _ => {}
    }
    let nanos = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    let print = pintle_value::time::Duration;
    let total = value.saturating_mul(nanos(unit));
    match u64::try_from(total).map(Duration::from_nanos) {
        Ok(duration) if (min..=max).contains(&duration) => Ok(duration),
        _ => {
            let [min, max] = [min, max].map(|limit| print(nanos(limit)));
            Err(format!("valid value is between {min} and {max}, got {}", print(total)))
        }
    }
}

/// The admission plugin `ImagePolicyWebhook`.
#[derive(Debug)]
pub(crate) struct ImagePolicyWebhook {
    configuration: Configuration,
    /// The statuses of answers by the specs of their reviews.
    answers: ExpiringCache<Value>,
    /// The time at which the plugin was made. The times of the cache count from it.
    started: Instant,
}

impl ImagePolicyWebhook {
    /// The plugin with a configuration in YAML or JSON.
    ///
    /// # Errors
    /// There is no configuration, or it is malformed.
    pub(crate) fn from_text(text: Option<&[u8]>) -> Result<Self, PluginError> {
        let configuration = Configuration::read(text).map_err(PluginError::Unreadable)?;
        Ok(Self { configuration, answers: ExpiringCache::new(MAX_CACHED_ANSWERS), started: Instant::now() })
    }

    async fn check(&self, attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<(), ApiError> {
        let spec = spec_of(attributes, pod);
        let key = json::encode(&spec);
        let now = || u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let status = match self.answers.get(&key, now()) {
            Some(status) => status,
            None => {
                let review = object! {"kind": KIND, "apiVersion": API_VERSION, "spec": spec};
                let review = Bytes::from(json::encode(&review));
                let answer =
                    attributes.webhooks.review(&self.configuration.endpoint, review, attributes.deadline).await;
                let status = match answer.and_then(|answer| REVIEW.decode(ReviewVersion::V1, &answer)) {
                    Ok(mut answer) => answer.remove_at(&["status"]).unwrap_or_default(),
                    Err(error) if self.configuration.default_allow => {
                        tracing::warn!(%error, "Images are allowed although their webhook has failed");
                        attributes.recorder.annotate(&format!("{AUDIT_PREFIX}failed-open"), "true".to_owned());
                        return Ok(());
                    }
                    Err(error) => return Err(attributes.forbidden(pod, error)),
                };
                let allowed = status.bool_at(&["allowed"]);
                let ttl = if allowed { self.configuration.allow_ttl } else { self.configuration.deny_ttl };
                let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
                self.answers.insert(key, status.clone(), now(), ttl);
                status
            }
        };
        for (name, value) in status.entries_at(&["auditAnnotations"]) {
            let value = value.as_str().unwrap_or_default();
            attributes.recorder.annotate(&format!("{AUDIT_PREFIX}{name}"), value.to_owned());
        }
        match (status.bool_at(&["allowed"]), status.str_at(&["reason"])) {
            (true, _) => Ok(()),
            (false, "") => Err(attributes.forbidden(pod, "one or more images rejected by webhook backend")),
            (false, reason) => {
                let why = format!("image policy webhook backend denied one or more images: {reason}");
                Err(attributes.forbidden(pod, why))
            }
        }
    }
}

/// The spec of a review.
fn spec_of(attributes: &AdmissionAttributes<'_>, pod: &Value) -> Value {
    let lists: &[&str] = if attributes.subresource.is_empty() { &LISTS } else { &["ephemeralContainers"] };
    let containers = containers(&pod["spec"], lists);
    let images: Vec<Value> = containers.map(|container| object! {"image": container.str_at(&["image"])}).collect();
    let annotations = pod.entries_at(&["metadata", "annotations"]);
    let annotations: pintle_value::Object = annotations
        .filter(|(key, _)| key.contains(ANNOTATION_PART))
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect();
    let mut spec = object! {};
    if !images.is_empty() {
        spec.set("containers", images);
    }
    if !annotations.is_empty() {
        spec.set("annotations", annotations);
    }
    if !attributes.namespace.is_empty() {
        spec.set("namespace", attributes.namespace);
    }
    spec
}

impl AdmissionPlugin for ImagePolicyWebhook {
    fn name(&self) -> &'static str {
        "ImagePolicyWebhook"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Validating]
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.is_create_or_update()
            && attributes.resource.is("", "pods")
            && matches!(attributes.subresource, "" | "ephemeralcontainers")
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.check(attributes, object))
    }

    fn review_endpoint(&self) -> Option<&ReviewEndpoint> {
        Some(&self.configuration.endpoint)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn durations_have_units_limits_and_defaults() {
        let read = |fields: &str| {
            let text = format!("imagePolicy:\n  kubeConfigFile: /etc/images\n{fields}");
            let found = Configuration::read(Some(text.as_bytes()))?;
            assert_eq!(found.endpoint.kubeconfig, Path::new("/etc/images"));
            let seconds = |duration: Duration| duration.as_secs_f64();
            Ok::<_, String>((
                [found.endpoint.first_delay, found.allow_ttl, found.deny_ttl].map(seconds),
                found.default_allow,
            ))
        };
        assert_eq!(read(""), Ok(([0.5, 300.0, 30.0], false)));
        let given = "  allowTTL: 50\n  DenyTTL: -1\n  retryBackoff: 10\n  defaultAllow: true\n";
        assert_eq!(read(given), Ok(([0.01, 50.0, 0.0], true)));
        let refused = |what: &str| Err(format!("valid value is between {what}"));
        assert_eq!(read("  allowTTL: 1801\n"), refused("1s and 30m0s, got 30m1s"));
        assert_eq!(read("  denyTTL: -2\n"), refused("1s and 30m0s, got -2s"));
        assert_eq!(read("  retryBackoff: 300001\n"), refused("1ns and 5m0s, got 5m0.001s"));
        let mistyped = "json: cannot unmarshal string into Go struct field imagePolicyWebhookConfig.imagePolicy.allowTTL \
                        of type time.Duration";
        assert_eq!(read("  allowTTL: 5s\n"), Err(mistyped.to_owned()));
        assert_eq!(Configuration::read(None), Err("no config specified".to_owned()));
    }
}
