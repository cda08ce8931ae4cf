//! Scenarios by upstream's cases.

use std::sync::Arc;

use pintle_auth::{AuthFuture, Authorization, AuthorizationAttributes, Authorizer, RulesReview, UserInfo};
use pintle_gates::Gates;
use pintle_value::Value;

use super::*;
use crate::AdmissionPlugin;
use crate::testing::{Scenario, json};

const SIGNING_REQUESTS: (&str, &str) = (GROUP, "certificatesigningrequests");

/// Allows a verb for the signers of these names.
struct Signers(&'static str, &'static [&'static str]);

impl Authorizer for Signers {
    fn authorize<'a>(
        &'a self,
        _: &'a UserInfo,
        attributes: &'a AuthorizationAttributes<'a>,
    ) -> AuthFuture<'a, Authorization> {
        let is_allowed = attributes.verb == self.0
            && (attributes.group, attributes.resource) == (GROUP, "signers")
            && self.1.contains(&attributes.name);
        let authorization = if is_allowed { Authorization::ALLOW } else { Authorization::NO_OPINION };
        AuthFuture::ready(authorization)
    }

    fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> AuthFuture<'a, RulesReview> {
        AuthFuture::ready(RulesReview::default())
    }
}

fn request(signer: &str, certificate: &str) -> Value {
    json(&format!(
        r#"{{"metadata":{{"name":"r"}},"spec":{{"signerName":"{signer}"}},"status":{{"certificate":"{certificate}"}}}}"#
    ))
}

#[track_caller]
fn check(scenario: &Scenario, plugin: &dyn AdmissionPlugin, object: &Value, expect: &str) {
    let found = scenario.validate(plugin, object).err().map(|error| error.to_string()).unwrap_or_default();
    let why = found.split_once("\"r\" is forbidden: ").map_or(&*found, |(_, why)| why);
    assert_eq!(why, expect);
}

#[test]
fn who_approves_or_signs_needs_the_permission_for_the_signer() {
    let update = |subresource, authorizer| Scenario {
        subresource,
        authorizer,
        old: Some(request("example.com/a", "")),
        ..Scenario::update(SIGNING_REQUESTS.0, SIGNING_REQUESTS.1)
    };
    let (signed, renamed) = (request("example.com/a", "x"), request("example.com/b", "x"));
    for (plugin, subresource, verb) in
        [(&CertificateApproval as &dyn AdmissionPlugin, "approval", "approve"), (&CertificateSigning, "status", "sign")]
    {
        let refused = format!("user not permitted to {verb} requests with signerName \"example.com/a\"");
        for (allowed, expect) in [
            (&["example.com/a"] as &[_], ""),
            (&["example.com/*"], ""),
            (&["example.com/b"], &*refused),
            (&["other.com/*"], &refused),
            (&[], &refused),
        ] {
            for object in [&signed, &renamed] {
                check(&update(subresource, Arc::new(Signers(verb, allowed))), plugin, object, expect);
            }
        }
        let other_verb = Arc::new(Signers("attest", &["example.com/a"]));
        check(&update(subresource, other_verb), plugin, &signed, &refused);
        let nobody = || Arc::new(Signers(verb, &[]));
        check(&update("", nobody()), plugin, &signed, "");
    }
    // Only a changed certificate or condition needs the permission.
    let mut unsigned = request("example.com/a", "");
    let nobody = update("status", Arc::new(Signers("sign", &[])));
    check(&nobody, &CertificateSigning, &unsigned, "");
    unsigned.set_at(&["status", "conditions"], json(r#"[{"type":"Failed","status":"True"}]"#));
    let refused = "user not permitted to sign requests with signerName \"example.com/a\"";
    check(&nobody, &CertificateSigning, &unsigned, refused);
}

#[test]
fn who_writes_the_bundle_of_a_signer_needs_the_permission_to_attest_for_it() {
    let (gates, _) = Gates::with_overrides(&[("ClusterTrustBundle".to_owned(), true)].into()).expect("a known feature");
    let plugin = ClusterTrustBundleAttest::new(&gates);
    let bundle = |signer: &str, text: &str, finalizers: &str| {
        json(&format!(
            r#"{{"metadata":{{"name":"r","finalizers":[{finalizers}]}},"spec":{{"signerName":"{signer}","trustBundle":"{text}"}}}}"#
        ))
    };
    let refused = "user not permitted to attest for signerName \"example.com/a\"";
    let new = bundle("example.com/a", "x", "");
    let create = |authorizer| Scenario { authorizer, ..Scenario::create(GROUP, "clustertrustbundles") };
    for (verb, allowed, expect) in [
        ("attest", &["example.com/a"] as &[_], ""),
        ("attest", &["example.com/*"], ""),
        ("attest", &["example.com/b"], refused),
        ("sign", &["example.com/a"], refused),
    ] {
        check(&create(Arc::new(Signers(verb, allowed))), &plugin, &new, expect);
    }
    let nobody = || Arc::new(Signers("attest", &[]));
    check(&create(nobody()), &plugin, &bundle("", "x", ""), "");
    check(&create(nobody()), &ClusterTrustBundleAttest::new(&Gates::default()), &new, "");
    // The garbage collector may change its fields.
    let update =
        |old| Scenario { authorizer: nobody(), old: Some(old), ..Scenario::update(GROUP, "clustertrustbundles") };
    check(&update(bundle("example.com/a", "x", r#""a.b/c""#)), &plugin, &new, "");
    check(&update(bundle("example.com/a", "y", "")), &plugin, &new, refused);
}

#[test]
fn nobody_requests_a_client_certificate_of_the_privileged_group() {
    let create = Scenario::create(SIGNING_REQUESTS.0, SIGNING_REQUESTS.1);
    let request = |signer: &str, groups: &[&str]| {
        let mut parameters = rcgen::CertificateParams::default();
        for group in groups {
            parameters.distinguished_name.push(rcgen::DnType::OrganizationName, *group);
        }
        let key = rcgen::KeyPair::generate().expect("a key");
        let text = parameters.serialize_request(&key).expect("a request").pem().expect("PEM");
        let text = pintle_schema::base64::encode(text.as_bytes());
        json(&format!(r#"{{"metadata":{{"name":"r"}},"spec":{{"signerName":"{signer}","request":"{text}"}}}}"#))
    };
    let client = "kubernetes.io/kube-apiserver-client";
    for (signer, groups, expect) in [
        (client, &["dev"] as &[_], ""),
        (client, &[], ""),
        (
            client,
            &["system:masters"],
            "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
        ),
        ("example.com/other", &["system:masters"], ""),
    ] {
        check(&create, &CertificateSubjectRestriction, &request(signer, groups), expect);
    }
    let broken = json(r#"{"metadata":{"name":"r"},"spec":{"signerName":"kubernetes.io/kube-apiserver-client"}}"#);
    let why = "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST";
    check(&create, &CertificateSubjectRestriction, &broken, why);
}
