//! Scenarios by upstream's cases: a signer writes the status of a request.

use std::sync::Mutex;

use pintle_registry::{RequiredAccess, SubresourceStrategy};
use pintle_schema::base64;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use time::OffsetDateTime;

use super::*;
use crate::testing::{context, messages, object, run};

/// The time of the requests, which [`context`] has.
const NOW: i64 = 1_700_000_000;

/// A signer with a key of its own.
struct Signer(Issuer<'static, KeyPair>);

impl Signer {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(Issuer::new(params, KeyPair::generate().expect("a key")))
    }

    /// A certificate for a key. `from` is the start of its validity after [`NOW`], and `seconds` is the length, both in
    /// seconds.
    fn issue(&self, key: &KeyPair, names: Vec<SanType>, from: i64, seconds: i64) -> String {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.subject_alt_names = names;
        params.not_before = time(NOW + from);
        params.not_after = time(NOW + from + seconds);
        params.signed_by(key, &self.0).expect("a certificate").pem()
    }
}

fn time(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(seconds).expect("a time")
}

/// A request with a PKCS#10 request of a new key, and that key.
fn request() -> (Value, KeyPair) {
    let key = KeyPair::generate().expect("a key");
    let stub = CertificateParams::new(Vec::new()).expect("parameters").serialize_request(&key).expect("a request");
    let mut request = object(
        r#"{"metadata":{"name":"r"},"spec":{"signerName":"foo.com/abc","maxExpirationSeconds":86400},"status":{}}"#,
    );
    request.set_at(&["spec", "stubPKCS10Request"], base64::encode(stub.der()));
    (request, key)
}

/// The status of an issued certificate. `from` is the start of its validity after [`NOW`], and `seconds` is the length,
/// both in seconds.
fn issued(chain: &str, from: i64, seconds: i64) -> Value {
    let at = |seconds: i64| Time::from_seconds(NOW + seconds).rfc3339();
    pintle_value::object! {
        "conditions": vec![condition("Issued")],
        "certificateChain": chain,
        "notBefore": at(from), "notAfter": at(from + seconds), "beginRefreshAt": at(from + seconds / 2),
    }
}

fn condition(kind: &str) -> Value {
    object(&format!(
        r#"{{"type":"{kind}","status":"True","reason":"R","message":"","lastTransitionTime":"2023-11-14T22:13:20Z"}}"#
    ))
}

/// Compares the errors of a new status.
#[track_caller]
fn check(old: &Value, status: Value, expect: &[&str]) {
    let mut new = old.clone();
    new.set("status", status);
    assert_eq!(messages(&STATUS.validate_update(&context(), &new, old)), expect);
}

const DAY: i64 = 86_400;

