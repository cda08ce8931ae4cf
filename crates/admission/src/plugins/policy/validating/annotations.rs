//! The audit annotations of one policy, of all its bindings (upstream: `auditAnnotationCollector`).

use pintle_value::Str;

use crate::AdmissionAttributes;

/// The maximum length of a value in bytes.
const MAX_VALUE: usize = 10 * 1024;

/// Values by key, without duplicates.
#[derive(Debug, Default)]
pub(super) struct AnnotationCollector(Vec<(Str, Vec<String>)>);

impl AnnotationCollector {
    /// Adds a value.
    pub(super) fn add(&mut self, key: &Str, mut value: String) {
        if value.len() > MAX_VALUE {
            value.truncate(value.floor_char_boundary(MAX_VALUE));
        }
        let at = self.0.iter().position(|(own, _)| own == key).unwrap_or_else(|| {
            self.0.push((key.clone(), Vec::new()));
            self.0.len() - 1
        });
        let values = &mut self.0[at].1;
        if !values.contains(&value) {
            values.push(value);
        }
    }

    /// Adds the annotations to the audit event. Several values of a key are joined.
    pub(super) fn publish(self, policy: &str, attributes: &AdmissionAttributes<'_>) {
        for (key, values) in self.0 {
            attributes.recorder.annotate(&format!("{policy}/{key}"), values.join(", "));
        }
    }
}
