//! FlowSchema objects, as far as they decide about requests.

use pintle_value::{Str, Value};

/// The name of the schema and the level of requests without limit.
pub(crate) const EXEMPT: &str = "exempt";
/// The name of the schema and the level of requests that no other schema matches.
pub(crate) const CATCH_ALL: &str = "catch-all";

const DEFAULT_PRECEDENCE: i64 = 1000;
const CATCH_ALL_PRECEDENCE: i64 = 10_000;
/// The condition of a schema whose priority level does not exist.
const DANGLING: &str = "Dangling";

/// The part of a request that tells the flows of a schema apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distinguisher {
    User,
    Namespace,
}

/// A FlowSchema.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FlowSchema {
    pub(crate) name: Str,
    pub(crate) uid: Str,
    pub(crate) precedence: i64,
    pub(crate) priority_level: Str,
    pub(crate) distinguisher: Option<Distinguisher>,
    pub(crate) rules: Vec<Rule>,
    /// The present condition `Dangling`.
    dangling: Condition,
}

/// Subjects, and the requests of these that a schema matches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    pub(crate) subjects: Vec<Subject>,
    pub(crate) resource_rules: Vec<ResourceRule>,
    pub(crate) non_resource_rules: Vec<NonResourceRule>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Subject {
    /// The user of a name, or `*`.
    User(Str),
    /// The members of a group, or `*`.
    Group(Str),
    /// The service accounts of a namespace, with their name or `*`.
    ServiceAccount { namespace: Str, name: Str },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResourceRule {
    pub(crate) verbs: Names,
    pub(crate) groups: Names,
    /// Resources and `resource/subresource`.
    pub(crate) resources: Names,
    pub(crate) cluster_scope: bool,
    pub(crate) namespaces: Names,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NonResourceRule {
    pub(crate) verbs: Names,
    pub(crate) urls: Vec<Str>,
}

/// A list of names, or all names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Names {
    All,
    These(Vec<Str>),
}

impl Names {
    pub(crate) fn contain(&self, name: &str) -> bool {
        match self {
            Names::All => true,
            Names::These(names) => names.iter().any(|other| other == name),
        }
    }

    /// As in upstream, `*` beside other names has no special meaning.
    fn decode(object: &Value, field: &str) -> Self {
        match texts(object, field) {
            names if names == ["*"] => Names::All,
            names => Names::These(names),
        }
    }
}

fn texts(object: &Value, field: &str) -> Vec<Str> {
    object.items_at(&[field]).iter().map(|text| text.as_str().unwrap_or_default().into()).collect()
}

/// The condition `Dangling` of a schema, as far as the server sets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Condition {
    status: Str,
    reason: Str,
    message: Str,
}

/// The condition `Dangling` that a schema should have and has not (upstream: `fsStatusUpdate`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DanglingCondition {
    /// The name of the schema.
    pub flow_schema: Str,
    /// `True` if the priority level of the schema does not exist, otherwise `False`.
    pub status: &'static str,
    /// `NotFound` or `Found`.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl FlowSchema {
    /// Reads an object.
    pub(crate) fn decode(object: &Value) -> Self {
        let condition = object.items_at(&["status", "conditions"]).iter();
        let dangling = condition.filter(|condition| condition.str_at(&["type"]) == DANGLING).map(|condition| {
            let text = |field: &str| Str::from(condition.str_at(&[field]));
            Condition { status: text("status"), reason: text("reason"), message: text("message") }
        });
        Self {
            name: object.name().into(),
            uid: object.uid().into(),
            precedence: object.int_at(&["spec", "matchingPrecedence"]).unwrap_or(DEFAULT_PRECEDENCE),
            priority_level: object.str_at(&["spec", "priorityLevelConfiguration", "name"]).into(),
            distinguisher: match object.str_at(&["spec", "distinguisherMethod", "type"]) {
                "ByUser" => Some(Distinguisher::User),
                "ByNamespace" => Some(Distinguisher::Namespace),
                _ => None,
            },
            rules: object.items_at(&["spec", "rules"]).iter().map(Rule::decode).collect(),
            dangling: dangling.into_iter().next().unwrap_or_default(),
        }
    }

    /// The mandatory schema `exempt`, which exists without its object.
    pub(crate) fn exempt() -> Self {
        Self::mandatory(EXEMPT, 1, None, &["system:masters"])
    }

    /// The mandatory schema `catch-all`, which exists without its object.
    pub(crate) fn catch_all() -> Self {
        let groups = ["system:unauthenticated", "system:authenticated"];
        Self::mandatory(CATCH_ALL, CATCH_ALL_PRECEDENCE, Some(Distinguisher::User), &groups)
    }

    /// A schema for all requests of some groups, with the priority level of the same name.
    fn mandatory(name: &'static str, precedence: i64, distinguisher: Option<Distinguisher>, groups: &[&str]) -> Self {
        let resource_rule = ResourceRule {
            verbs: Names::All,
            groups: Names::All,
            resources: Names::All,
            cluster_scope: true,
            namespaces: Names::All,
        };
        let rule = Rule {
            subjects: groups.iter().map(|group| Subject::Group((*group).into())).collect(),
            resource_rules: vec![resource_rule],
            non_resource_rules: vec![NonResourceRule { verbs: Names::All, urls: vec!["*".into()] }],
        };
        Self {
            name: name.into(),
            uid: Str::default(),
            precedence,
            priority_level: name.into(),
            distinguisher,
            rules: vec![rule],
            dangling: Condition::default(),
        }
    }

    /// The condition that the schema should have and has not. `is_dangling` says that its priority level does not exist.
    pub(crate) fn dangling_condition(&self, is_dangling: bool) -> Option<DanglingCondition> {
        let (status, reason, end) = match is_dangling {
            true => ("True", "NotFound", "but there is no such object"),
            false => ("False", "Found", "and it exists"),
        };
        let level = pintle_value::print::quote(&self.priority_level);
        let message = format!("This FlowSchema references the PriorityLevelConfiguration object named {level} {end}");
        let Condition { status: old_status, reason: old_reason, message: old_message } = &self.dangling;
        let is_set = *old_status == status && *old_reason == reason && *old_message == message;
        (!is_set).then(|| DanglingCondition { flow_schema: self.name.clone(), status, reason, message })
    }
}

