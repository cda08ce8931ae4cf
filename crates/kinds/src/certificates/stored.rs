//! Version v1beta1 of CertificateSigningRequest, which is stored, but not served any more. A request that names no
//! signer gets one by its contents (upstream: `pkg/apis/certificates/v1beta1`).

use pintle_registry::UnservedVersion;
use pintle_value::Value;

use super::pkcs10;
use super::signing_request::{LEGACY_SIGNER, request_der};
use crate::validation::strings_at;

const DEFAULT_USAGES: [&str; 2] = ["digital signature", "key encipherment"];
const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";

pub(super) const V1BETA1: UnservedVersion = UnservedVersion::read("certificates.k8s.io/v1beta1", |request| {
    if let Some(spec) = request.get_mut("spec") {
        spec.set_default("usages", DEFAULT_USAGES.map(Value::from).to_vec());
        if spec.get("signerName").is_none_or(Value::is_null) {
            let signer = kubelet_signer(spec).unwrap_or(LEGACY_SIGNER);
            spec.set("signerName", signer);
        }
    }
    let conditions = request.at_mut(&["status", "conditions"]).and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if condition.str_at(&["status"]).is_empty() {
            condition.set("status", "True");
        }
    }
});

/// The signer of a certificate for a kubelet, if the request is for one.
fn kubelet_signer(spec: &Value) -> Option<&'static str> {
    let der = request_der(spec.str_at(&["request"])).ok()?;
    let (subject, names) = (pkcs10::subject(&der).ok()?, pkcs10::alternative_names(&der).ok()?);
    if subject.organizations != [NODES] || !subject.common_name.starts_with(NODE_PREFIX) || names.others {
        return None;
    }
    let usages = strings_at(spec, &["usages"]);
    let has = |usage: &str| {
        let allowed = |used: &&str| [usage, DEFAULT_USAGES[0], DEFAULT_USAGES[1]].contains(used);
        usages.iter().all(allowed) && usages.contains(&usage) && usages.contains(&DEFAULT_USAGES[0])
    };
    match names.hosts {
        false if has("client auth") => Some("kubernetes.io/kube-apiserver-client-kubelet"),
        true if has("server auth") => Some("kubernetes.io/kubelet-serving"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::object;

    /// Requests in base64 that Go created, with other subjects and alternative names.
    const GO_REQUESTS: &str = include_str!("kubelet_requests.txt");

    /// The request after it is read, with these usages.
    fn read(request: &str, usages: &[&str]) -> Value {
        let line = GO_REQUESTS.lines().find_map(|line| line.strip_prefix(request)?.strip_prefix(' '));
        let mut object = object! { "spec": object! { "request": line.unwrap_or(request) } };
        if !usages.is_empty() {
            object.set_at(&["spec", "usages"], usages.iter().map(|usage| Value::from(*usage)).collect::<Vec<_>>());
        }
        (V1BETA1.to_served)(&mut object);
        object
    }

    #[test]
    fn signers_follow_from_requests() {
        let (client, serving) = ("kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving");
        let [signature, encipherment] = DEFAULT_USAGES;
        for (request, usages, expect) in [
            ("client", &[signature, encipherment, "client auth"][..], client),
            ("client", &["client auth", signature], client),
            ("client", &[signature, encipherment, "server auth"], LEGACY_SIGNER),
            ("client", &[signature, encipherment, "client auth", "server auth"], LEGACY_SIGNER),
            ("client", &[encipherment, "client auth"], LEGACY_SIGNER),
            ("client", &[], LEGACY_SIGNER),
            ("serving", &[signature, encipherment, "server auth"], serving),
            ("serving", &[signature, "server auth"], serving),
            ("serving", &[signature, "client auth"], LEGACY_SIGNER),
            ("address", &[signature, "server auth"], serving),
            ("mail", &[signature, "server auth"], LEGACY_SIGNER),
            ("uri", &[signature, "client auth"], LEGACY_SIGNER),
            ("user", &[signature, "client auth"], LEGACY_SIGNER),
            ("others", &[signature, "client auth"], LEGACY_SIGNER),
            ("bm90IFBFTQ==", &[signature, "client auth"], LEGACY_SIGNER),
            ("", &[signature, "client auth"], LEGACY_SIGNER),
        ] {
            let found = read(request, usages);
            assert_eq!(found.str_at(&["spec", "signerName"]), expect, "{request} {usages:?}");
        }
        assert_eq!(strings_at(&read("client", &[])["spec"], &["usages"]), DEFAULT_USAGES);
    }

    #[test]
    fn what_is_set_stays() {
        let status = |status: &str| object! { "type": "Approved", "status": status };
        let mut request = object! {
            "spec": object! { "signerName": "a.b/c", "usages": vec![Value::from("any")] },
            "status": object! { "conditions": vec![status(""), status("False")] },
        };
        (V1BETA1.to_served)(&mut request);
        let expect = object! {
            "spec": object! { "signerName": "a.b/c", "usages": vec![Value::from("any")] },
            "status": object! { "conditions": vec![status("True"), status("False")] },
        };
        assert_eq!(request, expect);
    }
}
