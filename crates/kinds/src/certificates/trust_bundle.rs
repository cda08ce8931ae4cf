//! The strategy for ClusterTrustBundle (KEP-3257; upstream: `pkg/apis/certificates/validation`,
//! `pkg/registry/certificates/clustertrustbundle`).

use std::collections::HashMap;

use pintle_gates::Gates;
use pintle_registry::{Strategy, StrategyContext};
use pintle_value::{Errors, FieldError, FieldPath, Value, names};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::generic::{same_at, validate_immutable_at};
use crate::pem;
use crate::validation::validate_signer_name;

const MAX_BUNDLE: usize = 1024 * 1024;
const SIGNER: [&str; 2] = ["spec", "signerName"];
const BUNDLE: [&str; 2] = ["spec", "trustBundle"];
const SIGNER_FIELD: &str = "spec.signerName";

/// The strategy for ClusterTrustBundle.
pub(crate) struct ClusterTrustBundleStrategy;

impl Strategy for ClusterTrustBundleStrategy {
    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = validate_signer(object);
        // A stored bundle stays valid when the parser changes.
        if old.is_none_or(|old| !same_at(object, old, &BUNDLE)) {
            validate_bundle(&mut errors, object.str_at(&BUNDLE));
        }
        validate_immutable_at(&mut errors, object, old, &SIGNER);
        errors
    }

    fn validate_object_name(&self, _: &Gates, object: &Value, name: &str, prefix: bool) -> Vec<String> {
        let signer = object.str_at(&SIGNER);
        if signer.is_empty() {
            if name.contains(':') {
                return vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()];
            }
            return names::dns1123_subdomain_name(name, prefix);
        }
        let required = format!("{}:", signer.replace('/', ":"));
        match name.strip_prefix(&required) {
            Some(own) => names::dns1123_subdomain_name(own, prefix),
            None => {
                vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {required}")]
            }
        }
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        &[SIGNER_FIELD]
    }

    fn is_selectable_by_namespace(&self) -> bool {
        false
    }
}

fn validate_signer(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let signer = object.str_at(&SIGNER);
    if !signer.is_empty() {
        validate_signer_name(&mut errors, signer, &FieldPath::new(SIGNER_FIELD));
    }
    errors
}

/// Requires PEM blocks of different certificates of authorities, without headers.
fn validate_bundle(errors: &mut Errors, text: &str) {
    let path = FieldPath::new("spec.trustBundle");
    if text.len() > MAX_BUNDLE {
        errors.push(FieldError::too_long(&path, MAX_BUNDLE));
        return;
    }
    let before = errors.count();
    let mut reject = |problem: String| errors.invalid(&path, "<value omitted>", problem);
    let mut anchors: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
    for (i, block) in pem::blocks(text).enumerate() {
        if block.kind != "CERTIFICATE" {
            reject(format!("entry {i} has bad block type: {}", block.kind));
        } else if block.headers {
            reject(format!("entry {i} has PEM block headers"));
        } else {
            match is_authority(&block.bytes) {
                None => reject(format!("entry {i} does not parse as X.509")),
                Some(false) => reject(format!("entry {i} does not have the CA bit set")),
                Some(true) => {
                    let anchor = *known.entry(block.bytes).or_insert_with(|| {
                        anchors.push(Vec::new());
                        anchors.len() - 1
                    });
                    anchors[anchor].push(i);
                }
            }
        }
    }
    if errors.count() > before {
        return;
    }
    let mut reject = |problem: String| errors.invalid(&path, "<value omitted>", problem);
    if anchors.is_empty() {
        reject("at least one trust anchor must be provided".to_owned());
    }
    for indices in anchors.iter().filter(|indices| indices.len() > 1) {
        let indices: Vec<String> = indices.iter().map(ToString::to_string).collect();
        reject(format!("duplicate trust anchor (indices [{}])", indices.join(" ")));
    }
}

/// Whether a certificate belongs to an authority. `None` if it cannot be parsed.
fn is_authority(der: &[u8]) -> Option<bool> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    let constraints = certificate.basic_constraints().ok()?;
    rest.is_empty().then(|| constraints.is_some_and(|constraints| constraints.value.ca))
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;
    use crate::testing::{context, messages};

    fn certificate(is_ca: IsCa) -> String {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = is_ca;
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").pem()
    }

    fn bundle(signer: &str, text: &str) -> Value {
        pintle_value::object! { "spec": pintle_value::object! { "signerName": signer, "trustBundle": text } }
    }

    #[test]
    fn bundles_have_certificates_of_authorities() {
        let authority = || certificate(IsCa::Ca(BasicConstraints::Unconstrained));
        let (one, other) = (authority(), authority());
        let check = |text: &str, expect: &[&str]| {
            let expect: Vec<String> =
                expect.iter().map(|e| format!("spec.trustBundle: Invalid value: \"<value omitted>\": {e}")).collect();
            assert_eq!(messages(&ClusterTrustBundleStrategy.validate(&context(), &bundle("", text))), expect, "{text}");
        };
        check(&format!("text\n{one}\n{other}"), &[]);
        check("", &["at least one trust anchor must be provided"]);
        check(&format!("{one}{other}{one}"), &["duplicate trust anchor (indices [0 2])"]);
        let headers = one.replacen("-----\n", "-----\na: b\n\n", 1);
        let key = one.replace("CERTIFICATE", "PRIVATE KEY");
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let leaf = certificate(IsCa::NoCa);
        check(
            &format!("{headers}{key}{broken}{leaf}{one}{one}"),
            &[
                "entry 0 has PEM block headers",
                "entry 1 has bad block type: PRIVATE KEY",
                "entry 2 does not parse as X.509",
                "entry 3 does not have the CA bit set",
            ],
        );
        let long = bundle("", &"x".repeat(MAX_BUNDLE + 1));
        assert_eq!(
            messages(&ClusterTrustBundleStrategy.validate(&context(), &long)),
            ["spec.trustBundle: Too long: may not be more than 1048576 bytes"]
        );
    }

    #[test]
    fn names_begin_with_the_signer() {
        let check = |signer: &str, name: &str, expect: &[&str]| {
            assert_eq!(
                ClusterTrustBundleStrategy.validate_object_name(&Gates::default(), &bundle(signer, ""), name, false),
                expect
            );
        };
        check("", "a.b", &[]);
        check("", "a:b", &["ClusterTrustBundle without signer name must not have \":\" in its name"]);
        check("example.com/s", "example.com:s:a", &[]);
        check(
            "example.com/s",
            "a",
            &["ClusterTrustBundle for signerName example.com/s must be named with prefix example.com:s:"],
        );
    }

    #[test]
    fn the_signer_is_immutable_and_unchanged_bundles_are_not_parsed() {
        let (old, same) = (bundle("example.com/a", "x"), bundle("example.com/a", "x"));
        assert!(ClusterTrustBundleStrategy.validate_update(&context(), &same, &old).is_empty());
        let other = bundle("example.com/b", "x");
        assert_eq!(
            messages(&ClusterTrustBundleStrategy.validate_update(&context(), &other, &old)),
            ["spec.signerName: Invalid value: \"example.com/b\": field is immutable"]
        );
        let malformed = bundle("a", "x");
        let errors = messages(&ClusterTrustBundleStrategy.validate(&context(), &malformed));
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        assert_eq!(errors[0], format!("spec.signerName: Invalid value: \"a\": {detail}"));
    }
}
