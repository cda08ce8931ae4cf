//! The user that a request claims to be of. Inputs are the static token file, tokens of WebSockets, and the headers of
//! front proxies and of impersonating users.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use http::header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};
use pintle_auth::user::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED};
use pintle_auth::{
    AuthFuture, AuthenticationError, AuthenticationRequest, AuthenticationResult, Authenticator, Authorization,
    AuthorizationAttributes, Authorizer, Decision, Impersonator, RequestHeaderAuthenticator, RequestHeaderNames,
    RulesReview, TokenAuthenticator, TokenFileAuthenticator, UserInfo, WebSocketProtocolAuthenticator,
};
use pintle_value::Str;

use super::request::headers;
use crate::{MemoryLimit, with_memory_limit};

const LIMIT: MemoryLimit = MemoryLimit { per_byte: 200, base: 64 << 10 };

const TOKEN_FILE: &str = "token,alice,1\r\n\"quoted \"\"token\"\"\",bob,2,\"dev,ops\"\n\n,nobody,3\ntoken,eve,4,admins,more\n\"two\nlines\",x,\n";
const WEBSOCKET: &str = "upgrade: websocket
connection: keep-alive, Upgrade
sec-websocket-protocol: v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0
sec-websocket-protocol: channel.k8s.io";
const FRONT_PROXY: &str = "x-remote-user: alice
x-remote-uid: 7
x-remote-group: dev
x-remote-group: ops,more
x-remote-extra-scopes%2fa: 1
x-extra-scopes%2Fa: 2
x-user: bob";
const IMPERSONATION: &str = "impersonate-user: bob
impersonate-uid: 7
impersonate-group: dev
impersonate-group: system:masters
impersonate-extra-example.com%2fkey: 1
impersonate-extra-example.com%2fkey: 2";
const ACCOUNT: &str = "impersonate-user: system:serviceaccount:ns:name";
const NODE: &str = "impersonate-user: system:node:n1";

/// The result of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing has to be waited for"),
    }
}

fn header_map(input: &[u8]) -> Option<HeaderMap> {
    headers(input.split(|byte| *byte == b'\n'))
}

fn request<'a>(headers: &'a HeaderMap) -> AuthenticationRequest<'a> {
    AuthenticationRequest { certificates: &[], headers, path: "", audiences: &[] }
}

/// The headers that name a user: the name, the uid, the groups, and the extra attributes, whose headers have the prefix
/// `extra`. Returns `None` if a header is too long.
fn headers_of(user: &UserInfo, [name, uid, group]: [&'static str; 3], extra: &str) -> Option<HeaderMap> {
    let value = |text: &Str| HeaderValue::from_bytes(text.as_bytes()).expect("a value");
    let mut map = HeaderMap::from_iter([(HeaderName::from_static(name), value(&user.name))]);
    map.insert(uid, value(&user.uid));
    for text in &user.groups {
        map.append(group, value(text));
    }
    for (key, values) in &user.extra {
        let escaped: String = key.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let name = HeaderName::try_from(format!("{extra}{escaped}")).ok()?;
        for text in values {
            map.append(&name, value(text));
        }
    }
    Some(map)
}

fn with_sorted_extra(mut user: UserInfo) -> UserInfo {
    user.extra.sort();
    user
}

/// Each token of a file is found again, whatever its fields contain. A token that is not in the file is not accepted.
pub(super) fn token_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let find = |file: &TokenFileAuthenticator, token: &str| {
        let found = now(file.authenticate_token(token, &[])).expect("no error");
        found.map(|found| found.user)
    };
    if let Ok(file) = with_memory_limit(text.len(), LIMIT, || TokenFileAuthenticator::parse(text)) {
        assert_eq!(find(&file, ""), None);
        for token in text.split([',', '"', '\n']) {
            let found = find(&file, token);
            let user = found.filter(|user| !text.contains(&*user.name) && !user.name.contains(['"', '\n']));
            assert_eq!(user, None, "{token:?}");
        }
    }
    // The same text gives the fields of another file.
    let field = |text: &str| text.replace("\\n", "\n").replace(';', ",");
    let records = text.split('\n').map(|line| line.split(',').map(field).collect());
    let records: Vec<Vec<String>> = records.collect();
    let quoted = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
    let lines = records.iter().map(|fields| fields.iter().map(quoted).collect::<Vec<_>>().join(","));
    let file = TokenFileAuthenticator::parse(&lines.collect::<Vec<_>>().join("\n"));
    if records.iter().any(|fields| fields.len() < 3) {
        assert!(file.is_err(), "a record is too short");
        return;
    }
    let file = file.unwrap_or_else(|error| panic!("{error}"));
    // The decoder replaces the line endings in fields too.
    let normal = |field: &String| field.replace("\r\n", "\n");
    let users: HashMap<String, &Vec<String>> = records.iter().map(|fields| (normal(&fields[0]), fields)).collect();
    for (token, fields) in users.iter().filter(|(token, _)| !token.is_empty()) {
        let user = find(&file, token).unwrap_or_else(|| panic!("{token:?} is not found"));
        let groups = fields.get(3).map(normal);
        let groups = groups.map(|groups| groups.split(',').map(Str::from).collect()).unwrap_or_default();
        let [name, uid] = [1, 2].map(|column| Str::from(normal(&fields[column])));
        assert_eq!(user, UserInfo { name, uid, groups, extra: Vec::new() });
    }
    assert!(users.contains_key("\u{1}") || find(&file, "\u{1}").is_none());
}

