//! The plugin `EventRateLimit` (upstream: `plugin/pkg/admission/eventratelimit`): limits how often events are written, for
//! the whole server, by namespace, by user, or by source and object.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use std::time::Instant;

use pintle_auth::config_file::{ConfigScheme, ConfigTypes};
use pintle_locks::Mutex;
use pintle_registry::ApiError;
use pintle_schema::Scalar;
use pintle_value::{Errors, FieldPath, Str, Value};

use crate::{AdmissionAttributes, Phase, PluginError, SyncPlugin};

/// How many buckets a limit keeps if its configuration does not say.
const DEFAULT_CACHE_SIZE: usize = 4096;

static SCHEME: LazyLock<ConfigScheme> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let (text, number) = (types.scalar(Scalar::String), types.scalar(Scalar::Int32));
    let fields = [("type", text), ("qps", number), ("burst", number), ("cacheSize", number)];
    let limit = types.object("v1alpha1.Limit", &fields);
    let limits = types.list(limit);
    let fields = [("kind", text), ("apiVersion", text), ("limits", limits)];
    let configuration = types.object("v1alpha1.Configuration", &fields);
    let kinds = vec![("eventratelimit.admission.k8s.io/v1alpha1", "Configuration", configuration)];
    let name = "k8s.io/kubernetes/plugin/pkg/admission/eventratelimit/config.go:31";
    ConfigScheme { name, strict: false, types, kinds }
});

/// The property of an event by which a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitType {
    Server,
    Namespace,
    User,
    SourceAndObject,
}

impl LimitType {
    /// All types, sorted by name.
    const ALL: [(&'static str, LimitType); 4] = [
        ("Namespace", Self::Namespace),
        ("Server", Self::Server),
        ("SourceAndObject", Self::SourceAndObject),
        ("User", Self::User),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The bucket of an event.
    fn key(self, attributes: &AdmissionAttributes<'_>, event: &Value) -> Str {
        match self {
            Self::Server => Str::default(),
            Self::Namespace => attributes.namespace.into(),
            Self::User => attributes.user.name.clone(),
            Self::SourceAndObject => {
                let paths = [
                    ["source", "component"],
                    ["source", "host"],
                    ["involvedObject", "kind"],
                    ["involvedObject", "namespace"],
                    ["involvedObject", "name"],
                    ["involvedObject", "uid"],
                    ["involvedObject", "apiVersion"],
                ];
                paths.map(|path| event.str_at(&path)).concat().into()
            }
        }
    }
}

/// A token bucket (upstream: `golang.org/x/time/rate`).
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
    /// The time of its last use, as a number that grows with each use.
    used: u64,
}

/// The buckets of a limit. The least recently used bucket is given up first.
#[derive(Debug, Default)]
struct Buckets {
    by_key: HashMap<Str, Bucket>,
    by_use: BTreeMap<u64, Str>,
    uses: u64,
}

/// One limit.
#[derive(Debug)]
struct Limit {
    kind: LimitType,
    qps: f64,
    burst: f64,
    cache_size: usize,
    buckets: Mutex<Buckets>,
}

impl Limit {
    /// Takes a token from the bucket of a key. Returns whether there was one.
    fn accept(&self, key: &Str, now: Instant) -> bool {
        let mut buckets = self.buckets.lock();
        let buckets = &mut *buckets;
        buckets.uses += 1;
        let full = Bucket { tokens: self.burst, filled: now, used: buckets.uses };
        let bucket = buckets.by_key.entry(key.clone()).or_insert(full);
        buckets.by_use.remove(&bucket.used);
        bucket.used = buckets.uses;
        buckets.by_use.insert(bucket.used, key.clone());
        let elapsed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = (bucket.tokens + elapsed * self.qps).min(self.burst);
        bucket.filled = now;
        let is_accepted = bucket.tokens >= 1.0;
        if is_accepted {
            bucket.tokens -= 1.0;
        }
        while buckets.by_key.len() > self.cache_size {
            let Some((_, oldest)) = buckets.by_use.pop_first() else { break };
            buckets.by_key.remove(&oldest);
        }
        is_accepted
    }
}

/// The admission plugin `EventRateLimit`.
#[derive(Debug, Default)]
pub(crate) struct EventRateLimit {
    limits: Vec<Limit>,
}

impl EventRateLimit {
    /// The plugin with a configuration in YAML or JSON.
    ///
    /// # Errors
    /// The configuration is malformed or invalid. A missing configuration and a configuration without limits
    /// are invalid, too.
    pub(crate) fn from_text(text: Option<&[u8]>) -> Result<Self, PluginError> {
        let configuration = match text {
            Some(text) => SCHEME.decode(text).map_err(|error| PluginError::Unreadable(error.to_string()))?.value,
            None => Value::object(),
        };
        let errors = validate(&configuration);
        if !errors.is_empty() {
            return Err(PluginError::Unreadable(errors.message()));
        }
        let limit = |limit: &Value| {
            let number = |field: &str| limit.int_at(&[field]).unwrap_or(0);
            let kind = LimitType::ALL.into_iter().find(|(name, _)| *name == limit.str_at(&["type"]));
            // The fields are numbers of 32 bits.
            let float = |field: &str| i32::try_from(number(field)).map_or(0.0, f64::from);
            let cache_size = usize::try_from(number("cacheSize")).ok().filter(|size| *size > 0);
            Some(Limit {
                kind: kind?.1,
                qps: float("qps"),
                burst: float("burst"),
                cache_size: cache_size.unwrap_or(DEFAULT_CACHE_SIZE),
                buckets: Mutex::default(),
            })
        };
        Ok(Self { limits: configuration.items_at(&["limits"]).iter().filter_map(limit).collect() })
    }

