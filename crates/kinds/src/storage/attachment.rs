//! The strategy for VolumeAttachment, whose spec is immutable (upstream: `ValidateVolumeAttachment`).

use pintle_gates::Change;
use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use crate::core::persistentvolume::{validate_csi_driver_name, validate_inline_volume_spec};
use crate::core::pod::defaults::round_resource_list;
use crate::generic::{SPEC_AND_METADATA, StatusStrategy, reset_status, validate_immutable_at};
use crate::validation::invalid_each;

const MAX_METADATA_BYTES: usize = 256 * 1024;
const MAX_MESSAGE_BYTES: usize = 1024;

/// The strategy for VolumeAttachment.
pub(crate) struct VolumeAttachmentStrategy;

impl Strategy for VolumeAttachmentStrategy {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object.at_mut(&["spec", "source", "inlineVolumeSpec"]) else { return };
        round_resource_list(spec, &["capacity"]);
        if let Some(host_path) = spec.get_mut("hostPath") {
            host_path.set_default("type", "");
        }
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        // The empty status has one field that is never omitted.
        reset_status(object, old, pintle_value::object! { "attached": false });
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        let spec = FieldPath::new("spec");
        validate_csi_driver_name(&mut errors, object.str_at(&["spec", "attacher"]), &spec.child("attacher"));
        validate_source(&mut errors, &object["spec"]["source"], &spec.child("source"));
        let node = object.str_at(&["spec", "nodeName"]);
        invalid_each(&mut errors, &spec.child("nodeName"), node, names::dns1123_subdomain_name(node, false));
        let names_limit = context.gates.has(Change::ATTACHMENT_ERRORS_NAME_THEIR_LIMIT);
        let shown_limit = if names_limit { MAX_MESSAGE_BYTES } else { MAX_METADATA_BYTES };
        validate_status(&mut errors, &object["status"], shown_limit);
        let source = spec.child("source");
        if let Some(name) = object.at(&["spec", "source", "persistentVolumeName"]).and_then(Value::as_str) {
            invalid_each(
                &mut errors,
                &source.child("persistentVolumeName"),
                name,
                names::dns1123_subdomain_name(name, false),
            );
        }
        validate_immutable_at(&mut errors, object, old, &["spec"]);
        errors
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

/// The strategy for the `status` subresource, which validates the spec, too.
static STATUS: StatusStrategy =
    StatusStrategy::new(|context, object, old| VolumeAttachmentStrategy.validate_update(context, object, old))
        .preserving(SPEC_AND_METADATA);

fn validate_source(errors: &mut Errors, source: &Value, path: &FieldPath<'_>) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source.get("inlineVolumeSpec"), source.get("persistentVolumeName")) {
        (None, None) => errors.required(path, ONE),
        (Some(_), Some(_)) => errors.forbidden(path, ONE),
        (None, Some(name)) if name.is_empty() => {
            errors.required(&path.child("persistentVolumeName"), "must specify non empty persistentVolumeName");
        }
        (None, Some(_)) => {}
        (Some(spec), None) => validate_inline_volume_spec(errors, spec, &path.child("inlineVolumeSpec")),
    }
}

/// Validates a status. `shown_limit` is the limit in errors about messages. Before 1.37, it was the limit for metadata.
fn validate_status(errors: &mut Errors, status: &Value, shown_limit: usize) {
    let path = FieldPath::new("status");
    let metadata = status.entries_at(&["attachmentMetadata"]);
    let size: usize = metadata.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_METADATA_BYTES {
        errors.push(FieldError::too_long(&path.child("attachmentMetadata"), MAX_METADATA_BYTES));
    }
    for field in ["attachError", "detachError"] {
        let Some(error) = status.get(field) else { continue };
        let path = path.child(field);
        if error.str_at(&["message"]).len() > MAX_MESSAGE_BYTES {
            errors.push(FieldError::too_long(&path.child("message"), shown_limit));
        }
        if let Some(code) = error.int_at(&["errorCode"]).filter(|code| *code < 0) {
            errors.invalid(&path.child("errorCode"), code, names::range_text(0, i64::from(i32::MAX)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, context_of, messages, object};

    #[test]
    fn attachments() {
        let check = |new: &str, old: Option<&str>, expect: &[&str]| {
            let new = object(new);
            let errors = match old {
                Some(old) => Strategy::validate_update(&VolumeAttachmentStrategy, &context(), &new, &object(old)),
                None => VolumeAttachmentStrategy.validate(&context(), &new),
            };
            assert_eq!(messages(&errors), expect);
        };
        let good = r#"{"spec":{"attacher":"d.example.com","nodeName":"n","source":{"persistentVolumeName":"v"}}}"#;
        check(good, None, &[]);
        check(good, Some(good), &[]);
        check(
            r#"{"spec":{"attacher":"","nodeName":"n","source":{}},"status":{"attachError":{"errorCode":-1}}}"#,
            None,
            &[
                "spec.attacher: Required value",
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
                "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ],
        );
        let mut new = object(r#"{"metadata":{"labels":{"a":"b"}},"spec":{},"status":{"attached":true}}"#);
        let status = VolumeAttachmentStrategy.subresource("status").expect("status");
        status.prepare_for_update(&context(), &mut new, &object(good));
        assert_eq!(new.at(&["spec"]), object(good).at(&["spec"]));
        assert_eq!(new.at(&["metadata", "labels"]), None);
        assert!(new.bool_at(&["status", "attached"]));
    }

    #[test]
    fn errors_about_long_messages_name_their_limit_since_1_37() {
        let message = "x".repeat(MAX_MESSAGE_BYTES + 1);
        let attachment = object(&format!(
            r#"{{"spec":{{"attacher":"d.example.com","nodeName":"n","source":{{"persistentVolumeName":"v"}}}},
            "status":{{"detachError":{{"message":"{message}"}}}}}}"#
        ));
        for (minor, limit) in [(36, 262_144), (37, 1024)] {
            let errors = VolumeAttachmentStrategy.validate(&context_of(minor, &[]), &attachment);
            let expect = format!("status.detachError.message: Too long: may not be more than {limit} bytes");
            assert_eq!(messages(&errors), [expect], "{minor}");
        }
    }
}
