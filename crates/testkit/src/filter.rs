//! Filters of requests, for faults, watches and recorded requests.

use crate::requests::RecordedRequest;

/// Selects requests. An empty filter selects all requests. Each method narrows the selection.
///
/// ```
/// use pintle_testkit::RequestFilter;
///
/// let status_updates = RequestFilter::verb("update").resource("deployments.apps/status").namespace("team");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct RequestFilter {
    verbs: Vec<String>,
    /// The resource, group and subresource.
    resource: Option<ResourceFilter>,
    namespace: Option<String>,
    name: Option<String>,
    user: Option<String>,
    user_agent: Option<String>,
    code: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ResourceFilter {
    resource: String,
    /// `None` for any group.
    group: Option<String>,
    /// `None` for the resource and all its subresources.
    subresource: Option<String>,
}

/// The properties of a request that filters examine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subject {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) user_agent: String,
    /// `None` before there is an answer.
    pub(crate) code: Option<u16>,
}

impl RequestFilter {
    /// All requests.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests with a verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub fn verb(verb: impl Into<String>) -> Self {
        Self::verbs([verb])
    }

    /// Requests with one of these verbs.
    pub fn verbs(verbs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { verbs: verbs.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Requests that write.
    pub fn writes() -> Self {
        Self::verbs(["create", "update", "patch", "delete", "deletecollection"])
    }

    /// Requests for a resource: its plural name, optionally with its group and its subresource. Examples: `pods`,
    /// `deployments.apps`, `pods/status`, `deployments.apps/scale`. `pods/*` also selects all subresources. A name
    /// without a slash selects no subresource.
    pub fn resource(mut self, resource: impl AsRef<str>) -> Self {
        let (resource, subresource) = resource.as_ref().split_once('/').unwrap_or((resource.as_ref(), ""));
        let (resource, group) = match resource.split_once('.') {
            Some((resource, group)) => (resource, Some(group.to_owned())),
            None => (resource, None),
        };
        let subresource = (subresource != "*").then(|| subresource.to_owned());
        self.resource = Some(ResourceFilter { resource: resource.to_owned(), group, subresource });
        self
    }

    /// Requests in a namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Requests about the object with a name. The path of a create has no name, so this does not select creates for
    /// faults. Recorded creates have the name in their body.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Requests of a user, such as `jane` or `system:serviceaccount:default:operator`.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Requests whose header `User-Agent` contains a text.
    pub fn user_agent(mut self, text: impl Into<String>) -> Self {
        self.user_agent = Some(text.into());
        self
    }

    /// Requests that were answered with an HTTP status code. A fault with this filter never happens, because faults
    /// come before the answer.
    pub fn code(mut self, code: u16) -> Self {
        self.code = Some(code);
        self
    }

    /// True if a recorded request is selected.
    #[must_use]
    pub fn matches(&self, request: &RecordedRequest) -> bool {
        self.selects(&request.subject())
    }

    pub(crate) fn selects(&self, request: &Subject) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && self.resource.as_ref().is_none_or(|wanted| {
                wanted.resource == request.resource
                    && is(&wanted.group, &request.group)
                    && is(&wanted.subresource, &request.subresource)
            })
            && is(&self.namespace, &request.namespace)
            && is(&self.name, &request.name)
            && is(&self.user, &request.user)
            && self.user_agent.as_ref().is_none_or(|text| request.user_agent.contains(text.as_str()))
            && self.code.is_none_or(|code| request.code == Some(code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(filter: RequestFilter, expect: bool) {
        let request = Subject {
            verb: "update".into(),
            group: "apps".into(),
            resource: "deployments".into(),
            subresource: "status".into(),
            namespace: "a".into(),
            name: "b".into(),
            user: "jane".into(),
            user_agent: "x/1".into(),
            code: Some(200),
        };
        assert_eq!(filter.selects(&request), expect, "{filter:?}");
    }

    #[test]
    fn each_condition_narrows_a_filter() {
        let any = RequestFilter::any;
        check(any(), true);
        check(RequestFilter::writes(), true);
        check(RequestFilter::verb("get"), false);
        for (resource, expect) in [
            ("deployments/status", true),
            ("deployments.apps/status", true),
            ("deployments.apps/*", true),
            ("deployments/*", true),
            ("deployments.apps", false),
            ("deployments", false),
            ("deployments.x/status", false),
            ("deployments/scale", false),
            ("pods/status", false),
        ] {
            check(any().resource(resource), expect);
        }
        check(any().namespace("a").name("b").user("jane").user_agent("x").code(200), true);
        check(any().namespace("b"), false);
        check(any().name("a"), false);
        check(any().user("jan"), false);
        check(any().user_agent("y"), false);
        check(any().code(201), false);
    }
}
