//! The headers that name the impersonated user.

use std::collections::BTreeMap;

use http::HeaderMap;
use pintle_value::{Str, print};

use super::ImpersonationError;
use crate::UserInfo;
use crate::extra_key::unescape_extra_key;

pub(super) const USER: &str = "impersonate-user";
pub(super) const UID: &str = "impersonate-uid";
pub(super) const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

/// The user that the headers name; `None` if there are no impersonation headers. If there are several names or uids,
/// the first counts.
pub(super) fn requested_user(headers: &HeaderMap) -> Result<Option<UserInfo>, ImpersonationError> {
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
                let malformed = || ImpersonationError::Malformed { header: name.to_owned() };
                let key = unescape_extra_key(key).ok_or_else(malformed)?;
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
