//! Impersonation: an authorized user acts as another user (upstream: `endpoints/filters/impersonation.go`).

use http::HeaderMap;
use pintle_value::Str;

use crate::{AuthorizationAttributes, Authorizer, Decision, UserInfo};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const AUTHENTICATED: &str = "system:authenticated";
const ANONYMOUS: &str = "system:anonymous";

/// Why a user cannot act as another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImpersonationError {
    /// The headers name groups, a uid or extra attributes, but no user.
    WithoutUser,
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
    if wanted.name.is_empty() {
        return Err(ImpersonationError::WithoutUser);
    }
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
    let account = wanted.name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
    match account {
        Some((namespace, name)) => authorize("serviceaccounts", "", namespace, "", name).await?,
        None => authorize("users", "", "", "", &wanted.name).await?,
    }
    for group in &wanted.groups {
        authorize("groups", "", "", "", group).await?;
    }
    if !wanted.uid.is_empty() {
        authorize("uids", "authentication.k8s.io", "", "", &wanted.uid).await?;
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
    if wanted.name != ANONYMOUS && !wanted.groups.iter().any(|g| g == AUTHENTICATED) {
        wanted.groups.push(AUTHENTICATED.into());
    }
    Ok(Some(wanted))
}

/// The user that the headers name; `None` if there are no impersonation headers.
fn requested_user(headers: &HeaderMap) -> Result<Option<UserInfo>, ImpersonationError> {
    let mut wanted = UserInfo::default();
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
            (USER, _) => wanted.name = value.into(),
            (UID, _) => wanted.uid = value.into(),
            (_, None) => wanted.groups.push(value.into()),
            (_, Some(key)) => match wanted.extra.iter_mut().find(|(known, _)| known == key) {
                Some((_, values)) => values.push(value.into()),
                None => wanted.extra.push((key.into(), vec![value.into()])),
            },
        }
    }
    Ok(Some(wanted).filter(|wanted| *wanted != UserInfo::default()))
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
        check(&[(USER, ANONYMOUS)], Ok(Some((ANONYMOUS, &[]))));
        check(&[(GROUP, "dev")], Err(ImpersonationError::WithoutUser));
    }

    #[test]
    fn a_header_that_is_not_utf8_refuses_the_request() {
        let mut headers = HeaderMap::new();
        headers.insert(USER, HeaderValue::from_bytes(b"b\xffb").unwrap());
        assert_eq!(run(&headers), Err(ImpersonationError::Malformed { header: USER.to_owned() }));
    }
}
