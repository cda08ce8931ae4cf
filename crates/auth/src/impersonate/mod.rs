//! Impersonation: an authorized user acts as another user (upstream: `endpoints/filters/impersonation`).

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use pintle_value::names::{dns1123_label, dns1123_subdomain};
use pintle_value::{Str, print};

use crate::{AuthorizationAttributes, Authorizer, Decision, UserInfo};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// Why a user cannot act as another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImpersonationError {
    /// The headers name groups, a uid or extra attributes, but no user.
    WithoutUser {
        /// What they name, as upstream prints it.
        requested: String,
    },
    /// The value of a header is not UTF-8.
    Malformed {
        /// The header.
        header: String,
    },
    /// The sender is not authorized.
    Forbidden {
        /// What the sender wants to impersonate: `users`, `groups`, `uids`, `userextras`, `serviceaccounts`.
        resource: &'static str,
        /// Its name.
        name: Str,
        /// The authorizer's reason.
        why: String,
    },
}

/// The user that a request with these headers acts as; `None` for its sender.
///
/// # Errors
/// The headers are incomplete or malformed, or the sender may not act as the user that they name.
pub async fn impersonate(
    headers: &HeaderMap,
    sender: &UserInfo,
    authorizer: &dyn Authorizer,
) -> Result<Option<UserInfo>, ImpersonationError> {
    let Some(mut wanted) = requested_user(headers)? else { return Ok(None) };
    let authorize = async |resource: &'static str, group: &str, namespace: &str, subresource: &str, name: &str| {
        let attributes = AuthorizationAttributes {
            verb: "impersonate",
            group,
            version: "v1",
            resource,
            subresource,
            namespace,
            name,
            ..AuthorizationAttributes::default()
        };
        let authorization = authorizer.authorize(sender, &attributes).await;
        match authorization.decision {
            Decision::Allow => Ok(()),
            Decision::Deny | Decision::NoOpinion => Err(ImpersonationError::Forbidden {
                resource,
                name: name.into(),
                why: authorization.reason.into_owned(),
            }),
        }
    };
    let account = service_account(&wanted.name);
    match account {
        Some((namespace, name)) => authorize("serviceaccounts", "", namespace, "", name).await?,
        None => authorize("users", "", "", "", &wanted.name).await?,
    }
    if !wanted.uid.is_empty() {
        authorize("uids", "authentication.k8s.io", "", "", &wanted.uid).await?;
    }
    for group in &wanted.groups {
        authorize("groups", "", "", "", group).await?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            authorize("userextras", "authentication.k8s.io", "", key, value).await?;
        }
    }
    if let (Some((namespace, _)), true) = (account, wanted.groups.is_empty()) {
        wanted.groups.push("system:serviceaccounts".into());
        wanted.groups.push(format!("system:serviceaccounts:{namespace}").into());
    }
    let has_group = |group: &str| wanted.groups.iter().any(|found| found == group);
    let missing = match &*wanted.name {
        ANONYMOUS => (!has_group(UNAUTHENTICATED)).then_some(UNAUTHENTICATED),
        _ => (!has_group(UNAUTHENTICATED) && !has_group(AUTHENTICATED)).then_some(AUTHENTICATED),
    };
    wanted.groups.extend(missing.map(Str::from));
    Ok(Some(wanted))
}

/// The namespace and the name of a service account, given its user name (upstream: `serviceaccount.SplitUsername`).
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty()).then_some((namespace, name))
}

/// The user that the headers name; `None` if there are no impersonation headers. Of several names or uids, the first
/// counts.
fn requested_user(headers: &HeaderMap) -> Result<Option<UserInfo>, ImpersonationError> {
    let mut wanted = UserInfo::default();
    let (mut has_name, mut has_uid) = (false, false);
    for (name, value) in headers {
        let name = name.as_str();
        let extra = name.strip_prefix(EXTRA);
        if extra.is_none() && !matches!(name, USER | UID | GROUP) {
            continue;
        }
        let Ok(value) = std::str::from_utf8(value.as_bytes()) else {
            return Err(ImpersonationError::Malformed { header: name.to_owned() });
        };
        match (name, extra) {
            (USER, _) if !std::mem::replace(&mut has_name, true) => wanted.name = value.into(),
            (UID, _) if !std::mem::replace(&mut has_uid, true) => wanted.uid = value.into(),
            (USER | UID, _) => {}
            (_, None) => wanted.groups.push(value.into()),
            (_, Some(key)) => {
                let key = extra_key(key, name)?;
                match wanted.extra.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, values)) => values.push(value.into()),
                    None => wanted.extra.push((key, vec![value.into()])),
                }
            }
        }
    }
    if wanted == UserInfo::default() {
        return Ok(None);
    }
    if wanted.name.is_empty() {
        return Err(ImpersonationError::WithoutUser { requested: go_syntax(&wanted) });
    }
    Ok(Some(wanted))
}

