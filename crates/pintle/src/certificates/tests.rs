//! The folder `pki` in every state: which files the server creates, which states it refuses, and when it doubts the
//! clock.

use std::collections::BTreeMap;
use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::{Duration, OffsetDateTime};

use super::details::is_signed_by;
use super::folder::Part;
use super::*;

const NAMES: [&str; 2] = ["host.example.com", "192.0.2.7"];
const DAY: Duration = Duration::days(1);

fn names() -> Vec<String> {
    NAMES.map(str::to_owned).to_vec()
}

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_800_000_000).expect("a time")
}

/// Plans and writes the certificates as a server with this data directory does when it starts.
fn start(data_dir: &Path, names: &[String], now: OffsetDateTime) -> Result<KeyPlan, CertificateError> {
    start_after(data_dir, names, now, ClockBounds::Unknown)
}

/// As [`start`], with bounds for the clock.
fn start_after(
    data_dir: &Path,
    names: &[String],
    now: OffsetDateTime,
    bounds: ClockBounds,
) -> Result<KeyPlan, CertificateError> {
    let mut plan = KeyPlan::new(&KeyFolder::read(data_dir)?, None, names, now)?;
    plan.check_clock(now, bounds)?;
    plan.write()?;
    Ok(plan)
}

/// All files of a folder `pki`.
fn files(data_dir: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(data_dir.join("pki")).expect("a folder").map(|entry| entry.expect("an entry"));
    let text = |entry: &std::fs::DirEntry| std::fs::read_to_string(entry.path()).expect("a text");
    entries.map(|entry| (entry.file_name().into_string().expect("UTF-8"), text(&entry))).collect()
}

fn error(result: Result<KeyPlan, CertificateError>) -> String {
    result.err().expect("an error").to_string()
}

/// The names of files that differ.
fn changed<'f>(before: &'f BTreeMap<String, String>, after: &'f BTreeMap<String, String>) -> Vec<&'f str> {
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    names.filter(|name| before.get(*name) != after.get(*name)).map(String::as_str).collect()
}

#[test]
fn no_private_key_changes_whichever_file_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    start(folder.path(), &names(), now()).expect("new files");
    let complete = files(folder.path());
    assert_eq!(complete.len(), 12);
    for missing in complete.keys() {
        let path = folder.path().join("pki").join(missing);
        std::fs::remove_file(&path).expect("the file is there");
        let result = start(folder.path(), &names(), now() + DAY);
        let after = files(folder.path());
        if missing.ends_with(".key") {
            let text = error(result);
            let expect = format!("{} is missing, but {}/pki/", path.display(), folder.path().display());
            assert!(text.starts_with(&expect), "{text}");
            assert_eq!(changed(&complete, &after), [missing], "{missing}");
        } else {
            result.expect("the file is made from its key");
            let same = if missing == "sa.pub" { vec![] } else { vec![missing.as_str()] };
            assert_eq!(changed(&complete, &after), same, "{missing}");
        }
        std::fs::write(&path, &complete[missing]).expect("the file is written");
        assert!(start(folder.path(), &names(), now()).expect("all files").is_unchanged(), "{missing}");
    }
}

#[test]
fn a_first_start_that_was_cut_off_is_completed() {
    let folder = tempfile::tempdir().expect("a folder");
    start(folder.path(), &names(), now()).expect("new files");
    let complete = files(folder.path());
    // Keys are written at the same time, before everything else.
    for kept in [
        &["admin.key"][..],
        &["apiserver.key", "sa.key"],
        &["ca.key", "sa.key"],
        &["sa.key", "sa.pub"],
        &["front-proxy-client.key"],
        &["ca.key", "front-proxy-ca.key"],
    ] {
        for (name, text) in &complete {
            let path = folder.path().join("pki").join(name);
            match kept.contains(&name.as_str()) {
                true => std::fs::write(&path, text).expect("the file is written"),
                false => std::fs::remove_file(&path).or_else(|_| std::fs::exists(&path).map(drop)).expect("no file"),
            }
        }
        start(folder.path(), &names(), now()).expect("all files");
        let after = files(folder.path());
        assert_eq!(after.len(), complete.len());
        for name in kept {
            assert_eq!(after[*name], complete[*name], "{name}");
        }
    }
}

