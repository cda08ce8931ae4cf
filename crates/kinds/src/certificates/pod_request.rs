//! The strategy for PodCertificateRequest, with which kubelets request certificates for pods (KEP-4317; upstream:
//! `pkg/registry/certificates/podcertificaterequest`, `pkg/apis/certificates/validation`). A request proves that the
//! kubelet has the private key. The proof is the signature of a PKCS#10 request, or a signature of the pod's uid beside
//! the public key.

use pintle_gates::Change;
use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::{Errors, FieldError, FieldPath, Value, names, same};
use pintle_x509::{Curve, PublicKey};

use super::pkcs10;
use super::pod_request_keys::{self as keys, PROOF, PUBLIC_KEY};
use super::pod_request_status::STATUS;
use crate::generic::reset_status;
use crate::go_json::{self, GoType};
use crate::validation::{invalid_each, is_kubernetes_signer, validate_signer_name, validate_user_annotations};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const MAX_UID: usize = 128;
/// The maximum size of keys, proofs and PKCS#10 requests, in bytes.
const MAX_KEY_MATERIAL: usize = 10 * 1024;

const STUB: &str = "stubPKCS10Request";
const BAD_KEY: &str = "must be a valid PKIX-serialized public key";
const BAD_PROOF: &str = "could not verify proof-of-possession signature";

/// The fields by which requests can be selected.
const SELECTABLE: [&str; 3] = ["spec.signerName", "spec.podName", "spec.nodeName"];

/// The spec as upstream prints it. Its internal type has the fields of v1beta1.
const SPEC: GoType = GoType::Of("certificates/v1beta1.PodCertificateRequestSpec");

/// The strategy for PodCertificateRequest.
#[derive(Clone, Copy)]
pub(crate) struct PodCertificateRequestStrategy {
    /// Whether annotations have the key and the proof, instead of fields.
    has_annotations: bool,
}

impl PodCertificateRequestStrategy {
    /// The strategy of version v1.
    pub(crate) const V1: Self = Self { has_annotations: true };
    /// The strategy of the versions with fields for the key and the proof.
    pub(crate) const V1BETA1: Self = Self { has_annotations: false };

    /// The spec with the fields of v1beta1.
    fn internal_spec(self, object: &Value) -> Value {
        if !self.has_annotations {
            return object["spec"].clone();
        }
        let mut object = object.clone();
        keys::move_to_fields(&mut object);
        object["spec"].clone()
    }
}

impl Strategy for PodCertificateRequestStrategy {
    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
        if self.has_annotations {
            keys::drop_malformed_annotations(object);
        }
    }

    fn convert_to_hub(&self, object: &mut Value) {
        keys::move_to_annotations(object);
    }

    fn convert_from_hub(&self, object: &mut Value) {
        keys::move_to_fields(object);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        let (spec, path) = (&self.internal_spec(object), FieldPath::new("spec"));
        if let Some(old) = old {
            if !same(Some(spec), Some(&self.internal_spec(old))) {
                errors.push(go_json::invalid(&path, spec, &SPEC, IMMUTABLE_TEXT));
            }
            return errors;
        }
        validate_identity(&mut errors, spec, &path);
        if validate_lifetime(&mut errors, spec, &path) {
            validate_key(context, &mut errors, spec, &path);
        }
        errors
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        &SELECTABLE
    }

    fn indexed_field(&self) -> Option<&'static str> {
        Some("spec.nodeName")
    }

    fn is_selectable_by_namespace(&self) -> bool {
        !self.has_annotations
    }
}

/// Validates the requester of a certificate, the signer, and the pod.
fn validate_identity(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    validate_signer_name(errors, spec.str_at(&["signerName"]), &path.child("signerName"));
    validate_user_annotations(errors, &spec["unverifiedUserAnnotations"], &path.child("unverifiedUserAnnotations"));
    for (name, uid) in [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")] {
        let text = spec.str_at(&[name]);
        invalid_each(errors, &path.child(name), text, names::dns1123_subdomain_name(text, false));
        let (text, path) = (spec.str_at(&[uid]), path.child(uid));
        if text.is_empty() {
            errors.invalid(&path, text, "must not be empty");
        }
        if text.len() > MAX_UID {
            errors.push(FieldError::too_long(&path, MAX_UID));
        }
    }
}

