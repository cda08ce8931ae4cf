//! Reads a policy (upstream: `reader.go`). The text is decoded strictly. If it has unknown or duplicate fields, it is
//! decoded leniently, with a warning.

use std::sync::LazyLock;

use pintle_auth::config_file::{ConfigFileError, ConfigScheme, ConfigTypes};
use pintle_schema::Scalar;
use pintle_value::{Str, Value};

use super::{GroupResources, Policy, Rule};
use crate::{Level, Stage, Stages};

const VERSION: &str = "audit.k8s.io/v1";
/// The version of a text without a version: the Go type that is decoded into.
const INTERNAL: &str = "audit.k8s.io/__internal";
const KIND: &str = "Policy";
/// The other kinds of the version.
const OTHER_KINDS: [&str; 3] = ["Event", "EventList", "PolicyList"];

static STRICT: LazyLock<ConfigScheme> = LazyLock::new(|| scheme(true));
static LENIENT: LazyLock<ConfigScheme> = LazyLock::new(|| scheme(false));

fn scheme(strict: bool) -> ConfigScheme {
    let mut types = ConfigTypes::default();
    let (text, flag, any) = (types.scalar(Scalar::String), types.scalar(Scalar::Bool), types.any());
    let (level, stage) = (types.named_text("v1.Level"), types.named_text("v1.Stage"));
    let (texts, stages) = (types.list(text), types.list(stage));
    let metadata = object_meta(&mut types);
    let resources = [("group", text), ("resources", texts), ("resourceNames", texts)];
    let resources = types.object("v1.GroupResources", &resources);
    let resources = types.list(resources);
    let rule = [
        ("level", level),
        ("users", texts),
        ("userGroups", texts),
        ("verbs", texts),
        ("resources", resources),
        ("namespaces", texts),
        ("nonResourceURLs", texts),
        ("omitStages", stages),
        ("*omitManagedFields", flag),
    ];
    let rule = types.object("v1.PolicyRule", &rule);
    let rules = types.list(rule);
    let policy = [
        ("kind", text),
        ("apiVersion", text),
        ("metadata", metadata),
        ("rules", rules),
        ("omitStages", stages),
        ("omitManagedFields", flag),
    ];
    let policy = types.object("v1.Policy", &policy);
    let mut kinds = vec![(VERSION, KIND, policy), (INTERNAL, KIND, any)];
    kinds.extend(OTHER_KINDS.map(|kind| (VERSION, kind, any)));
    ConfigScheme { name: "pkg/runtime/scheme.go:111", strict, types, kinds }
}

fn object_meta(types: &mut ConfigTypes) -> pintle_schema::TypeId {
    let (text, number, flag) = (types.scalar(Scalar::String), types.scalar(Scalar::Int64), types.scalar(Scalar::Bool));
    let (time, any, uid) = (types.scalar(Scalar::Time), types.any(), types.named_text("types.UID"));
    let operation = types.named_text("v1.ManagedFieldsOperationType");
    let (texts, map) = (types.list(text), types.map(text));
    let owner = [
        ("apiVersion", text),
        ("kind", text),
        ("name", text),
        ("uid", uid),
        ("*controller", flag),
        ("*blockOwnerDeletion", flag),
    ];
    let owner = types.object("v1.OwnerReference", &owner);
    let manager = [
        ("manager", text),
        ("operation", operation),
        ("apiVersion", text),
        ("*time", time),
        ("fieldsType", text),
        ("*fieldsV1", any),
        ("subresource", text),
    ];
    let manager = types.object("v1.ManagedFieldsEntry", &manager);
    let (owners, managers) = (types.list(owner), types.list(manager));
    let fields = [
        ("name", text),
        ("generateName", text),
        ("namespace", text),
        ("selfLink", text),
        ("uid", uid),
        ("resourceVersion", text),
        ("generation", number),
        ("creationTimestamp", time),
        ("*deletionTimestamp", time),
        ("*deletionGracePeriodSeconds", number),
        ("labels", map),
        ("annotations", map),
        ("ownerReferences", owners),
        ("finalizers", texts),
        ("managedFields", managers),
    ];
    types.object("v1.ObjectMeta", &fields)
}

/// Decodes the text of a policy. Returns it with a warning about the fields that are ignored.
pub(super) fn decode(text: &[u8]) -> Result<(Value, Option<String>), String> {
    let default = (INTERNAL, KIND);
    let (decoded, warning) = match STRICT.decode_as(text, default) {
        Err(error @ ConfigFileError::NotStrict(_)) => {
            let decoded = LENIENT.decode_as(text, default).map_err(|error| format!("failed lenient decoding: {error}"));
            let warning = format!("Audit policy contains errors, falling back to lenient decoding: {error}");
            (decoded?, Some(warning))
        }
        decoded => (decoded.map_err(|error| format!("failed decoding: {error}"))?, None),
    };
    if decoded.api_version != VERSION {
        let version = decoded.api_version;
        return Err(format!("unknown group version field {version}, Kind={KIND} in policy"));
    }
    match decoded.value.str_at(&["kind"]) {
        "" | KIND => Ok((decoded.value, warning)),
        kind => Err(format!("failed decoding: converting (v1.{kind}) to (audit.Policy): unknown conversion")),
    }
}

/// Makes the policy of a valid object.
pub(super) fn policy(value: &Value, warning: Option<String>) -> Policy {
    let omit_stages = stages(value);
    let omit_managed_fields = value.bool_at(&["omitManagedFields"]);
    let rule = |value: &Value| Rule {
        level: Level::named(value.str_at(&["level"])).unwrap_or_default(),
        users: texts(value, "users"),
        user_groups: texts(value, "userGroups"),
        verbs: texts(value, "verbs"),
        resources: value.items_at(&["resources"]).iter().map(group_resources).collect(),
        namespaces: texts(value, "namespaces"),
        non_resource_urls: texts(value, "nonResourceURLs"),
        omit_stages: omit_stages.union(stages(value)),
        omit_managed_fields: value.get("omitManagedFields").and_then(Value::as_bool).unwrap_or(omit_managed_fields),
    };
    let rules = value.items_at(&["rules"]).iter().map(rule).collect();
    Policy { omit_stages, omit_managed_fields, rules, warning }
}

fn group_resources(value: &Value) -> GroupResources {
    GroupResources {
        group: value.str_at(&["group"]).into(),
        resources: texts(value, "resources"),
        resource_names: texts(value, "resourceNames"),
    }
}

fn stages(value: &Value) -> Stages {
    let stages = value.items_at(&["omitStages"]).iter();
    stages.filter_map(|stage| Stage::named(stage.as_str()?)).collect()
}

/// A list of texts. Null counts as an empty text, as in Go.
fn texts(value: &Value, field: &str) -> Vec<Str> {
    value.items_at(&[field]).iter().map(|text| text.as_str().unwrap_or_default().into()).collect()
}