#[test]
fn an_authority_of_the_operator_is_used_and_never_replaced() {
    let rsa = include_str!("testdata/rsa.key");
    let p384 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("a key").serialize_pem();
    for key in [rsa, &p384] {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("pki")).expect("a folder");
        std::fs::write(folder.path().join("pki/ca.key"), key).expect("a file");
        let plan = start(folder.path(), &names(), now()).expect("certificates");
        assert_eq!(files(folder.path())["ca.key"], key);
        let Certificates { authority, serving, admin, .. } = plan.certificates;
        assert!(is_signed_by(&serving.certificate, &authority.certificate));
        assert!(is_signed_by(&admin.certificate, &authority.certificate));
    }
    // The server does not renew an authority with a certificate of the operator's. It does not replace a missing
    // certificate of such an authority either.
    let folder = tempfile::tempdir().expect("a folder");
    let pki = folder.path().join("pki");
    std::fs::create_dir(&pki).expect("a folder");
    let key = new_key().expect("a key");
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, "corporate");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    (params.not_before, params.not_after) = (now() - DAY, now() + Duration::days(400));
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    std::fs::write(pki.join("ca.key"), key.serialize_pem()).expect("a file");
    std::fs::write(pki.join("ca.crt"), &certificate).expect("a file");
    start(folder.path(), &names(), now()).expect("certificates");
    start(folder.path(), &names(), now() + Duration::days(100)).expect("the authority is valid");
    assert_eq!(files(folder.path())["ca.crt"], certificate);
    let text = error(start(folder.path(), &names(), now() + Duration::days(401)));
    assert!(text.contains("ca.crt: it has expired at ") && text.contains("does not renew it"), "{text}");
    std::fs::remove_file(pki.join("ca.crt")).expect("a file");
    let text = error(start(folder.path(), &names(), now()));
    assert!(text.contains("ca.crt: it is missing, and apiserver.crt was issued by "), "{text}");
}

#[test]
fn broken_files_are_named_with_their_path() {
    let folder = tempfile::tempdir().expect("a folder");
    start(folder.path(), &names(), now()).expect("new files");
    let complete = files(folder.path());
    for (name, text) in complete.iter().filter(|(name, _)| *name != "sa.pub") {
        let path = folder.path().join("pki").join(name);
        for broken in ["", "x", &text[..text.len() / 2]] {
            std::fs::write(&path, broken).expect("the file is written");
            let found = error(start(folder.path(), &names(), now()));
            assert!(found.starts_with(&format!("{}: not a ", path.display())), "{found}");
        }
        std::fs::write(&path, text).expect("the file is written");
    }
    std::fs::write(folder.path().join("pki/ca.crt"), &complete["admin.crt"]).expect("a file");
    let text = error(start(folder.path(), &names(), now()));
    assert!(text.ends_with("pki/ca.crt: it is not the certificate of ca.key"), "{text}");
}

#[test]
fn certificates_are_renewed_for_their_keys_and_predecessors_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = start(folder.path(), &names(), now()).expect("new files").certificates;
    let before = files(folder.path());
    let start = |names: &[String], days: i64| {
        let before = files(folder.path());
        start(folder.path(), names, now() + Duration::days(days)).expect("certificates");
        let after = files(folder.path());
        let changed = changed(&before, &after).into_iter().map(str::to_owned);
        changed.filter(|name| before.contains_key(name)).collect::<Vec<String>>()
    };
    assert_eq!(start(&names(), 0), [""; 0]);
    assert_eq!(start(&[], 3650 - 366), [""; 0]);
    assert_eq!(start(&["other.example.com".to_owned()], 0), ["apiserver.crt"]);
    assert_eq!(start(&[], 3650 - 364), ["ca.crt", "front-proxy-ca.crt"]);
    assert_eq!(start(&[], 3650 - 89), ["admin.crt", "apiserver.crt", "front-proxy-client.crt"]);
    let after = files(folder.path());
    for (name, text) in &before {
        let is_kept = after.iter().any(|(kept, found)| kept.starts_with(name.as_str()) && found == text);
        assert!(is_kept, "{name}");
    }
    // While both are valid, the old authority verifies certificates of the new authority, and the other way round.
    let renewed = Certificates::load(folder.path()).expect("certificates");
    let then = u64::try_from((now() + Duration::days(3650 - 80)).unix_timestamp()).expect("a time");
    for (authority, leaf) in [
        (&renewed.authority, &old.admin),
        (&old.authority, &renewed.admin),
        (&renewed.front_proxy_authority, &old.front_proxy),
        (&old.front_proxy_authority, &renewed.front_proxy),
    ] {
        let authorities = pintle_server::http::authorities(authority.certificate.as_bytes()).expect("an authority");
        let leaf = CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).expect("a certificate");
        assert!(authorities.verify_client(&leaf, &[], std::time::Duration::from_secs(then)).is_ok());
    }
}