/// Validates the lifetime of the certificate. Returns false if nothing else is to be validated.
fn validate_lifetime(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) -> bool {
    let path = path.child("maxExpirationSeconds");
    let Some(seconds) = spec.int_at(&["maxExpirationSeconds"]) else {
        errors.required(&path, "must be set");
        return false;
    };
    let most = if is_kubernetes_signer(spec.str_at(&["signerName"])) { DAY } else { 91 * DAY };
    if !(HOUR..=most).contains(&seconds) {
        errors.invalid(&path, seconds, format!("must be in the range [{HOUR}, {most}]"));
    }
    true
}

/// The bytes of a field of the spec.
fn bytes(spec: &Value, field: &str) -> Vec<u8> {
    keys::bytes_of(spec.str_at(&[field]))
}

/// Validates the public key and the proof that the kubelet has the private key. The spec must have both in exactly one
/// of two forms; before the versions with PKCS#10 requests there is one form.
fn validate_key(context: &StrategyContext, errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let [stub, key, proof] = [STUB, PUBLIC_KEY, PROOF].map(|field| bytes(spec, field));
    for (field, bytes) in [(STUB, &stub), (PUBLIC_KEY, &key), (PROOF, &proof)] {
        if bytes.len() > MAX_KEY_MATERIAL {
            errors.push(FieldError::too_long(&path.child(field), MAX_KEY_MATERIAL));
            return;
        }
    }
    if !context.gates.has(Change::POD_CERTIFICATE_REQUEST_STUBS) {
        return validate_proof(errors, spec, &key, &proof, path);
    }
    match (stub.is_empty(), key.is_empty() && proof.is_empty()) {
        (false, true) => validate_stub(errors, &stub, spec.str_at(&[STUB]), &path.child(STUB)),
        (true, false) => validate_proof(errors, spec, &key, &proof, path),
        _ => {
            let detail = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
            errors.push(FieldError::invalid(path, Value::Null, detail).without_value());
        }
    }
}

/// Validates a PKCS#10 request, which is signed by the private key.
fn validate_stub(errors: &mut Errors, stub: &[u8], shown: &str, path: &FieldPath<'_>) {
    match pkcs10::public_key(stub) {
        None => errors.invalid(path, shown, "must be a valid PKCS#10 CSR"),
        Some(key) => {
            if validate_key_type(errors, &key, shown, path) && pkcs10::check(stub).is_err() {
                errors.push(FieldError::invalid(path, Value::Null, BAD_PROOF).without_value());
            }
        }
    }
}

/// Validates a public key, and the signature of the pod's uid by its private key.
fn validate_proof(errors: &mut Errors, spec: &Value, key: &[u8], proof: &[u8], path: &FieldPath<'_>) {
    let (shown, key_path) = (spec.str_at(&[PUBLIC_KEY]), path.child(PUBLIC_KEY));
    let Some(key) = PublicKey::parse(key) else {
        errors.invalid(&key_path, shown, BAD_KEY);
        return;
    };
    let uid = spec.str_at(&["podUID"]).as_bytes();
    if validate_key_type(errors, &key, shown, &key_path) && !key.has_signed(uid, proof) {
        errors.push(FieldError::invalid(&path.child(PROOF), Value::Null, BAD_PROOF).without_value());
    }
}

/// Refuses keys that signers need not know. Returns true if the key is not one of them.
fn validate_key_type(errors: &mut Errors, key: &PublicKey, shown: &str, path: &FieldPath<'_>) -> bool {
    let (shown, detail) = match key {
        PublicKey::Ed25519(_) => return true,
        PublicKey::Ecdsa(key) if key.curve() != Curve::P224 => return true,
        PublicKey::Ecdsa(key) => {
            (format!("curve {}", key.curve().name()), "elliptic public keys must use curve P256 or P384")
        }
        PublicKey::Rsa(key) if matches!(key.bits(), 3072 | 4096) => return true,
        PublicKey::Rsa(key) => (format!("{}-bit modulus", key.bits()), "RSA keys must have modulus size 3072 or 4096"),
        PublicKey::Other => (shown.to_owned(), "unknown public key type; supported types are Ed25519, ECDSA, and RSA"),
    };
    errors.invalid(path, shown, detail);
    false
}

