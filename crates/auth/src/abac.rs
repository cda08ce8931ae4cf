//! The ABAC authorizer: policies from a file, one JSON object in each line (upstream: `pkg/auth/authorizer/abac`,
//! `pkg/apis/abac`).

use std::sync::LazyLock;

use pintle_schema::Scalar;
use pintle_value::{Str, Value};

use crate::config_file::{ConfigFileError, ConfigScheme, ConfigTypes};
use crate::user::ALL_AUTHENTICATED;
use crate::{
    AuthFuture, Authorization, AuthorizationAttributes, Authorizer, Decision, NonResourceRule, ResourceRule,
    RulesReview, UserInfo,
};

/// The versions of a policy.
const V0: &str = "abac.authorization.kubernetes.io/v0";
const V1BETA1: &str = "abac.authorization.kubernetes.io/v1beta1";
const POLICY: &str = "Policy";

/// The longest line that upstream's scanner reads, in bytes.
const MAX_LINE: usize = 64 * 1024;

static SCHEME: LazyLock<ConfigScheme> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let (text, flag) = (types.scalar(Scalar::String), types.scalar(Scalar::Bool));
    let fields = |names: &[&'static str]| {
        let ty = |name: &&'static str| (*name, if *name == "readonly" { flag } else { text });
        names.iter().map(ty).collect::<Vec<_>>()
    };
    let v0 = ["kind", "apiVersion", "user", "group", "readonly", "resource", "namespace"];
    let v0 = types.object("v0.Policy", &fields(&v0));
    let spec = ["user", "group", "readonly", "apiGroup", "resource", "namespace", "nonResourcePath"];
    let spec = types.object("v1beta1.PolicySpec", &fields(&spec));
    let v1beta1 = types.object("v1beta1.Policy", &[("kind", text), ("apiVersion", text), ("spec", spec)]);
    ConfigScheme {
        name: "k8s.io/kubernetes/pkg/apis/abac/register.go:30",
        strict: false,
        types,
        kinds: vec![(V0, POLICY, v0), (V1BETA1, POLICY, v1beta1)],
    }
});

/// The policies of a file, in order. The first matching policy allows a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AbacAuthorizer {
    policies: Vec<Policy>,
}

/// The users, and the requests that they may send. Empty fields match nothing, except that a policy may name a user, a
/// group or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Policy {
    user: Str,
    group: Str,
    readonly: bool,
    api_group: Str,
    resource: Str,
    namespace: Str,
    non_resource_path: Str,
}

/// Why a policy file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AbacError {
    /// A line is not a policy.
    #[error("error reading policy file {path}, line {line}: {text}: {error}")]
    Line {
        /// The file.
        path: String,
        /// The number of the line, from 1 on.
        line: usize,
        /// The line.
        text: String,
        /// The error in the line.
        error: ConfigFileError,
    },
    /// A line is too long.
    #[error("error reading policy file {path}: bufio.Scanner: token too long")]
    TooLong {
        /// The file.
        path: String,
    },
}

impl AbacAuthorizer {
    /// Reads the content of a policy file. The path is for errors.
    ///
    /// # Errors
    /// A line is not a policy.
    pub fn parse(path: &str, content: &str) -> Result<Self, AbacError> {
        let mut policies = Vec::new();
        let mut has_unversioned = false;
        for (line, text) in (1..).zip(content.lines()) {
            if text.len() >= MAX_LINE {
                return Err(AbacError::TooLong { path: path.to_owned() });
            }
            let trimmed = text.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            let (policy, unversioned) = Policy::read(text).map_err(|error| AbacError::Line {
                path: path.to_owned(),
                line,
                text: text.to_owned(),
                error,
            })?;
            policies.push(policy);
            has_unversioned |= unversioned;
        }
        if has_unversioned {
            tracing::warn!(path, "The policy file contains rules without a version");
        }
        Ok(Self { policies })
    }
}