pub(super) fn token_file_seeds() -> Vec<Vec<u8>> {
    // The second seed is for the fields of the other file.
    [TOKEN_FILE, "a\",b,c,g;h\nd,e\\n,f,g;,h"].map(|text| text.as_bytes().to_vec()).to_vec()
}

/// An authenticator that accepts every token: the user's name is the token.
struct AnyToken;

impl TokenAuthenticator for AnyToken {
    fn authenticate_token<'a>(&'a self, token: &'a str, _: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        AuthFuture::ready(Ok(Some(UserInfo { name: token.into(), ..UserInfo::default() }.into())))
    }
}

/// An accepted token is not empty and is the only token of the request. It comes with other protocols and is not among
/// them. A request with only this token and these protocols has the same token.
pub(super) fn websocket_protocols(input: &[u8]) {
    let Some(headers) = header_map(input) else { return };
    let authenticate =
        |headers: &HeaderMap| now(WebSocketProtocolAuthenticator(AnyToken).authenticate(&request(headers)));
    let Ok(Some(found)) = authenticate(&headers) else { return };
    let others = found.websocket_protocols.clone().expect("the other protocols");
    const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";
    assert!(!found.user.name.is_empty() && !others.split(',').any(|protocol| protocol.starts_with(PREFIX)));
    let token = pintle_schema::base64::encode(found.user.name.as_bytes());
    let token = token.trim_end_matches('=').replace('+', "-").replace('/', "_");
    let protocols = format!("{others},{PREFIX}{token}");
    let mut again = HeaderMap::from_iter([
        (UPGRADE, HeaderValue::from_static("websocket")),
        (CONNECTION, HeaderValue::from_static("upgrade")),
    ]);
    again.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_bytes(protocols.as_bytes()).expect("a value"));
    assert_eq!(authenticate(&again), Ok(Some(found)));
    again.remove(UPGRADE);
    assert_eq!(authenticate(&again), Ok(None));
}

pub(super) fn websocket_protocols_seeds() -> Vec<Vec<u8>> {
    vec![WEBSOCKET.as_bytes().to_vec()]
}

/// A user that headers name is accepted only from a proxy. Headers that name the result give the same user again.
pub(super) fn front_proxy_headers(input: &[u8]) {
    static AUTHENTICATORS: LazyLock<[RequestHeaderAuthenticator; 2]> = LazyLock::new(|| {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let names = RequestHeaderNames {
            username: texts(&["X-Remote-User", "X-User"]),
            uid: texts(&["X-Remote-Uid"]),
            group: texts(&["X-Remote-Group", "X-Group"]),
            extra_prefixes: texts(&["X-Remote-Extra-", "X-Extra-"]),
            allowed_names: Vec::new(),
        };
        [true, false].map(|trusted| RequestHeaderAuthenticator {
            verify: Box::new(move |_, _, now| if trusted { Ok(now..now) } else { Err("not trusted".to_owned()) }),
            allowed_names: Vec::new(),
            headers: names.headers().expect("names"),
        })
    });
    let Some(headers) = header_map(input) else { return };
    let [trusting, distrustful] = &*AUTHENTICATORS;
    let without_certificate = request(&headers);
    assert_eq!(now(trusting.authenticate(&without_certificate)), Ok(None));
    let certificates = [(&b"certificate"[..]).into()];
    let authenticate = |authenticator: &RequestHeaderAuthenticator, headers: &HeaderMap| {
        let request = AuthenticationRequest { certificates: &certificates, ..request(headers) };
        now(authenticator.authenticate(&request))
    };
    assert_eq!(authenticate(distrustful, &headers), Err(AuthenticationError("not trusted".to_owned())));
    let values = |names: &[&str]| -> Vec<&[u8]> {
        names.iter().flat_map(|name| headers.get_all(*name)).map(HeaderValue::as_bytes).collect()
    };
    let names = values(&["x-remote-user", "x-user"]);
    match authenticate(trusting, &headers) {
        Err(_) => {}
        Ok(None) => {
            assert!(["x-remote-user", "x-user"].iter().all(|name| headers.get(*name).is_none_or(HeaderValue::is_empty)))
        }
        Ok(Some(found)) => {
            let user = found.user;
            assert!(!user.name.is_empty() && names.contains(&user.name.as_bytes()), "{user:?}");
            let mut groups = values(&["x-remote-group", "x-group"]);
            groups.retain(|group| !group.is_empty());
            assert!(user.groups.iter().map(|group| group.as_bytes()).eq(groups), "{user:?}");
            let again = headers_of(&user, ["x-remote-user", "x-remote-uid", "x-remote-group"], "x-extra-");
            let Some(again) = again else { return };
            let again = authenticate(trusting, &again).expect("no error").expect("a user").user;
            assert_eq!(with_sorted_extra(again), with_sorted_extra(user));
        }
    }
}

