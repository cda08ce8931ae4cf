//! Objects that every namespace has (upstream: `pkg/controller/serviceaccount`, `pkg/controller/certificates/
//! rootcacertpublisher`).

use pintle_registry::GroupResource;
use pintle_value::{Value, object};

use crate::reconciler::{DesiredObject, Diff, NamespaceScope, When};

/// Says what the certificates are for.
const DESCRIPTION: &str = "kubernetes.io/description";
/// Upstream's words.
const ABOUT_CERTIFICATES: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// The service account that pods run as which name none, and the certificates that the server is known by (`authority`, in
/// PEM).
#[must_use]
pub fn fixtures(authority: &str) -> Vec<DesiredObject> {
    let in_every_namespace = |resource: &str, object: Value, judge| DesiredObject {
        resource: GroupResource::new("", resource),
        namespace_scope: NamespaceScope::EveryNamespace,
        object,
        judge,
        when: When::Always,
        gives_way: true,
    };
    let account = object! { "metadata": object! { "name": "default" } };
    let mut certificates = object! {
        "metadata": object! { "name": "kube-root-ca.crt" },
        "data": object! { "ca.crt": authority },
    };
    certificates.set_at(&["metadata", "annotations", DESCRIPTION], ABOUT_CERTIFICATES);
    vec![
        in_every_namespace("serviceaccounts", account, |_, _| Diff::Right),
        in_every_namespace("configmaps", certificates, judge_certificates),
    ]
}

fn judge_certificates(found: &Value, wanted: &Value) -> Diff {
    let is_described = found.annotation(DESCRIPTION).is_some_and(|text| !text.is_empty());
    if is_described && found.at(&["data"]) == wanted.at(&["data"]) {
        return Diff::Right;
    }
    let mut mended = found.clone();
    mended.set("data", wanted["data"].clone());
    mended.set_at(&["metadata", "annotations", DESCRIPTION], ABOUT_CERTIFICATES);
    Diff::Update(mended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_right_or_put_right() {
        let kept = fixtures("PEM").pop().expect("certificates");
        let check = |spoil: &[&str], value: Value, expect: Option<&str>| {
            let mut found = kept.object.clone();
            found.set_at(&["metadata", "labels", "mine"], "kept");
            found.set_at(spoil, value);
            let expect = expect.map_or(Diff::Right, |about| {
                let mut mended = kept.object.clone();
                mended.set_at(&["metadata", "labels", "mine"], "kept");
                mended.set_at(&["metadata", "annotations", DESCRIPTION], about);
                Diff::Update(mended)
            });
            assert_eq!((kept.judge)(&found, &kept.object), expect, "{spoil:?}");
        };
        check(&["metadata", "labels", "mine"], "kept".into(), None);
        check(&["metadata", "annotations", DESCRIPTION], "other words".into(), None);
        check(&["metadata", "annotations", DESCRIPTION], "".into(), Some(ABOUT_CERTIFICATES));
        check(&["data", "ca.crt"], "another".into(), Some(ABOUT_CERTIFICATES));
        check(&["data", "more"], "another".into(), Some(ABOUT_CERTIFICATES));
        check(&["data"], Value::Null, Some(ABOUT_CERTIFICATES));
    }
}
