//! CEL expressions over the claims of a token, and over the user that results from the claims (upstream:
//! `apiserver/pkg/authentication/cel`).

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use pintle_cel::{
    CheckedExpr, Env, List, Map, PER_CALL_COST_LIMIT, Program, Type, TypeAdapter, TypeProvider, Value as CelValue,
    is_reserved,
};
use pintle_value::{Object, Str, Value, object};
use pintle_versions::{EffectiveVersion, Minor};

use crate::UserInfo;

/// The type of the variable `user`.
const USER: &str = "kubernetes.UserInfo";

/// The environment of expressions over `claims`.
static CLAIMS: LazyLock<Env> = LazyLock::new(|| {
    Env::kubernetes_of(EffectiveVersion::of(Minor::DEFAULT)).variable("claims", Type::map(Type::String, Type::Any))
});
/// The environment of expressions over `user`.
static USERS: LazyLock<Env> = LazyLock::new(|| {
    Env::kubernetes_of(EffectiveVersion::of(Minor::DEFAULT))
        .type_provider(Arc::new(UserTypes))
        .variable("user", Type::object(USER))
});

struct UserTypes;

impl TypeProvider for UserTypes {
    fn has_type(&self, name: &str) -> bool {
        name == USER
    }

    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        let texts = || Type::list(Type::String);
        match (type_name, field) {
            (USER, "username" | "uid") => Some(Type::String),
            (USER, "groups") => Some(texts()),
            (USER, "extra") => Some(Type::map(Type::String, texts())),
            _ => None,
        }
    }
}

/// Converts JSON as Go decodes it into `any`, where every number is a `float64`. Expressions can use the escaped form
/// of keys that are not identifiers.
#[derive(Debug)]
struct GoJson;

static GO_JSON: GoJson = GoJson;

impl TypeAdapter for GoJson {
    fn read<'a>(&'a self, json: &'a Value) -> CelValue<'a> {
        match json {
            Value::Null => CelValue::Null,
            Value::Bool(flag) => CelValue::Bool(*flag),
            Value::Int(number) => CelValue::Double(*number as f64),
            Value::Float(number) => CelValue::Double(*number),
            Value::String(text) => CelValue::str(text),
            Value::Array(items) => CelValue::List(List::Json { items, adapter: self }),
            Value::Object(object) => CelValue::Map(Map::Json { object, adapter: self }),
        }
    }

    fn field<'a>(&'a self, object: &'a Object, name: &str) -> Option<CelValue<'a>> {
        object.get(&unescape(name)).map(|json| self.read(json))
    }

    fn has_field(&self, object: &Object, name: &str) -> bool {
        object.contains_key(&unescape(name))
    }

    fn element<'a>(&'a self, items: &'a [Value], index: usize) -> Option<CelValue<'a>> {
        items.get(index).map(|item| self.read(item))
    }
}

/// The key of an escaped name; the name itself if it is not escaped correctly (upstream: `cel.Unescape`).
fn unescape(name: &str) -> Cow<'_, str> {
    if !name.contains("__") {
        return Cow::Borrowed(name);
    }
    let (mut out, mut rest) = (String::with_capacity(name.len()), name);
    while let Some(start) = rest.find("__") {
        let inner = &rest[start + 2..];
        let Some(end) = inner.find('_').filter(|end| *end > 0 && inner[*end..].starts_with("__")) else {
            // No escape sequence begins here.
            out.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        };
        let symbol = match &inner[..end] {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            word if is_reserved(word) && name.len() == word.len() + 4 => word,
            _ => return Cow::Borrowed(name),
        };
        out.push_str(&rest[..start]);
        out.push_str(symbol);
        rest = &inner[end + 2..];
    }
    Cow::Owned(out + rest)
}

/// A compiled expression over `claims` or `user`.
#[derive(Debug)]
pub struct ClaimsExpression {
    text: Str,
    program: Program,
    /// Whether the expression uses `claims.email`, and whether it uses `claims.email_verified`.
    pub(super) uses_email: bool,
    pub(super) uses_email_verified: bool,
}

/// Why a user is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(pub String);

const NO_TEXTS: &str = "expression must return a string or a list of strings";

impl ClaimsExpression {
    /// Compiles a mapping. The type of its result is not known before its evaluation.
    pub(super) fn mapping(text: &Str) -> Result<Self, String> {
        Self::compile(&CLAIMS, text, false)
    }

    /// Compiles a rule about claims.
    pub(super) fn claim_rule(text: &Str) -> Result<Self, String> {
        Self::compile(&CLAIMS, text, true)
    }

    /// Compiles a rule about users.
    pub(super) fn user_rule(text: &Str) -> Result<Self, String> {
        Self::compile(&USERS, text, true)
    }

    fn compile(env: &Env, text: &Str, is_rule: bool) -> Result<Self, String> {
        let checked: CheckedExpr = env.check(text).map_err(|issues| format!("compilation failed: {issues}"))?;
        if is_rule && *checked.output_type() != Type::Bool {
            return Err("must evaluate to bool".to_owned());
        }
        let program = env.program(&checked).map_err(|error| format!("program instantiation failed: {error}"))?;
        let uses = |claim| checked.selects("claims", claim);
        let (uses_email, uses_email_verified) = (uses("email"), uses("email_verified"));
        Ok(Self { text: text.clone(), program, uses_email, uses_email_verified })
    }