/// The public key for which a stored request wants a certificate.
pub(super) fn requested_key(object: &Value) -> Result<PublicKey, FieldError> {
    let (spec, path) = (&object["spec"], FieldPath::new("spec"));
    let stub = bytes(spec, STUB);
    if stub.is_empty() {
        let text = keys::value(object, PUBLIC_KEY);
        let key = PublicKey::parse(&keys::bytes_of(text));
        return key.ok_or_else(|| FieldError::invalid(&path.child(PUBLIC_KEY), text, BAD_KEY));
    }
    let key = pkcs10::public_key(&stub);
    key.ok_or_else(|| FieldError::invalid(&path.child(STUB), spec.str_at(&[STUB]), "must be a valid PKCS#10 CSR"))
}

#[cfg(test)]
mod tests {
    use pintle_schema::base64;

    use super::*;
    use crate::testing::{context, context_in, messages, object};
    use pintle_versions::Minor;

    /// A key, a proof for the pod uid `pod-uid-1` and a PKCS#10 request that Go created, in base64.
    pub(crate) fn go_key(name: &str) -> [&'static str; 3] {
        let line = include_str!("../../../x509/src/keys/pod_keys.txt")
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let parts: Vec<_> = line.expect("a key").split(' ').collect();
        parts.try_into().expect("three parts")
    }