#[test]
fn signers_issue_certificates_for_the_requested_key() {
    let (signer, (request, key)) = (Signer::new(), request());
    let chain = signer.issue(&key, Vec::new(), 0, DAY);
    check(&request, issued(&chain, 0, DAY), &[]);
    check(&request, issued(&format!("{chain}text\n{chain}"), 0, DAY), &[]);
    let with_chain = |chain: &str| issued(chain, 0, DAY);
    let check_chain = |chain: &str, detail: &str| {
        let shown = quote(chain);
        check(&request, with_chain(chain), &[&format!("status.certificateChain: Invalid value: {shown}: {detail}")]);
    };
    check_chain("", "issued certificate chain must contain at least one certificate");
    let other_block = chain.replace("CERTIFICATE", "PRIVATE KEY");
    check_chain(&other_block, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks");
    let behind = format!("{chain}{other_block}");
    check_chain(&behind, "issued certificate chain must consist entirely of CERTFICATE PEM blocks");
    let malformed = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    check_chain(malformed, "leaf certificate does not parse as valid X.509");
    check_chain(&format!("{chain}{malformed}"), "intermediate certificate does not parse as valid X.509");
    let other_key = signer.issue(&self::request().1, Vec::new(), 0, DAY);
    check_chain(&other_key, "leaf certificate was not issued to the requested public key");
    let long = format!("{chain}{}", " ".repeat(MAX_CHAIN));
    check(&request, with_chain(&long), &["status.certificateChain: Too long: may not be more than 102400 bytes"]);
}

#[test]
fn requests_with_a_public_key_get_certificates_too() {
    let (signer, (mut request, key)) = (Signer::new(), request());
    let chain = signer.issue(&key, Vec::new(), 0, DAY);
    let leaf = pem::blocks(&chain).next().expect("a block").bytes;
    let leaf = parse(&leaf).expect("a certificate");
    let spec = request.get_mut("spec").expect("a spec");
    spec.remove("stubPKCS10Request");
    spec.set("pkixPublicKey", base64::encode(leaf.public_key().raw));
    check(&request, issued(&chain, 0, DAY), &[]);
}

#[test]
fn alternative_names_are_those_of_hosts_and_mailboxes() {
    let (signer, (request, key)) = (Signer::new(), request());
    let check_name = |name: SanType, shown: &str, details: &[&str]| {
        let chain = signer.issue(&key, vec![name], 0, DAY);
        let error =
            |detail: &&str| format!("status.certificateChain: Invalid value: \"{shown}\": leaf certificate{detail}");
        let expect: Vec<String> = details.iter().map(error).collect();
        check(&request, issued(&chain, 0, DAY), &expect.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let host = |name: &str| SanType::DnsName(name.try_into().expect("a name"));
    let mailbox = |name: &str| SanType::Rfc822Name(name.try_into().expect("a name"));
    check_name(host("a.b"), "a.b", &[]);
    check_name(host(""), "", &[" should not contain empty DNSName"]);
    check_name(host("a..b"), "a..b", &["'s DNSName should not contain '..'"]);
    check_name(host(".a"), ".a", &["'s DNSName should not start or end with '.'"]);
    check_name(mailbox("a@b.c"), "", &[]);
    check_name(mailbox("a"), "a", &[" should not contain invalid EmailAddress"]);
}

#[test]
fn times_are_those_of_the_certificate() {
    let (signer, (request, key)) = (Signer::new(), request());
    let chain = |from: i64, seconds: i64| signer.issue(&key, Vec::new(), from, seconds);
    let check_time = |from: i64, seconds: i64, change: &dyn Fn(&mut Value), expect: &[&str]| {
        let mut status = issued(&chain(from, seconds), from, seconds);
        change(&mut status);
        check(&request, status, expect);
    };
    let set = |field: &'static str, seconds: i64| {
        move |status: &mut Value| status.set(field, Time::from_seconds(NOW + seconds).rfc3339())
    };
    check_time(299, DAY, &|_| {}, &[]);
    check_time(
        0,
        DAY,
        &|status| {
            for field in ["notBefore", "notAfter", "beginRefreshAt"] {
                status.remove(field);
            }
        },
        &[
            "status.notBefore: Required value: must be present and consistent with the issued certificate",
            "status.notAfter: Required value: must be present and consistent with the issued certificate",
            "status.beginRefreshAt: Required value: must be present and in the range [notbefore+10min, notafter-10min]",
        ],
    );
    let invalid = |field: &str, value: &str, detail: &str| format!("status.{field}: Invalid value: {value}: {detail}");
    let of_leaf = invalid(
        "notBefore",
        r#""2023-11-14T22:13:21Z""#,
        "must be set to the NotBefore time encoded in the leaf certificate",
    );
    check_time(0, DAY, &set("notBefore", 1), &[&of_leaf]);
    let far = "must be set to within 5 minutes of kube-apiserver's current time";
    check_time(300, DAY, &|_| {}, &[&invalid("notBefore", r#""2023-11-14T22:18:20Z""#, far)]);
    check_time(-300, DAY, &|_| {}, &[&invalid("notBefore", r#""2023-11-14T22:08:20Z""#, far)]);
    let of_leaf = invalid(
        "notAfter",
        r#""2023-11-14T22:13:21Z""#,
        "must be set to the NotAfter time encoded in the leaf certificate",
    );
    check_time(0, DAY, &set("notAfter", 1), &[&of_leaf]);
    let short = invalid("certificateChain", "3599000000000", "leaf certificate lifetime must be >= 1 hour");
    check_time(0, 3599, &|_| {}, &[&short]);
    let long = invalid(
        "certificateChain",
        "86401000000000",
        "leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)",
    );
    check_time(0, DAY + 1, &|_| {}, &[&long]);
    check_time(0, 3600, &set("beginRefreshAt", 600), &[]);
    let early =
        invalid("beginRefreshAt", r#""2023-11-14T22:23:19Z""#, "must be at least 10 minutes after status.notBefore");
    check_time(0, 3600, &set("beginRefreshAt", 599), &[&early]);
    check_time(0, 3600, &set("beginRefreshAt", 3000), &[]);
    let late =
        invalid("beginRefreshAt", r#""2023-11-14T23:03:21Z""#, "must be at least 10 minutes before status.notAfter");
    check_time(0, 3600, &set("beginRefreshAt", 3001), &[&late]);
}

#[test]
fn conditions_are_final() {
    let (request, _) = request();
    let denied = || pintle_value::object! { "conditions": vec![condition("Denied")] };
    for kind in ["Denied", "Failed"] {
        check(&request, pintle_value::object! { "conditions": vec![condition(kind)] }, &[]);
        let mut with_chain = pintle_value::object! { "conditions": vec![condition(kind)] };
        with_chain.set("certificateChain", "x");
        let not_empty = "status: Invalid value: non-condition status fields must be empty when denying or failing the \
                         PodCertificateRequest";
        check(&request, with_chain, &[not_empty]);
    }
    let mut old = request.clone();
    old.set("status", denied());
    check(&old, denied(), &[]);
    let immutable = "status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed";
    check(&old, Value::object(), &[immutable]);
    check(&old, pintle_value::object! { "conditions": vec![condition("Failed")] }, &[immutable]);
    check(&request, object(r#"{"conditions":[]}"#), &[]);
    check(
        &request,
        object(r#"{"certificateChain":"x"}"#),
        &[r#"status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Failed""#],
    );
}

#[test]
fn there_is_one_condition_of_a_known_type() {
    let (request, _) = request();
    check(
        &request,
        pintle_value::object! { "conditions": vec![condition("Denied"), condition("Failed")] },
        &[
            r#"status.conditions.[1].type: Invalid value: "Failed": There may be at most one condition with type "Issued", "Denied", or "Failed""#,
        ],
    );
    let mut unknown = condition("Other");
    unknown.remove("reason");
    check(
        &request,
        pintle_value::object! { "conditions": vec![unknown] },
        &[
            r#"status.conditions.[0].type: Unsupported value: "Other": supported values: "Issued", "Denied", "Failed""#,
            "status.conditions[0].reason: Required value",
        ],
    );
    let mut unsure = condition("Issued");
    unsure.set("status", "Unknown");
    check(
        &request,
        pintle_value::object! { "conditions": vec![unsure] },
        &[r#"status.conditions.[0].status: Unsupported value: "Unknown": supported values: "True""#],
    );
}

#[test]
fn only_the_status_changes() {
    let (old, _) = request();
    let mut new = object(
        r#"{"metadata":{"name":"r","labels":{"a":"b"}},"spec":{"signerName":"other"},"status":{"certificateChain":"x"}}"#,
    );
    STATUS.prepare_for_update(&context(), &mut new, &old);
    let mut expect = old.clone();
    expect.set("status", object(r#"{"certificateChain":"x"}"#));
    assert_eq!(new, expect);
}

/// Allows the user to sign for some signers, and records the checks.
struct Signers(&'static [&'static str], Mutex<Vec<String>>);

impl WriteAccess for Signers {
    fn verb(&self) -> &str {
        "update"
    }

    fn check<'a>(&'a self, _: RequiredAccess<'a>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn allows_virtual<'a>(&'a self, VirtualAccess { verb, resource, name }: VirtualAccess<'a>) -> BoxFuture<'a, bool> {
        self.1.lock().expect("no panic").push(format!("{verb} {resource} {name}"));
        Box::pin(async move { self.0.contains(&name) })
    }
}

#[test]
fn signers_need_the_permission_to_sign() {
    let (old, _) = request();
    let mut denied = old.clone();
    denied.set("status", pintle_value::object! { "conditions": vec![condition("Denied")] });
    let mut malformed = old.clone();
    malformed.set("status", object(r#"{"certificateChain":"x"}"#));
    let check = |new: &Value, allowed: &'static [&'static str], expect: &[&str], checked: &[&str]| {
        let access = Signers(allowed, Mutex::default());
        let errors = run(require_permission(&context(), new, &old, &access));
        assert_eq!(messages(&errors), expect);
        assert_eq!(*access.1.lock().expect("no panic"), checked);
    };
    let (own, domain) = ("sign signers foo.com/abc", "sign signers foo.com/*");
    check(&denied, &["foo.com/abc"], &[], &[own]);
    check(&denied, &["foo.com/*"], &[], &[own, domain]);
    check(
        &denied,
        &["other.com/*"],
        &[r#"spec.signerName: Forbidden: User "admin" is not permitted to "sign" for signer "foo.com/abc""#],
        &[own, domain],
    );
    check(&old, &[], &[], &[]);
    check(&malformed, &[], &[], &[]);
}
