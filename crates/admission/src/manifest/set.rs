//! The requirements on the objects of a directory beside the rules of their kinds. Names are reserved and differ, and
//! references stay within the directory (upstream: `manifest/validation.go`, `webhook/manifest/loader`,
//! `policy/manifest/loader`).

use std::collections::HashMap;

use pintle_value::Value;
use pintle_value::print::quote;

use super::ManifestKinds;

/// The end of the names, which no stored object may have.
const SUFFIX: &str = ".static.k8s.io";

/// The objects of a directory.
#[derive(Debug)]
pub struct ManifestSet {
    kinds: &'static ManifestKinds,
    /// The files of the names, by kind.
    files: HashMap<(String, String), String>,
    objects: Vec<Value>,
}

impl ManifestSet {
    /// An empty set.
    #[must_use]
    pub fn new(kinds: &'static ManifestKinds) -> Self {
        Self { kinds, files: HashMap::new(), objects: Vec::new() }
    }

    /// Adds a valid object of a file.
    ///
    /// # Errors
    /// Returns upstream's message if the object may not be in a file.
    pub fn add(&mut self, file: &str, object: Value) -> Result<(), String> {
        let (name, quoted_file) = (object.name().to_owned(), quote(file));
        if name.is_empty() {
            return Err(format!("resource in file {quoted_file} must have a name"));
        }
        if !name.ends_with(SUFFIX) {
            let (name, suffix) = (quote(&name), quote(SUFFIX));
            return Err(format!("{name} in file {quoted_file} must have a name ending with {suffix}"));
        }
        let key = (object.kind().to_owned(), name.clone());
        if let Some(before) = self.files.insert(key, file.to_owned()) {
            let (name, before) = (quote(&name), quote(&before));
            return Err(format!("duplicate name {name} found in file {quoted_file} (previously seen in {before})"));
        }
        match self.kinds.kinds {
            [_] => check_webhooks(&object, &quoted_file)?,
            [policy, ..] if object.kind() == *policy => check_policy(&object)?,
            _ => check_binding(&object)?,
        }
        self.objects.push(object);
        Ok(())
    }

    /// The objects, sorted by name.
    ///
    /// # Errors
    /// A binding names a policy that is not in the set.
    pub fn finish(mut self) -> Result<Vec<Value>, String> {
        for binding in self.objects.iter().filter(|object| self.kinds.kinds.get(1) == Some(&object.kind())) {
            let policy = binding.str_at(&["spec", "policyName"]);
            let is_policy = |object: &Value| self.kinds.kinds.first() == Some(&object.kind());
            if !self.objects.iter().any(|object| is_policy(object) && object.name() == policy) {
                let (binding, policy) = (quote(binding.name()), quote(policy));
                return Err(format!(
                    "binding {binding} references policy {policy} which does not exist in the manifest directory"
                ));
            }
        }
        self.objects.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(self.objects)
    }
}

/// The webhooks of files are called by their URL: services may not exist yet.
fn check_webhooks(object: &Value, file: &str) -> Result<(), String> {
    for webhook in object.items_at(&["webhooks"]) {
        let client = &webhook["clientConfig"];
        let fails = |why: &str| {
            let (webhook, configuration) = (quote(webhook.str_at(&["name"])), quote(object.name()));
            Err(format!("webhook {webhook} in {configuration} (file {file}): {why}"))
        };
        if client.get("service").is_some_and(|service| !service.is_null()) {
            return fails("clientConfig.service is not supported for static manifests; use clientConfig.url instead");
        }
        if client.str_at(&["url"]).is_empty() {
            return fails("clientConfig.url is required for static manifests");
        }
    }
    Ok(())
}

fn check_policy(object: &Value) -> Result<(), String> {
    if object.at(&["spec", "paramKind"]).is_none_or(Value::is_null) {
        return Ok(());
    }
    let (kind, name) = (object.kind(), quote(object.name()));
    Err(format!("{kind} {name}: spec.paramKind is not supported for static manifests"))
}