impl Rule {
    fn decode(object: &Value) -> Self {
        Self {
            subjects: object.items_at(&["subjects"]).iter().filter_map(Subject::decode).collect(),
            resource_rules: object.items_at(&["resourceRules"]).iter().map(ResourceRule::decode).collect(),
            non_resource_rules: object.items_at(&["nonResourceRules"]).iter().map(NonResourceRule::decode).collect(),
        }
    }
}

impl Subject {
    fn decode(object: &Value) -> Option<Self> {
        let name = |field: &str| object.get(field).map(|named| Str::from(named.str_at(&["name"])));
        match object.str_at(&["kind"]) {
            "User" => name("user").map(Subject::User),
            "Group" => name("group").map(Subject::Group),
            "ServiceAccount" => {
                let namespace = object.str_at(&["serviceAccount", "namespace"]).into();
                name("serviceAccount").map(|name| Subject::ServiceAccount { namespace, name })
            }
            _ => None,
        }
    }
}

impl ResourceRule {
    fn decode(object: &Value) -> Self {
        Self {
            verbs: Names::decode(object, "verbs"),
            groups: Names::decode(object, "apiGroups"),
            resources: Names::decode(object, "resources"),
            cluster_scope: object.bool_at(&["clusterScope"]),
            namespaces: Names::decode(object, "namespaces"),
        }
    }
}

impl NonResourceRule {
    fn decode(object: &Value) -> Self {
        Self { verbs: Names::decode(object, "verbs"), urls: texts(object, "nonResourceURLs") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bootstrap_objects, object};

    #[test]
    fn mandatory_schemas_equal_their_objects() {
        let schemas = bootstrap_objects("matchingPrecedence");
        for mandatory in [FlowSchema::exempt(), FlowSchema::catch_all()] {
            let decoded = schemas.iter().map(FlowSchema::decode).find(|schema| schema.name == mandatory.name);
            assert_eq!(decoded, Some(mandatory));
        }
    }

    #[test]
    fn conditions_are_set_once() {
        let schema = |status: &str| {
            let text = format!(
                r#"{{"metadata":{{"name":"s"}},"spec":{{"priorityLevelConfiguration":{{"name":"p"}}}},"status":{status}}}"#
            );
            FlowSchema::decode(&object(&text))
        };
        let condition = schema("{}").dangling_condition(false).expect("a condition");
        assert_eq!((condition.status, condition.reason), ("False", "Found"));
        let message = "This FlowSchema references the PriorityLevelConfiguration object named \\\"p\\\" and it exists";
        assert_eq!(condition.message, message.replace('\\', ""));
        let status = format!(
            r#"{{"conditions":[{{"type":"x"}},{{"type":"Dangling","status":"False","reason":"Found","message":"{message}"}}]}}"#
        );
        assert_eq!(schema(&status).dangling_condition(false), None);
        let condition = schema(&status).dangling_condition(true).expect("a condition");
        assert_eq!((condition.status, condition.reason), ("True", "NotFound"));
        assert!(condition.message.ends_with("but there is no such object"));
    }
}