impl Policy {
    /// Reads a line. Returns the policy, and true if the line has no version.
    fn read(line: &str) -> Result<(Self, bool), ConfigFileError> {
        let (decoded, unversioned) = match SCHEME.decode(line.as_bytes()) {
            Err(ConfigFileError::MissingType { .. } | ConfigFileError::UnknownKind(_)) => {
                (SCHEME.decode_as(line.as_bytes(), (V0, POLICY))?, true)
            }
            decoded => (decoded?, false),
        };
        let policy = match &*decoded.api_version {
            V0 => Self::from_v0(&decoded.value),
            _ => Self::from_v1beta1(decoded.value.get("spec").unwrap_or(&Value::Null)),
        };
        Ok((policy, unversioned))
    }

    fn common(value: &Value) -> Self {
        let text = |name: &str| Str::from(value.str_at(&[name]));
        let mut policy = Self {
            user: text("user"),
            group: text("group"),
            readonly: value.bool_at(&["readonly"]),
            api_group: text("apiGroup"),
            resource: text("resource"),
            namespace: text("namespace"),
            non_resource_path: text("nonResourcePath"),
        };
        // `*` matches authenticated users only.
        if policy.user == "*" || policy.group == "*" {
            policy.group = ALL_AUTHENTICATED.into();
            policy.user = Str::default();
        }
        policy
    }

    fn from_v1beta1(spec: &Value) -> Self {
        Self::common(spec)
    }

    /// In this version, absent fields match everything.
    fn from_v0(value: &Value) -> Self {
        let mut policy = Self { api_group: "*".into(), non_resource_path: Str::default(), ..Self::common(value) };
        if policy.user.is_empty() && policy.group.is_empty() {
            policy.group = ALL_AUTHENTICATED.into();
        }
        if policy.namespace.is_empty() && policy.resource.is_empty() {
            policy.non_resource_path = "*".into();
        }
        for field in [&mut policy.namespace, &mut policy.resource] {
            if field.is_empty() {
                *field = "*".into();
            }
        }
        policy
    }

    fn applies_to(&self, user: &UserInfo) -> bool {
        let names_someone = !self.user.is_empty() || !self.group.is_empty();
        let is_user = matches!(&*self.user, "" | "*") || self.user == user.name;
        let is_member = matches!(&*self.group, "" | "*") || user.groups.contains(&self.group);
        names_someone && is_user && is_member
    }

    fn allows(&self, request: &AuthorizationAttributes<'_>) -> bool {
        let reads = matches!(request.verb, "get" | "list" | "watch");
        if self.readonly && !reads {
            return false;
        }
        let matches = |own: &str, other: &str| own == "*" || own == other;
        if !request.is_resource_request() {
            let path = &*self.non_resource_path;
            let prefix = path.ends_with('*').then(|| path.trim_end_matches('*'));
            return path == request.path || prefix.is_some_and(|prefix| request.path.starts_with(prefix));
        }
        matches(&self.namespace, request.namespace)
            && matches(&self.resource, request.resource)
            && matches(&self.api_group, request.group)
    }

    fn verbs(&self) -> Vec<Str> {
        let verbs: &[&str] = if self.readonly { &["get", "list", "watch"] } else { &["*"] };
        verbs.iter().map(|verb| Str::from(*verb)).collect()
    }
}