/// The key of an extra attribute: the rest of a header's name, in which bytes may be escaped. As in upstream, a key with
/// a malformed escape stays as it is.
fn extra_key(escaped: &str, header: &str) -> Result<Str, ImpersonationError> {
    let is_digit = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
    let bytes = escaped.as_bytes();
    let is_well_formed = (0..bytes.len())
        .filter(|at| bytes[*at] == b'%')
        .all(|at| is_digit(bytes.get(at + 1).copied()) && is_digit(bytes.get(at + 2).copied()));
    if !is_well_formed {
        return Ok(escaped.into());
    }
    let unescaped = percent_decode_str(escaped).decode_utf8();
    unescaped.map(Str::from).map_err(|_| ImpersonationError::Malformed { header: header.to_owned() })
}

/// A user as Go prints it with `%#v`.
fn go_syntax(user: &UserInfo) -> String {
    let texts = |texts: &[Str]| {
        let quoted: Vec<String> = texts.iter().map(|text| print::quote(text)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { texts(&user.groups) };
    let extra: BTreeMap<&Str, &Vec<Str>> = user.extra.iter().map(|(key, values)| (key, values)).collect();
    let extra: Vec<String> =
        extra.into_iter().map(|(key, values)| format!("{}:{}", print::quote(key), texts(values))).collect();
    let extra = if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", extra.join(", ")) };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:map[string][]string{extra}}}",
        print::quote(&user.name),
        print::quote(&user.uid)
    )
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::AlwaysAllow;

    fn check(headers: &[(&str, &str)], expect: Result<Option<(&str, &[&str])>, ImpersonationError>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            map.append(name.parse::<HeaderName>().unwrap(), value);
        }
        assert_eq!(run(&map), expect.map(expected), "{headers:?}");
    }

    type NameAndGroups = (Str, Vec<Str>);

    fn expected(user: Option<(&str, &[&str])>) -> Option<NameAndGroups> {
        user.map(|(name, groups)| (Str::from(name), groups.iter().map(|g| Str::from(*g)).collect()))
    }

    fn run(headers: &HeaderMap) -> Result<Option<NameAndGroups>, ImpersonationError> {
        let sender = UserInfo::default();
        let future = pin!(impersonate(headers, &sender, &AlwaysAllow));
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.map(|user| user.map(|user| (user.name, user.groups))),
            Poll::Pending => panic!("AlwaysAllow decides at once"),
        }
    }

    #[test]
    fn headers_name_the_impersonated_user() {
        check(&[("accept", "*/*")], Ok(None));
        check(&[(USER, "bob")], Ok(Some(("bob", &[AUTHENTICATED]))));
        check(&[(USER, "jürgen")], Ok(Some(("jürgen", &[AUTHENTICATED]))));
        check(&[(USER, "bob"), (GROUP, "dev"), (GROUP, "ops")], Ok(Some(("bob", &["dev", "ops", AUTHENTICATED]))));
        check(
            &[(USER, "system:serviceaccount:ns:sa")],
            Ok(Some((
                "system:serviceaccount:ns:sa",
                &["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED],
            ))),
        );
        check(&[(USER, ANONYMOUS)], Ok(Some((ANONYMOUS, &[UNAUTHENTICATED]))));
        check(&[(USER, "bob"), (GROUP, UNAUTHENTICATED)], Ok(Some(("bob", &[UNAUTHENTICATED]))));
        check(&[(USER, "bob"), (USER, "eve")], Ok(Some(("bob", &[AUTHENTICATED]))));
        // The namespace and the name have to be valid, and there is nothing after them.
        for user in ["system:serviceaccount:Ns:sa", "system:serviceaccount:ns:", "system:serviceaccount:ns:sa:x"] {
            check(&[(USER, user)], Ok(Some((user, &[AUTHENTICATED]))));
        }
    }

    #[test]
    fn headers_without_a_user_are_refused() {
        for (headers, expect) in [
            (&[(GROUP, "dev")][..], r#"Name:"", UID:"", Groups:[]string{"dev"}, Extra:map[string][]string(nil)"#),
            (&[(USER, ""), (UID, "1")], r#"Name:"", UID:"1", Groups:[]string(nil), Extra:map[string][]string(nil)"#),
            (
                &[("impersonate-extra-b", "1"), ("impersonate-extra-a%2fb", "2"), ("impersonate-extra-b", "3")],
                r#"Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"a/b":[]string{"2"}, "b":[]string{"1", "3"}}"#,
            ),
        ] {
            let requested = format!("&user.DefaultInfo{{{expect}}}");
            check(headers, Err(ImpersonationError::WithoutUser { requested }));
        }
    }

    #[test]
    fn keys_of_extra_attributes_are_unescaped() {
        for (escaped, expect) in
            [("scopes", "scopes"), ("acme.com%2fproject", "acme.com/project"), ("a%zz%41", "a%zz%41"), ("a%4", "a%4")]
        {
            assert_eq!(extra_key(escaped, "h").as_deref(), Ok(expect), "{escaped}");
        }
        assert!(extra_key("%ff", "h").is_err());
    }

    #[test]
    fn a_header_that_is_not_utf8_refuses_the_request() {
        let mut headers = HeaderMap::new();
        headers.insert(USER, HeaderValue::from_bytes(b"b\xffb").unwrap());
        assert_eq!(run(&headers), Err(ImpersonationError::Malformed { header: USER.to_owned() }));
    }
}
