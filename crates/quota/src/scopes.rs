//! The scopes of quotas. A quota with scopes counts only the objects that are in all of its scopes.

use std::fmt;

use pintle_selector::{LabelRequirement, Operator};
use pintle_value::{Str, Value};

/// A scope that objects have to be in (`core/v1.ScopedResourceSelectorRequirement`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeRequirement {
    /// The name of the scope.
    pub scope: Str,
    /// The operator on the values: `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: Str,
    /// The values, for scopes with names, such as priority classes.
    pub values: Vec<Str>,
}

impl ScopeRequirement {
    /// Reads an item of `matchExpressions`.
    #[must_use]
    pub fn of(expression: &Value) -> Self {
        let text = |field: &str| expression.str_at(&[field]).into();
        let values = expression.items_at(&["values"]).iter().filter_map(Value::as_str).map(Str::from).collect();
        Self { scope: text("scopeName"), operator: text("operator"), values }
    }

    /// The scopes of the specification of a quota, in both forms.
    #[must_use]
    pub fn of_quota(spec: &Value) -> Vec<Self> {
        let exists = |scope: &str| Self { scope: scope.into(), operator: "Exists".into(), values: Vec::new() };
        let scopes = spec.items_at(&["scopes"]).iter().filter_map(Value::as_str).map(exists);
        scopes.chain(spec.items_at(&["scopeSelector", "matchExpressions"]).iter().map(Self::of)).collect()
    }

    /// True if an object with these names in the scope is selected.
    fn selects(&self, names: &[Str]) -> Result<bool, String> {
        if self.operator == "Exists" {
            return Ok(!names.is_empty());
        }
        let failed = |why: String| format!("failed to parse and convert selector: {why}");
        let operator = match &*self.operator {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "DoesNotExist" => Operator::DoesNotExist,
            operator => {
                let operator = pintle_value::field::quote(operator);
                return Err(failed(format!("{operator} is not a valid scope selector operator")));
            }
        };
        let requirement = LabelRequirement::new(&self.scope, operator, self.values.clone());
        let requirement = requirement.map_err(|errors| failed(errors.message()))?;
        Ok(match names {
            [] => requirement.matches(None),
            names => names.iter().any(|name| requirement.matches(Some(name))),
        })
    }
}

/// Prints the requirement as Go prints the struct.
impl fmt::Display for ScopeRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{} {} [{}]}}", self.scope, self.operator, self.values.join(" "))
    }
}

/// The scopes of an object, of all scopes that its kind knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectScopes {
    /// Scopes, each with whether the object is in it.
    pub(crate) flags: Vec<(&'static str, bool)>,
    /// The names of the object in scopes with names.
    pub(crate) names: Vec<(&'static str, Vec<Str>)>,
}

impl ObjectScopes {
    /// True if the object meets a requirement. A scope that its kind does not know matches nothing.
    ///
    /// # Errors
    /// The requirement is not a valid selector. The error has upstream's message.
    pub fn matches(&self, requirement: &ScopeRequirement) -> Result<bool, String> {
        if let Some((_, flag)) = self.flags.iter().find(|(scope, _)| requirement.scope == *scope) {
            return Ok(*flag);
        }
        match self.names.iter().find(|(scope, _)| requirement.scope == *scope) {
            Some((_, names)) => requirement.selects(names),
            None => Ok(false),
        }
    }

    /// The requirements that the object meets.
    ///
    /// # Errors
    /// A requirement is not a valid selector. The error has upstream's message.
    pub fn matching<'r>(&self, requirements: &'r [ScopeRequirement]) -> Result<Vec<&'r ScopeRequirement>, String> {
        let mut matching = Vec::new();
        for requirement in requirements {
            let failed = |why| format!("error on matching scope {requirement}: {why}");
            if self.matches(requirement).map_err(failed)? {
                matching.push(requirement);
            }
        }
        Ok(matching)
    }

    /// True if the object meets all requirements.
    ///
    /// # Errors
    /// A requirement is not a valid selector. The error has upstream's message.
    pub fn match_all(&self, requirements: &[ScopeRequirement]) -> Result<bool, String> {
        let mut match_all = true;
        for requirement in requirements {
            match_all &= self.matches(requirement)?;
        }
        Ok(match_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_select_names() {
        let check = |operator: &str, values: &[&str], names: &[&str], expect: Result<bool, &str>| {
            let values = values.iter().map(|value| Str::from(*value)).collect();
            let requirement = ScopeRequirement { scope: "PriorityClass".into(), operator: operator.into(), values };
            let names = vec![("PriorityClass", names.iter().map(|name| Str::from(*name)).collect())];
            let found = ObjectScopes { flags: Vec::new(), names }.matches(&requirement);
            assert_eq!(found, expect.map_err(str::to_owned), "{requirement}");
        };
        check("In", &["a", "b"], &["b"], Ok(true));
        check("In", &["a", "b"], &["c"], Ok(false));
        check("In", &["a", "b"], &[], Ok(false));
        check("In", &["a"], &["c", "a"], Ok(true));
        check("NotIn", &["a"], &["a"], Ok(false));
        check("NotIn", &["a"], &["b"], Ok(true));
        check("NotIn", &["a"], &[], Ok(true));
        check("NotIn", &["a"], &["a", "b"], Ok(true));
        check("Exists", &[], &["a"], Ok(true));
        check("Exists", &[], &[], Ok(false));
        check("DoesNotExist", &[], &["a"], Ok(false));
        check("DoesNotExist", &[], &[], Ok(true));
        let why = "failed to parse and convert selector: \"Has\" is not a valid scope selector operator";
        check("Has", &[], &["a"], Err(why));
    }

    #[test]
    fn requirements_are_printed_as_go_does() {
        let requirement = ScopeRequirement {
            scope: "PriorityClass".into(),
            operator: "In".into(),
            values: vec!["a".into(), "b".into()],
        };
        assert_eq!(requirement.to_string(), "{PriorityClass In [a b]}");
    }
}