impl Authorizer for AbacAuthorizer {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a AuthorizationAttributes<'a>,
    ) -> AuthFuture<'a, Authorization> {
        let allowed = self.policies.iter().any(|policy| policy.applies_to(user) && policy.allows(attributes));
        AuthFuture::ready(match allowed {
            true => Authorization::ALLOW,
            false => Authorization { decision: Decision::NoOpinion, reason: "No policy matched.".into(), error: None },
        })
    }

    fn rules<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> AuthFuture<'a, RulesReview> {
        let mut review = RulesReview::default();
        let of_namespace = |policy: &&Policy| policy.namespace == "*" || policy.namespace == namespace;
        for policy in self.policies.iter().filter(|policy| policy.applies_to(user)).filter(of_namespace) {
            if !policy.resource.is_empty() {
                review.resource_rules.push(ResourceRule {
                    verbs: policy.verbs(),
                    groups: vec![policy.api_group.clone()],
                    resources: vec![policy.resource.clone()],
                    names: Vec::new(),
                });
            }
            if !policy.non_resource_path.is_empty() {
                let paths = vec![policy.non_resource_path.clone()];
                review.non_resource_rules.push(NonResourceRule { verbs: policy.verbs(), paths });
            }
        }
        AuthFuture::ready(review)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policies(lines: &[&str]) -> AbacAuthorizer {
        AbacAuthorizer::parse("policy.jsonl", &lines.join("\n")).expect("policies")
    }

    /// Whether `NAME` or `NAME/GROUP` may do `VERB [GROUP:]RESOURCE[@NAMESPACE]` or `VERB /PATH`. Users are
    /// authenticated, unless the name is empty.
    fn allows(authorizer: &AbacAuthorizer, who: &str, request: &str) -> bool {
        let (name, group) = who.split_once('/').unwrap_or((who, ""));
        let mut groups: Vec<Str> = if group.is_empty() { vec![] } else { vec![group.into()] };
        groups.extend((!name.is_empty()).then(|| ALL_AUTHENTICATED.into()));
        let user = UserInfo { name: name.into(), groups, ..UserInfo::default() };
        let (verb, target) = request.split_once(' ').unwrap();
        let attributes = if target.starts_with('/') {
            AuthorizationAttributes { verb, path: target, ..AuthorizationAttributes::default() }
        } else {
            let (target, namespace) = target.split_once('@').unwrap_or((target, ""));
            let (group, resource) = target.split_once(':').unwrap_or(("", target));
            AuthorizationAttributes { verb, group, resource, namespace, ..AuthorizationAttributes::default() }
        };
        let AuthFuture::Ready(Some(found)) = authorizer.authorize(&user, &attributes) else { panic!("not ready") };
        assert_eq!(
            (&*found.reason, found.is_allowed()),
            if found.is_allowed() { ("", true) } else { ("No policy matched.", false) }
        );
        found.is_allowed()
    }

    #[track_caller]
    fn check(authorizer: &AbacAuthorizer, rows: &[(&str, &str, bool)]) {
        for (who, request, expect) in rows {
            assert_eq!(allows(authorizer, who, request), *expect, "{who}: {request}");
        }
    }

    #[test]
    fn policies_without_a_version_match_what_they_leave_out() {
        let authorizer = policies(&[
            r#"{"readonly": true, "resource": "events"}"#,
            r#"{"user":"scheduler", "readonly": true, "resource": "pods"}"#,
            r#"{"user":"scheduler", "resource": "bindings"}"#,
            r#"{"user":"alice", "namespace": "caribou"}"#,
            r#"{"user":"bob", "readonly": true, "namespace": "caribou"}"#,
            r#"{"kind":"Policy", "group":"admins"}"#,
        ]);
        check(
            &authorizer,
            &[
                ("scheduler", "list pods@ns", true),
                ("scheduler", "list pods", true),
                ("scheduler", "create pods@ns", false),
                ("scheduler", "create bindings@ns", true),
                ("alice", "update x:widgets@caribou", true),
                ("alice", "get pods@ns", false),
                ("alice", "get /", false),
                ("bob", "watch pods@caribou", true),
                ("bob", "update pods@caribou", false),
                ("chuck", "get events@ns", true),
                ("chuck", "update events@ns", false),
                ("", "get events@ns", false),
                ("dave/admins", "delete apps:deployments@ns", true),
                ("dave/admins", "get /metrics", true),
            ],
        );
    }

    #[test]
    fn policies_match_groups_resources_namespaces_and_paths() {
        let line = |spec: &str| {
            format!(r#"{{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{spec}}}"#)
        };
        let lines = [
            r#"{"user":"*", "readonly": true, "nonResourcePath": "/api"}"#,
            r#"{"group":"*", "nonResourcePath": "/custom"}"#,
            r#"{"user":"*", "nonResourcePath": "/root/*"}"#,
            r#"{"user":"paths", "nonResourcePath": "*"}"#,
            r#"{"user":"*", "readonly": true, "resource": "events", "namespace": "*"}"#,
            r#"{"user":"debbie", "resource": "pods", "namespace": "caribou"}"#,
            r#"{"user":"any", "resource": "*", "namespace": "all", "apiGroup": "*"}"#,
            r#"{"user":"any", "resource": "*", "namespace": "core", "apiGroup": ""}"#,
            r#"{"user":"any", "resource": "*", "namespace": "x", "apiGroup": "x"}"#,
            r#"{"user":"both", "group": "team", "resource": "*", "namespace": "*", "apiGroup": "*"}"#,
            r#"{"resource": "*", "namespace": "*", "apiGroup": "*"}"#,
        ]
        .map(line);
        let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        lines.extend(["", "  # a comment"]);
        let authorizer = policies(&lines);
        check(
            &authorizer,
            &[
                ("chuck", "get /api", true),
                ("chuck", "create /api", false),
                ("chuck", "update /custom", true),
                ("", "get /custom", false),
                ("chuck", "get /root", false),
                ("chuck", "get /root/a/b", true),
                ("paths", "get /metrics", true),
                ("paths", "get pods@ns", false),
                ("chuck", "get events", true),
                ("chuck", "get pods@ns", false),
                ("debbie", "update pods@caribou", true),
                ("debbie", "update pods@ns", false),
                ("any", "get x:foo@all", true),
                ("any", "get x:foo@core", false),
                ("any", "get x:foo@x", true),
                ("both/team", "get pods@ns", true),
                ("both", "get pods@ns", false),
                ("other/team", "get pods@ns", false),
            ],
        );
    }

    #[test]
    fn a_line_that_is_no_policy_is_an_error() {
        for (line, expect) in [
            (r#"{"user":"#, "couldn't get version/kind; json parse error: unexpected end of JSON input"),
            (r#"{"user":1}"#, "json: cannot unmarshal number into Go struct field Policy.user of type string"),
            (
                r#"{"apiVersion":"v1","kind":"Pod"}"#,
                r#"no kind "Pod" is registered for version "v1" in scheme "k8s.io/kubernetes/pkg/apis/abac/register.go:30""#,
            ),
        ] {
            let error = AbacAuthorizer::parse("f", &format!("\n{line}")).unwrap_err().to_string();
            assert_eq!(error, format!("error reading policy file f, line 2: {line}: {expect}"));
        }
        assert!(AbacAuthorizer::parse("f", &"x".repeat(MAX_LINE)).unwrap_err().to_string().ends_with("token too long"));
        assert_eq!(AbacAuthorizer::parse("f", ""), Ok(AbacAuthorizer::default()));
    }

    #[test]
    fn the_rules_of_a_user_are_those_of_a_namespace() {
        let authorizer =
            policies(&[r#"{"user":"a","readonly":true}"#, r#"{"user":"a","namespace":"x"}"#, r#"{"user":"b"}"#]);
        let user = UserInfo { name: "a".into(), ..UserInfo::default() };
        let AuthFuture::Ready(Some(review)) = authorizer.rules(&user, "ns") else { panic!("not ready") };
        assert_eq!((review.resource_rules.len(), review.non_resource_rules.len()), (1, 1));
        assert_eq!(review.resource_rules[0].verbs, ["get", "list", "watch"]);
        let AuthFuture::Ready(Some(review)) = authorizer.rules(&user, "x") else { panic!("not ready") };
        assert_eq!((review.resource_rules.len(), review.non_resource_rules.len()), (2, 1));
    }
}