#[test]
fn a_certificate_of_another_key_or_authority_is_issued_again() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    start(one.path(), &names(), now()).expect("new files");
    start(other.path(), &names(), now()).expect("new files");
    let before = files(one.path());
    for name in ["admin.crt", "apiserver.crt", "front-proxy-client.crt"] {
        std::fs::write(one.path().join("pki").join(name), &files(other.path())[name]).expect("a file");
    }
    std::fs::write(one.path().join("pki/admin.key"), &files(other.path())["admin.key"]).expect("a file");
    let plan = start(one.path(), &names(), now()).expect("certificates");
    let after = files(one.path());
    for name in ["ca.crt", "ca.key", "apiserver.key", "front-proxy-ca.crt", "front-proxy-client.key"] {
        assert_eq!(before[name], after[name], "{name}");
    }
    assert_eq!(after["admin.key"], files(other.path())["admin.key"]);
    for pair in [&plan.certificates.serving, &plan.certificates.admin] {
        assert!(is_signed_by(&pair.certificate, &after["ca.crt"]));
    }
}

#[test]
fn a_wrong_clock_issues_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let commit = ClockBounds::NewestCommit(now() + DAY);
    start(folder.path(), &names(), now()).expect("new files");
    let before = files(folder.path());
    // With a clock that is eleven years ahead, all certificates have expired.
    let text = error(start_after(folder.path(), &names(), now() + Duration::days(4015), commit));
    assert!(text.contains("pki/ca.crt has expired at 2037-01-12T08:00:00Z, and no other is issued"), "{text}");
    assert!(
        text.contains("it says 2038-01-12T08:00:00Z, but the newest commit in the store is from 2027-01-16"),
        "{text}"
    );
    // With a clock that is nearly ten years ahead, they are only due for renewal, so the server goes on with them.
    let plan =
        start_after(folder.path(), &names(), now() + Duration::days(3600), commit).expect("the old certificates");
    assert!(plan.is_unchanged());
    assert_eq!(plan.certificates.admin.certificate, before["admin.crt"]);
    // With a clock that is more than a year behind, they are not valid yet.
    let text = error(start_after(folder.path(), &names(), now() - Duration::days(400), commit));
    assert!(text.contains("pki/ca.crt is not valid before 2027-01-15T07:00:00Z"), "{text}");
    let text = error(start(folder.path(), &names(), now() - Duration::days(400)));
    assert!(text.contains("but ca.crt was issued at 2027-01-15T07:00:00Z"), "{text}");
    assert_eq!(files(folder.path()), before);
    // The server does not create a missing file with such a clock either.
    std::fs::remove_file(folder.path().join("pki/admin.crt")).expect("a file");
    let text = error(start_after(folder.path(), &names(), now() + Duration::days(1000), commit));
    assert!(text.contains("pki/admin.crt is missing"), "{text}");
    // A running server knows when it was started.
    let started = ClockBounds::ServerStart(now());
    let text = error(start_after(folder.path(), &names(), now() - DAY, started));
    assert!(text.contains("but the server was started at 2027-01-15T08:00:00Z"), "{text}");
    start_after(folder.path(), &names(), now() + DAY, commit).expect("certificates");
}

#[test]
fn a_server_goes_back_to_the_certificates_before_a_wrong_clock() {
    let folder = tempfile::tempdir().expect("a folder");
    start(folder.path(), &names(), now()).expect("new files");
    let before = files(folder.path());
    // `--accept-clock` makes the server believe the clock, and it renews everything from 2038 on.
    let then = now() + Duration::days(4015);
    let mut plan = KeyPlan::new(&KeyFolder::read(folder.path()).expect("files"), None, &names(), then).expect("a plan");
    plan.check_clock(then, ClockBounds::Unknown).expect("nothing is known");
    plan.write().expect("files");
    for name in ["ca.crt", "apiserver.crt", "admin.crt", "front-proxy-ca.crt", "front-proxy-client.crt"] {
        assert_ne!(files(folder.path())[name], before[name], "{name}");
    }
    let plan =
        start_after(folder.path(), &names(), now() + DAY, ClockBounds::NewestCommit(then)).expect("certificates");
    assert!(!plan.issues());
    let after = files(folder.path());
    for (name, text) in &before {
        assert_eq!(&after[name], text, "{name}");
    }
    assert!(start(folder.path(), &names(), now() + DAY).expect("certificates").is_unchanged());
}

