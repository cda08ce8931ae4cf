//! Strategies of the group `apps`.

pub(crate) mod controllerrevision;
pub(crate) mod daemonset;
pub(crate) mod deployment;
pub(crate) mod int_or_percent;
pub(crate) mod replicaset;
mod selector_and_template;
pub(crate) mod statefulset;
mod statefulset_validation;
mod stored;
pub(crate) mod template;

#[cfg(test)]
pub(crate) mod tests {
    use pintle_registry::Strategy;

    use crate::testing::object;
    use pintle_value::Value;

    /// A valid pod template.
    pub(crate) const TEMPLATE: &str =
        r#"{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i:1","resources":{}}]}}"#;

    /// Returns a defaulted object with this spec, a template and a matching selector.
    pub(crate) fn workload(rules: &dyn Strategy, spec: &str) -> Value {
        let mut workload = object(&format!(r#"{{"metadata":{{"name":"w","namespace":"n"}},"spec":{spec}}}"#));
        let spec = workload.get_mut("spec").expect("spec");
        for (field, default) in [("template", TEMPLATE), ("selector", r#"{"matchLabels":{"app":"x"}}"#)] {
            if !spec.as_object().expect("object").contains_key(field) {
                spec.set(field, object(default));
            }
        }
        rules.defaults(&mut workload);
        workload
    }
}