    fn request() -> Value {
        object(
            r#"{"spec":{"signerName":"foo.com/abc","podName":"pod-1","podUID":"pod-uid-1","serviceAccountName":"sa-1",
                "serviceAccountUID":"sa-uid-1","nodeName":"node-1","nodeUID":"node-uid-1","maxExpirationSeconds":86400}}"#,
        )
    }

    fn with_proof(key: &str, proof: &str) -> Value {
        let mut request = request();
        request.set_at(&["spec", PUBLIC_KEY], key);
        request.set_at(&["spec", PROOF], proof);
        request
    }

    fn with_stub(stub: &str) -> Value {
        let mut request = request();
        request.set_at(&["spec", STUB], stub);
        request
    }

    #[track_caller]
    fn check(request: &Value, expect: &[&str]) {
        assert_eq!(messages(&PodCertificateRequestStrategy::V1BETA1.validate(&context(), request)), expect);
    }

    #[test]
    fn kubelets_prove_that_they_have_the_private_key() {
        for name in ["ed25519", "p256", "p384", "p521", "rsa3072", "rsa3072-short-salt", "rsa4096"] {
            let [key, proof, stub] = go_key(name);
            check(&with_proof(key, proof), &[]);
            check(&with_stub(stub), &[]);
            let mut other_pod = with_proof(key, proof);
            other_pod.set_at(&["spec", "podUID"], "other-value");
            check(
                &other_pod,
                &["spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature"],
            );
            let mut forged = base64::decode(stub.as_bytes()).expect("base64");
            *forged.last_mut().expect("a byte") ^= 1;
            check(
                &with_stub(&base64::encode(&forged)),
                &["spec.stubPKCS10Request: Invalid value: could not verify proof-of-possession signature"],
            );
        }
        let [key, _, _] = go_key("ed25519");
        check(
            &with_proof(key, go_key("p256")[1]),
            &["spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature"],
        );
    }

    #[test]
    fn signers_need_not_know_other_keys() {
        for (name, expect) in [
            ("p224", r#""curve P-224": elliptic public keys must use curve P256 or P384"#),
            ("rsa2048", r#""2048-bit modulus": RSA keys must have modulus size 3072 or 4096"#),
        ] {
            let [key, proof, stub] = go_key(name);
            check(&with_proof(key, proof), &[&format!("spec.pkixPublicKey: Invalid value: {expect}")]);
            check(&with_stub(stub), &[&format!("spec.stubPKCS10Request: Invalid value: {expect}")]);
        }
        let x25519 = [&[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x03, 0x21, 0x00][..], &[9; 32]].concat();
        let x25519 = base64::encode(&x25519);
        check(
            &with_proof(&x25519, "YQ=="),
            &[&format!(
                "spec.pkixPublicKey: Invalid value: \"{x25519}\": unknown public key type; supported types are Ed25519, \
                 ECDSA, and RSA"
            )],
        );
        check(
            &with_proof("YQ==", "YQ=="),
            &["spec.pkixPublicKey: Invalid value: \"YQ==\": must be a valid PKIX-serialized public key"],
        );
        check(&with_stub("YQ=="), &["spec.stubPKCS10Request: Invalid value: \"YQ==\": must be a valid PKCS#10 CSR"]);
    }

    #[test]
    fn there_is_one_key_of_limited_size() {
        let [key, proof, stub] = go_key("p256");
        let one =
            "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
        check(&request(), &[one]);
        let mut both = with_proof(key, proof);
        both.set_at(&["spec", STUB], stub);
        check(&both, &[one]);
        let long = base64::encode(&vec![0; MAX_KEY_MATERIAL + 1]);
        let too_long = |field: &str| format!("spec.{field}: Too long: may not be more than 10240 bytes");
        check(&with_proof(&long, proof), &[&too_long(PUBLIC_KEY)]);
        check(&with_proof(key, &long), &[&too_long(PROOF)]);
        check(&with_stub(&long), &[&too_long(STUB)]);
    }

    #[test]
    fn older_versions_have_a_public_key_with_a_proof() {
        let [key, proof, _] = go_key("p256");
        let check = |request: &Value, expect: &[&str]| {
            let context = context_in(Minor::new(35));
            assert_eq!(messages(&PodCertificateRequestStrategy::V1BETA1.validate(&context, request)), expect);
        };
        check(&with_proof(key, proof), &[]);
        check(&request(), &["spec.pkixPublicKey: Invalid value: \"\": must be a valid PKIX-serialized public key"]);
    }

    #[test]
    fn identities_are_complete() {
        let mut empty = with_stub(go_key("p256")[2]);
        let long = "x".repeat(MAX_UID + 1);
        for field in ["signerName", "podName", "podUID", "serviceAccountName", "nodeName", "nodeUID"] {
            empty.set_at(&["spec", field], "");
        }
        empty.set_at(&["spec", "serviceAccountUID"], long.as_str());
        empty.set_at(&["spec", "unverifiedUserAnnotations"], object(r#"{"Example.com/A":"b","c":"d"}"#));
        let name = format!("Invalid value: \"\": {}", names::dns1123_subdomain_name("", false)[0]);
        check(
            &empty,
            &[
                "spec.signerName: Required value",
                "spec.unverifiedUserAnnotations: Invalid value: \"c\": must be a domain-prefixed key (such as \"acme.io/foo\")",
                &format!("spec.podName: {name}"),
                "spec.podUID: Invalid value: \"\": must not be empty",
                &format!("spec.serviceAccountName: {name}"),
                "spec.serviceAccountUID: Too long: may not be more than 128 bytes",
                &format!("spec.nodeName: {name}"),
                "spec.nodeUID: Invalid value: \"\": must not be empty",
            ],
        );
    }

    #[test]
    fn lifetimes_depend_on_the_signer() {
        let check = |signer: &str, seconds: Option<i64>, expect: &[&str]| {
            let mut request = with_stub(go_key("p256")[2]);
            request.set_at(&["spec", "signerName"], signer);
            match seconds {
                Some(seconds) => request.set_at(&["spec", "maxExpirationSeconds"], seconds),
                None => drop(request.remove_at(&["spec", "maxExpirationSeconds"])),
            }
            check(&request, expect);
        };
        let range = |seconds: i64, most: i64| {
            format!("spec.maxExpirationSeconds: Invalid value: {seconds}: must be in the range [3600, {most}]")
        };
        check("foo.com/abc", Some(91 * DAY), &[]);
        check("foo.com/abc", Some(91 * DAY + 1), &[&range(7_862_401, 7_862_400)]);
        check("foo.com/abc", Some(3599), &[&range(3599, 7_862_400)]);
        for signer in ["kubernetes.io/abc", "sub.kubernetes.io/abc"] {
            check(signer, Some(DAY), &[]);
            check(signer, Some(DAY + 1), &[&range(86_401, 86_400)]);
        }
        check("not-kubernetes.io/abc", Some(DAY + 1), &[]);
        check("foo.com/abc", None, &["spec.maxExpirationSeconds: Required value: must be set"]);
    }

    #[test]
    fn the_spec_is_immutable_and_the_status_has_an_endpoint_of_its_own() {
        let strategy = PodCertificateRequestStrategy::V1BETA1;
        let old = with_stub("YQ==");
        let mut new = old.clone();
        new.set("status", object(r#"{"certificateChain":"x"}"#));
        strategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new, old);
        assert_eq!(messages(&strategy.validate_update(&context(), &new, &old)), [""; 0]);
        new.set_at(&["spec", "nodeName"], "other");
        assert_eq!(
            messages(&strategy.validate_update(&context(), &new, &old)),
            [concat!(
                r#"spec: Invalid value: {"SignerName":"foo.com/abc","PodName":"pod-1","PodUID":"pod-uid-1","#,
                r#""ServiceAccountName":"sa-1","ServiceAccountUID":"sa-uid-1","NodeName":"other","NodeUID":"node-uid-1","#,
                r#""MaxExpirationSeconds":86400,"PKIXPublicKey":null,"ProofOfPossession":null,"StubPKCS10Request":"YQ==","#,
                r#""UnverifiedUserAnnotations":null}: field is immutable"#,
            )]
        );
        new.set("status", object(r#"{"certificateChain":"x"}"#));
        strategy.prepare_for_create(&context(), &mut new);
        assert_eq!(new["status"], Value::object());
    }

    #[test]
    fn the_keys_of_v1_are_annotations() {
        let [key, proof, _] = go_key("p256");
        let old = with_proof(key, proof);
        let mut request = old.clone();
        PodCertificateRequestStrategy::V1BETA1.convert_to_hub(&mut request);
        assert!(request["spec"].get(PUBLIC_KEY).is_none());
        let strategy = PodCertificateRequestStrategy::V1;
        assert_eq!(messages(&strategy.validate(&context(), &request)), [""; 0]);
        assert!(requested_key(&request).is_ok() && requested_key(&old).is_ok());
        // A client of v1 that drops the annotations changes the spec.
        let mut without = request.clone();
        without.remove_at(&["metadata", "annotations"]);
        let errors = messages(&strategy.validate_update(&context(), &without, &request));
        assert!(errors.len() == 1 && errors[0].ends_with(": field is immutable"), "{errors:?}");
        let mut labelled = request.clone();
        labelled.annotate("a", "b");
        assert_eq!(messages(&strategy.validate_update(&context(), &labelled, &request)), [""; 0]);
        let mut converted = request;
        PodCertificateRequestStrategy::V1BETA1.convert_from_hub(&mut converted);
        assert!(same(converted.get("spec"), old.get("spec")));
        // Versions with fields ignore the annotations.
        let mut empty = self::request();
        empty.annotate("certificates.k8s.io/initial-pkix-public-key", key);
        assert_eq!(messages(&PodCertificateRequestStrategy::V1BETA1.validate(&context(), &empty)).len(), 1);
    }

    #[test]
    fn requests_are_selected_by_signer_pod_and_node() {
        let fields = PodCertificateRequestStrategy::V1BETA1.selectable_fields(&request());
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(
            fields,
            [("spec.signerName", "foo.com/abc"), ("spec.podName", "pod-1"), ("spec.nodeName", "node-1")]
        );
    }
}