fn check_binding(object: &Value) -> Result<(), String> {
    let (name, policy) = (quote(object.name()), object.str_at(&["spec", "policyName"]));
    if policy.is_empty() {
        return Err(format!("binding {name} must reference a policy (spec.policyName)"));
    }
    if !policy.ends_with(SUFFIX) {
        return Err(format!("binding {name}: spec.policyName {} must end with {}", quote(policy), quote(SUFFIX)));
    }
    if object.at(&["spec", "paramRef"]).is_some_and(|reference| !reference.is_null()) {
        return Err(format!("binding {name}: spec.paramRef is not supported for static manifests"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    static WEBHOOKS: ManifestKinds = ManifestKinds { what: "webhook", kinds: &["Webhooks"], scheme: "s" };
    static POLICIES: ManifestKinds = ManifestKinds { what: "policy", kinds: &["Policy", "Binding"], scheme: "s" };

    /// Adds objects of files `a`, `b` and so on. Returns the names in the end, or the first error.
    fn check(kinds: &'static ManifestKinds, objects: &[&str], expect: Result<&[&str], &str>) {
        let mut set = ManifestSet::new(kinds);
        let added = ('a'..).zip(objects).try_for_each(|(file, object)| set.add(&file.to_string(), json(object)));
        let names = added.and_then(|()| set.finish());
        let names = names.map(|objects| objects.iter().map(|object| object.name().to_owned()).collect::<Vec<_>>());
        let expect = expect.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(names, expect.map_err(str::to_owned), "{objects:?}");
    }

    #[test]
    fn names_are_reserved_and_differ() {
        let named = |name: &str| format!(r#"{{"kind":"Policy","metadata":{{"name":"{name}"}}}}"#);
        let [a, b] = ["a.static.k8s.io", "b.static.k8s.io"].map(named);
        check(&POLICIES, &[&b, &a], Ok(&["a.static.k8s.io", "b.static.k8s.io"]));
        check(&POLICIES, &[&named("")], Err("resource in file \"a\" must have a name"));
        check(
            &POLICIES,
            &[&named("a.k8s.io")],
            Err("\"a.k8s.io\" in file \"a\" must have a name ending with \".static.k8s.io\""),
        );
        let twice = "duplicate name \"a.static.k8s.io\" found in file \"b\" (previously seen in \"a\")";
        check(&POLICIES, &[&a, &a], Err(twice));
        let webhooks = r#"{"kind":"Webhooks","metadata":{"name":"a.static.k8s.io"}}"#;
        check(&WEBHOOKS, &[webhooks, webhooks], Err(twice));
    }

    #[test]
    fn webhooks_have_a_url() {
        let webhook = |client: &str| {
            format!(
                r#"{{"kind":"Webhooks","metadata":{{"name":"a.static.k8s.io"}},"webhooks":[{{"name":"w","clientConfig":{client}}}]}}"#
            )
        };
        check(&WEBHOOKS, &[&webhook(r#"{"url":"https://a"}"#)], Ok(&["a.static.k8s.io"]));
        check(
            &WEBHOOKS,
            &[&webhook(r#"{"service":{"name":"s"}}"#)],
            Err("webhook \"w\" in \"a.static.k8s.io\" (file \"a\"): clientConfig.service is not supported for static \
                 manifests; use clientConfig.url instead"),
        );
        check(
            &WEBHOOKS,
            &[&webhook("{}")],
            Err("webhook \"w\" in \"a.static.k8s.io\" (file \"a\"): clientConfig.url is required for static manifests"),
        );
    }

    #[test]
    fn policies_and_bindings_need_nothing_else() {
        let policy =
            |spec: &str| format!(r#"{{"kind":"Policy","metadata":{{"name":"p.static.k8s.io"}},"spec":{{{spec}}}}}"#);
        let binding =
            |spec: &str| format!(r#"{{"kind":"Binding","metadata":{{"name":"b.static.k8s.io"}},"spec":{{{spec}}}}}"#);
        let bound = binding(r#""policyName":"p.static.k8s.io""#);
        check(&POLICIES, &[&bound, &policy("")], Ok(&["b.static.k8s.io", "p.static.k8s.io"]));
        check(
            &POLICIES,
            &[&policy(r#""paramKind":{}"#)],
            Err("Policy \"p.static.k8s.io\": spec.paramKind is not supported for static manifests"),
        );
        check(
            &POLICIES,
            &[&bound],
            Err(
                "binding \"b.static.k8s.io\" references policy \"p.static.k8s.io\" which does not exist in the manifest \
                 directory",
            ),
        );
        for (spec, expect) in [
            ("", "binding \"b.static.k8s.io\" must reference a policy (spec.policyName)"),
            (
                r#""policyName":"p""#,
                "binding \"b.static.k8s.io\": spec.policyName \"p\" must end with \".static.k8s.io\"",
            ),
            (
                r#""policyName":"p.static.k8s.io","paramRef":{}"#,
                "binding \"b.static.k8s.io\": spec.paramRef is not supported for static manifests",
            ),
        ] {
            check(&POLICIES, &[&binding(spec)], Err(expect));
        }
    }
}