    fn check(&self, attributes: &AdmissionAttributes<'_>, event: &Value, now: Instant) -> Result<(), ApiError> {
        // A dry run writes nothing.
        if attributes.dry_run || !attributes.resource.is("", "events") {
            return Ok(());
        }
        // Each limit counts the event, even if another limit refuses it.
        let refuse = |limit: &Limit| {
            let key = limit.kind.key(attributes, event);
            let text = || format!("limit reached on type {} for key {key}", limit.kind.name());
            (!limit.accept(&key, now)).then(text)
        };
        let refusals: Vec<String> = self.limits.iter().filter_map(refuse).collect();
        let refused = match &*refusals {
            [] => return Ok(()),
            [refusal] => refusal.clone(),
            refusals => format!("[{}]", refusals.join(", ")),
        };
        let message = format!("Too many requests: {refused}");
        Err(ApiError::TooManyRequests { message, retry_after: 0, causes: Vec::new() })
    }
}

fn validate(configuration: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("limits");
    let limits = configuration.items_at(&["limits"]);
    if limits.is_empty() {
        errors.invalid(&path, configuration["limits"].clone(), "must not be empty");
    }
    for (i, limit) in limits.iter().enumerate() {
        let path = path.index(i);
        let (kind, number) = (limit.str_at(&["type"]), |field: &str| limit.int_at(&[field]).unwrap_or(0));
        if !LimitType::ALL.iter().any(|(name, _)| *name == kind) {
            errors.not_supported(&path.child("type"), kind, &LimitType::ALL.map(|(name, _)| name));
        }
        for field in ["burst", "qps"] {
            if number(field) <= 0 {
                errors.invalid(&path.child(field), number(field), "must be positive");
            }
        }
        if kind != LimitType::Server.name() && number("cacheSize") < 0 {
            errors.invalid(&path.child("cacheSize"), number("cacheSize"), "must not be negative");
        }
    }
    errors
}

impl SyncPlugin for EventRateLimit {
    const NAME: &'static str = "EventRateLimit";
    const PHASES: &'static [Phase] = &[Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.is_create_or_update() && attributes.resource.is("", "events")
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
        self.check(attributes, object, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::{Scenario, json};

    fn plugin(limits: &str) -> EventRateLimit {
        let head = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n";
        EventRateLimit::from_text(Some(format!("{head}limits: {limits}\n").as_bytes())).expect("a configuration")
    }

    fn event(namespace: &str, host: &str) -> Value {
        json(&format!(
            r#"{{"metadata":{{"name":"e","namespace":"{namespace}"}},"source":{{"component":"c","host":"{host}"}},
                "involvedObject":{{"kind":"Pod","namespace":"{namespace}","name":"p","uid":"u","apiVersion":"v1"}}}}"#
        ))
    }