    /// Evaluates the expression with an object as its variable.
    fn evaluate<T>(
        &self,
        variable: &Value,
        read: impl FnOnce(CelValue<'_>) -> Result<T, String>,
    ) -> Result<T, RuleError> {
        let bindings = [GO_JSON.read(variable)];
        match self.program.evaluate(&bindings, PER_CALL_COST_LIMIT).result {
            Ok(value) => read(value).map_err(RuleError),
            Err(error) => Err(RuleError(format!("expression '{}' resulted in error: {error}", self.text))),
        }
    }

    /// Evaluates the expression for claims. The result must be a text. `what` names the purpose of the text in the
    /// error.
    fn text(&self, claims: &Value, what: &str) -> Result<Str, RuleError> {
        self.evaluate(claims, |value| match value {
            CelValue::String(text) => Ok(Str::from(&*text)),
            _ => Err(format!("{what} claim expression must return a string")),
        })
    }

    /// Evaluates the expression for claims. The result must be texts. Empty texts are left out.
    fn texts(&self, claims: &Value) -> Result<Vec<Str>, RuleError> {
        self.evaluate(claims, |value| {
            let text = |value: CelValue<'_>| match value {
                CelValue::String(text) => Ok(Str::from(&*text)),
                _ => Err(NO_TEXTS.to_owned()),
            };
            let mut texts = match value {
                CelValue::Null => Vec::new(),
                CelValue::List(list) => list.iter().map(text).collect::<Result<_, _>>()?,
                value => vec![text(value)?],
            };
            texts.retain(|text| !text.is_empty());
            Ok(texts)
        })
    }

    /// Checks that the expression is true.
    fn check(&self, variable: &Value, message: &str) -> Result<(), RuleError> {
        self.evaluate(variable, |value| match value {
            CelValue::Bool(true) => Ok(()),
            CelValue::Bool(false) => Err(format!("validation expression '{}' failed: {message}", self.text)),
            _ => Err("validation expression must return a boolean".to_owned()),
        })
    }
}

/// The compiled expressions of an issuer.
#[derive(Debug, Default)]
pub struct JwtExpressions {
    pub(super) username: Option<ClaimsExpression>,
    pub(super) groups: Option<ClaimsExpression>,
    pub(super) uid: Option<ClaimsExpression>,
    /// The attributes with their values.
    pub(super) extra: Vec<(Str, ClaimsExpression)>,
    /// The rules with their messages.
    pub(super) claim_rules: Vec<(ClaimsExpression, Str)>,
    pub(super) user_rules: Vec<(ClaimsExpression, Str)>,
}

impl JwtExpressions {
    /// The user name, if an expression maps it.
    pub(crate) fn username(&self, claims: &Value) -> Option<Result<Str, RuleError>> {
        self.username.as_ref().map(|expression| expression.text(claims, "username"))
    }

    /// The groups, if an expression maps them.
    pub(crate) fn groups(&self, claims: &Value) -> Option<Result<Vec<Str>, RuleError>> {
        self.groups.as_ref().map(|expression| expression.texts(claims))
    }

    /// The uid, if an expression maps it.
    pub(crate) fn uid(&self, claims: &Value) -> Option<Result<Str, RuleError>> {
        self.uid.as_ref().map(|expression| expression.text(claims, "uid"))
    }

    /// The extra attributes that have values. The error names the expression.
    pub(crate) fn extra(&self, claims: &Value) -> Result<Vec<(Str, Vec<Str>)>, RuleError> {
        let mut extra = Vec::new();
        for (key, expression) in &self.extra {
            let values = expression.texts(claims).map_err(|RuleError(error)| match &*error {
                NO_TEXTS => {
                    RuleError(format!("oidc: error evaluating extra claim expression: {}: {error}", expression.text))
                }
                _ => RuleError(error),
            })?;
            if !values.is_empty() {
                extra.push((key.clone(), values));
            }
        }
        Ok(extra)
    }

    /// Checks the claims.
    pub(crate) fn check_claims(&self, claims: &Value) -> Result<(), RuleError> {
        self.claim_rules.iter().try_for_each(|(rule, message)| rule.check(claims, message))
    }

    /// Checks the user.
    pub(crate) fn check_user(&self, user: &UserInfo) -> Result<(), RuleError> {
        if self.user_rules.is_empty() {
            return Ok(());
        }
        let list = |texts: &[Str]| Value::Array(texts.iter().map(|text| Value::from(text.clone())).collect());
        let extra: Object = user.extra.iter().map(|(key, values)| (key.clone(), list(values))).collect();
        let user = object! {
            "username": user.name.clone(), "uid": user.uid.clone(), "groups": list(&user.groups), "extra": Value::Object(extra),
        };
        self.user_rules.iter().try_for_each(|(rule, message)| rule.check(&user, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_names_are_those_of_keys() {
        for (name, expect) in [
            ("a", "a"),
            ("a_b", "a_b"),
            ("a__dot__b__slash__c", "a.b/c"),
            ("a__dash__b", "a-b"),
            ("a__underscores__b", "a__b"),
            ("__namespace__", "namespace"),
            ("a__namespace__", "a__namespace__"),
            ("__other__", "__other__"),
            ("___", "___"),
            ("a__", "a__"),
            ("__", "__"),
        ] {
            assert_eq!(unescape(name), expect, "{name}");
        }
    }
}
