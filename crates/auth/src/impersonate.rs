//! Impersonation: acting as someone else, for those who may (upstream: `endpoints/filters/impersonation.go`).

use pintle_value::Str;

use crate::{Attributes, Authorizer, Decision, UserInfo};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const AUTHENTICATED: &str = "system:authenticated";
const ANONYMOUS: &str = "system:anonymous";

/// Why someone cannot act as someone else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImpersonationError {
    /// Groups, a uid or extra facts are asked for without a user.
    WithoutUser,
    /// They may not.
    Forbidden {
        /// What they wanted to be: `users`, `groups`, `uids`, `userextras`, `serviceaccounts`.
        resource: &'static str,
        /// Its name.
        name: Str,
        /// Why.
        why: String,
    },
}

/// Who a request with these headers (names in lower case) acts as: `None` for whoever sent it.
///
/// # Errors
/// They may not act as whom they name.
pub fn impersonate<'h>(
    headers: impl Iterator<Item = (&'h str, &'h str)>,
    sender: &UserInfo,
    authorizer: &dyn Authorizer,
) -> Result<Option<UserInfo>, ImpersonationError> {
    let mut wanted = UserInfo::default();
    for (name, value) in headers {
        match name {
            USER => wanted.name = value.into(),
            UID => wanted.uid = value.into(),
            GROUP => wanted.groups.push(value.into()),
            name => {
                let Some(key) = name.strip_prefix(EXTRA) else { continue };
                let key = Str::from(key);
                match wanted.extra.iter_mut().find(|(k, _)| *k == key) {
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
        return Err(ImpersonationError::WithoutUser);
    }
    let may = |resource: &'static str, group: &str, namespace: &str, subresource: &str, name: &str| {
        let attributes =
            Attributes { verb: "impersonate", group, version: "v1", resource, subresource, namespace, name, path: "" };
        match authorizer.authorize(sender, &attributes) {
            Decision::Allow => Ok(()),
            Decision::Deny(why) | Decision::NoOpinion(why) => {
                Err(ImpersonationError::Forbidden { resource, name: name.into(), why })
            }
        }
    };
    let account = wanted.name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
    match account {
        Some((namespace, name)) => may("serviceaccounts", "", namespace, "", name)?,
        None => may("users", "", "", "", &wanted.name)?,
    }
    for group in &wanted.groups {
        may("groups", "", "", "", group)?;
    }
    if !wanted.uid.is_empty() {
        may("uids", "authentication.k8s.io", "", "", &wanted.uid)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            may("userextras", "authentication.k8s.io", "", key, value)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlwaysAllow;

    fn check(headers: &[(&str, &str)], expect: Result<Option<(&str, &[&str])>, ImpersonationError>) {
        let found = impersonate(headers.iter().copied(), &UserInfo::default(), &AlwaysAllow);
        let found = found.map(|who| who.map(|who| (who.name, who.groups)));
        let expect = expect.map(|who| {
            who.map(|(name, groups)| (Str::from(name), groups.iter().map(|g| Str::from(*g)).collect::<Vec<_>>()))
        });
        assert_eq!(found, expect, "{headers:?}");
    }

    #[test]
    fn headers_say_who() {
        check(&[("accept", "*/*")], Ok(None));
        check(&[(USER, "bob")], Ok(Some(("bob", &[AUTHENTICATED]))));
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
}