    #[test]
    fn a_bucket_is_filled_again() {
        let plugin = plugin("[{type: Server, qps: 2, burst: 3}]");
        let start = Instant::now();
        let accepts =
            |milliseconds: u64| plugin.limits[0].accept(&Str::default(), start + Duration::from_millis(milliseconds));
        assert_eq!([0, 0, 0, 0].map(accepts), [true, true, true, false]);
        assert_eq!([400, 500, 500].map(accepts), [false, true, false]);
        assert_eq!([100_000; 4].map(accepts), [true, true, true, false]);
    }

    #[test]
    fn the_bucket_that_is_not_used_is_given_up() {
        let plugin = plugin("[{type: Namespace, qps: 1, burst: 1, cacheSize: 2}]");
        let now = Instant::now();
        let accepts = |key: &str| plugin.limits[0].accept(&key.into(), now);
        assert_eq!(["a", "b", "a", "c", "a", "b"].map(accepts), [true, true, false, true, false, true]);
        let buckets = plugin.limits[0].buckets.lock();
        assert_eq!((buckets.by_key.len(), buckets.by_use.len()), (2, 2));
    }

    #[test]
    fn each_limit_has_buckets_of_its_own() {
        let create = Scenario::create("", "events");
        let refused = |text: &str| format!("Too many requests: {text}");
        let namespaces = plugin("[{type: Namespace, qps: 1, burst: 1}]");
        create.check_validate(&namespaces, &event("a", ""), Ok(()));
        create.check_validate(&namespaces, &event("b", ""), Ok(()));
        let why = refused("limit reached on type Namespace for key a");
        create.check_validate(&namespaces, &event("a", ""), Err(&why));
        Scenario { dry_run: true, ..create.clone() }.check_validate(&namespaces, &event("a", ""), Ok(()));

        let both = plugin("[{type: User, qps: 1, burst: 1}, {type: SourceAndObject, qps: 1, burst: 1}]");
        let user = |name: &str| {
            let user = pintle_auth::UserInfo { name: name.into(), ..Default::default() };
            Scenario { user, ..create.clone() }
        };
        user("alice").check_validate(&both, &event("n", "h"), Ok(()));
        let why = refused("limit reached on type SourceAndObject for key chPodnpuv1");
        user("bob").check_validate(&both, &event("n", "h"), Err(&why));
        let why = refused("limit reached on type User for key alice");
        user("alice").check_validate(&both, &event("n", "other"), Err(&why));
        let why = refused(
            "[limit reached on type User for key alice, limit reached on type SourceAndObject for key chPodnpuv1]",
        );
        user("alice").check_validate(&both, &event("n", "h"), Err(&why));
    }

    #[test]
    fn invalid_configurations_are_errors() {
        let error = |text: Option<&str>| match EventRateLimit::from_text(text.map(str::as_bytes)) {
            Err(PluginError::Unreadable(error)) => error,
            other => panic!("{other:?}"),
        };
        assert_eq!(error(None), "limits: Invalid value: null: must not be empty");
        let head = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n";
        let text = format!("{head}limits: [{{type: Pod, qps: 0, burst: -1, cacheSize: -1}}]");
        assert_eq!(
            error(Some(&text)),
            "[limits[0].type: Unsupported value: \"Pod\": supported values: \"Namespace\", \"Server\", \
             \"SourceAndObject\", \"User\", limits[0].burst: Invalid value: -1: must be positive, limits[0].qps: Invalid \
             value: 0: must be positive, limits[0].cacheSize: Invalid value: -1: must not be negative]"
        );
        let text = "apiVersion: v1\nkind: Configuration\n";
        assert!(error(Some(text)).starts_with("no kind \"Configuration\" is registered for version \"v1\" in scheme"));
    }
}