pub(super) fn front_proxy_headers_seeds() -> Vec<Vec<u8>> {
    vec![FRONT_PROXY.as_bytes().to_vec()]
}

/// An authorizer that allows everything except one question at most, and records the questions.
#[derive(Default)]
struct Recorder {
    /// The number of the question that is refused.
    refused: Option<usize>,
    /// The resources with subresources and names in the questions.
    asked: Mutex<Vec<[String; 3]>>,
}

impl Authorizer for Recorder {
    fn authorize<'a>(
        &'a self,
        _: &'a UserInfo,
        attributes: &'a AuthorizationAttributes<'a>,
    ) -> AuthFuture<'a, Authorization> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_refused = self.refused == Some(asked.len());
        let AuthorizationAttributes { resource, subresource, name, .. } = *attributes;
        asked.push([resource, subresource, name].map(str::to_owned));
        let decision = if is_refused { Decision::NoOpinion } else { Decision::Allow };
        AuthFuture::ready(Authorization { decision, ..Authorization::ALLOW })
    }

    fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> AuthFuture<'a, RulesReview> {
        AuthFuture::ready(RulesReview::default())
    }
}

/// A user may impersonate another user only if each group, the uid and each extra attribute in the headers is allowed.
/// Headers that name the result give the same user again. The first byte says whether other modes than the legacy mode
/// are on, and which question of the legacy mode is refused.
pub(super) fn impersonation_headers(input: &[u8]) {
    let Some((options, lines)) = input.split_first() else { return };
    let Some(headers) = header_map(lines) else { return };
    let is_constrained = options % 2 == 1;
    let sender = UserInfo { name: "system:serviceaccount:ns:agent".into(), ..UserInfo::default() };
    let run = |headers: &HeaderMap, is_constrained: bool, refused: Option<usize>| {
        let (impersonator, recorder) = (Impersonator::new(is_constrained), Recorder { refused, ..Recorder::default() });
        let what = AuthorizationAttributes { verb: "get", path: "/", ..AuthorizationAttributes::default() };
        let result = now(impersonator.impersonate(headers, &sender, &what, &recorder, &()));
        (result, recorder.asked.into_inner().unwrap_or_else(PoisonError::into_inner))
    };
    let (result, asked) = run(&headers, is_constrained, None);
    let names_anybody = headers.iter().any(|(name, value)| match name.as_str() {
        "impersonate-user" | "impersonate-uid" => headers.get(name) == Some(value) && !value.is_empty(),
        name => name == "impersonate-group" || name.starts_with("impersonate-extra-"),
    });
    let found = match result {
        Ok(None) => return assert!(!names_anybody, "an impersonation is skipped: {headers:?}"),
        Ok(Some(found)) => found,
        Err(_) => return,
    };
    let user = &found.user;
    assert_eq!(headers.get("impersonate-user").map(HeaderValue::as_bytes), Some(user.name.as_bytes()));
    let is_asked = |resource: &str, subresource: &str, name: &str| {
        asked.iter().any(|question| {
            let [asked_resource, asked_subresource, asked_name] = question.each_ref().map(String::as_str);
            let is_for_all = found.mode.is_constrained() && asked_name == "*" && matches!(asked_subresource, "" | "*");
            asked_resource == resource && (is_for_all || (asked_subresource == subresource && asked_name == name))
        })
    };
    assert!(user.uid.is_empty() || is_asked("uids", "", &user.uid), "{asked:?}");
    let named: Vec<&[u8]> = headers.get_all("impersonate-group").iter().map(HeaderValue::as_bytes).collect();
    for group in &user.groups {
        let comes_with_name =
            named.is_empty() && (group == "system:nodes" || group.starts_with("system:serviceaccounts"));
        let is_standard = group == ALL_AUTHENTICATED || group == ALL_UNAUTHENTICATED;
        assert!(comes_with_name || is_standard || is_asked("groups", "", group), "{group}: {asked:?}");
    }
    for (key, values) in &user.extra {
        assert!(values.iter().all(|value| is_asked("userextras", key, value)), "{key}: {asked:?}");
    }
    // In the legacy mode, each refused question denies the request.
    let (legacy, asked) = run(&headers, false, None);
    assert!(legacy.is_ok());
    assert!(run(&headers, false, Some(usize::from(*options) % asked.len())).0.is_err(), "{asked:?}");
    let named = headers_of(user, ["impersonate-user", "impersonate-uid", "impersonate-group"], "impersonate-extra-");
    let Some(named) = named else { return };
    let again = run(&named, false, None).0.expect("a user").expect("a user").user;
    assert_eq!(with_sorted_extra(again), with_sorted_extra(user.clone()));
}

pub(super) fn impersonation_headers_seeds() -> Vec<Vec<u8>> {
    let with = |(options, text): (u8, &str)| [&[options], text.as_bytes()].concat();
    [(0, IMPERSONATION), (1, IMPERSONATION), (1, ACCOUNT), (1, NODE)].map(with).to_vec()
}