#[test]
fn pairs_are_read_only_if_they_belong_together() {
    let folder = tempfile::tempdir().expect("a folder");
    start(folder.path(), &names(), now()).expect("new files");
    let read = || KeyFolder::read(folder.path()).expect("files").pair(Part::Admin);
    read().expect("a pair");
    std::fs::write(folder.path().join("pki/admin.key"), &files(folder.path())["ca.key"]).expect("a file");
    assert!(read().expect_err("an error").to_string().ends_with("it is not the certificate of admin.key"));
}

#[test]
fn the_front_proxy_has_an_authority_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let Certificates { authority, front_proxy_authority, front_proxy, .. } =
        start(folder.path(), &names(), now()).expect("new files").certificates;
    assert!(is_signed_by(&front_proxy.certificate, &front_proxy_authority.certificate));
    assert!(!is_signed_by(&front_proxy.certificate, &authority.certificate));
    assert_ne!(front_proxy_authority.key, authority.key);
    let details = CertificateDetails::of(&front_proxy.certificate).expect("a certificate");
    assert_eq!((&*details.subject, &*details.issuer), ("CN=front-proxy-client", "CN=pintle-front-proxy-ca"));
    for name in files(folder.path()).keys() {
        let metadata = std::fs::metadata(folder.path().join("pki").join(name)).expect("a file");
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_folder_of_an_earlier_version_gets_a_front_proxy() {
    let is_of_front_proxy = |name: &&String| name.starts_with("front-proxy-");
    let folder = tempfile::tempdir().expect("a folder");
    start(folder.path(), &names(), now()).expect("new files");
    let new: Vec<String> = files(folder.path()).keys().filter(is_of_front_proxy).cloned().collect();
    let expect = ["front-proxy-ca.crt", "front-proxy-ca.key", "front-proxy-client.crt", "front-proxy-client.key"];
    assert_eq!(new, expect);
    for name in &new {
        std::fs::remove_file(folder.path().join("pki").join(name)).expect("a file");
    }
    let (old, before) = (KeyFolder::read(folder.path()).expect("files"), files(folder.path()));
    // The folder can be the beginning of another server, too.
    old.check_complete().expect("the keys of an earlier version");
    let other = tempfile::tempdir().expect("a folder");
    let stored = KeyFolder::read(other.path()).expect("no files");
    let seed = stored.completed_by(&old).expect("keys");
    KeyPlan::new(&stored, Some(&seed), &names(), now()).expect("a plan").write().expect("files");
    start(folder.path(), &names(), now() + DAY).expect("the missing files are made");
    for data_dir in [folder.path(), other.path()] {
        let after = files(data_dir);
        assert!(before.iter().all(|(name, text)| name == "sa.pub" || after[name] == *text));
        assert_eq!(after.keys().filter(is_of_front_proxy).cloned().collect::<Vec<_>>(), new);
    }
    // A part of the front proxy is not enough.
    std::fs::remove_file(folder.path().join("pki/front-proxy-ca.key")).expect("a file");
    let incomplete = KeyFolder::read(folder.path()).expect("files").check_complete().expect_err("an error");
    assert!(incomplete.to_string().contains("pki/front-proxy-ca.key: "), "{incomplete}");
    assert!(error(start(folder.path(), &names(), now())).contains("front-proxy-ca.key is missing, but "));
}

#[test]
fn the_keys_of_another_front_proxy_stay() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    start(one.path(), &names(), now()).expect("new files");
    start(other.path(), &names(), now()).expect("new files");
    let [before, pki] = [files(one.path()), files(other.path())];
    for name in pki.keys().filter(|name| !name.starts_with("front-proxy-ca")) {
        std::fs::remove_file(other.path().join("pki").join(name)).expect("a file");
    }
    let stored = KeyFolder::read(other.path()).expect("files");
    let seed = stored.completed_by(&KeyFolder::read(one.path()).expect("files")).expect("keys");
    let plan = KeyPlan::new(&stored, Some(&seed), &names(), now()).expect("a plan");
    plan.write().expect("files");
    let after = files(other.path());
    assert_eq!((&after["ca.key"], &after["front-proxy-ca.key"]), (&before["ca.key"], &pki["front-proxy-ca.key"]));
    assert!(is_signed_by(&plan.certificates.front_proxy.certificate, &after["front-proxy-ca.crt"]));
}
