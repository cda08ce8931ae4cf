//! Answers the checks that expressions make with `authorizer`, by asking the authorizer of the request (upstream:
//! `admission/plugin/authorizer`).

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pintle_auth::user::service_account_info;
use pintle_auth::{Authorization, AuthorizationAttributes, UserInfo};
use pintle_cel::{AccessCheck, AccessChecker, AccessDecision, AccessSubject, AccessTarget, ResourceTarget};
use pintle_locks::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::AdmissionAttributes;

/// A decided check.
struct Decided {
    subject: AccessSubject,
    target: OwnedTarget,
    verb: String,
    decision: AccessDecision,
}

#[derive(PartialEq)]
enum OwnedTarget {
    Path(String),
    Resource(Box<ResourceTarget>),
}

impl OwnedTarget {
    fn of(target: AccessTarget<'_>) -> Self {
        match target {
            AccessTarget::Path(path) => Self::Path(path.to_owned()),
            AccessTarget::Resource(resource) => Self::Resource(Box::new(resource.clone())),
        }
    }

    fn is(&self, target: AccessTarget<'_>) -> bool {
        match (self, target) {
            (Self::Path(own), AccessTarget::Path(path)) => own == path,
            (Self::Resource(own), AccessTarget::Resource(resource)) => **own == *resource,
            _ => false,
        }
    }
}

/// Asks the authorizer of a request. Equal checks of a request are asked once.
pub(super) struct RequestAccess<'a> {
    attributes: &'a AdmissionAttributes<'a>,
    decided: Mutex<Vec<Decided>>,
}

impl<'a> RequestAccess<'a> {
    pub(super) fn new(attributes: &'a AdmissionAttributes<'a>) -> Self {
        Self { attributes, decided: Mutex::default() }
    }

    /// The resource of the request, for `authorizer.requestResource`.
    pub(super) fn target(&self) -> ResourceTarget {
        let attributes = self.attributes;
        ResourceTarget {
            group: attributes.resource.group.to_string(),
            resource: attributes.resource.plural.to_string(),
            subresource: attributes.subresource.to_owned(),
            namespace: attributes.namespace.to_owned(),
            name: attributes.name.to_owned(),
            ..ResourceTarget::default()
        }
    }

    fn decide(&self, check: &AccessCheck<'_>) -> AccessDecision {
        let account;
        let user: &UserInfo = match check.subject {
            AccessSubject::Requester => self.attributes.user,
            AccessSubject::ServiceAccount { namespace, name } => {
                account = service_account_info(namespace, name);
                &account
            }
        };
        let verb = check.verb;
        let attributes = match check.target {
            AccessTarget::Path(path) => AuthorizationAttributes { verb, path, ..AuthorizationAttributes::default() },
            AccessTarget::Resource(target) => AuthorizationAttributes {
                verb,
                group: &target.group,
                version: "*",
                resource: &target.resource,
                subresource: &target.subresource,
                namespace: &target.namespace,
                name: &target.name,
                field_selector: &target.field_selector,
                label_selector: &target.label_selector,
                path: "",
            },
        };
        let Authorization { decision, reason, error } =
            match wait(self.attributes.authorizer.authorize(user, &attributes)) {
                Ok(authorization) => authorization,
                Err(error) => return AccessDecision { error: Some(error), ..AccessDecision::default() },
            };
        AccessDecision { allowed: decision == pintle_auth::Decision::Allow, reason: reason.into_owned(), error }
    }
}

impl AccessChecker for RequestAccess<'_> {
    fn check(&self, check: &AccessCheck<'_>) -> AccessDecision {
        let is_same = |known: &&Decided| {
            known.verb == check.verb && known.subject == *check.subject && known.target.is(check.target)
        };
        if let Some(known) = self.decided.lock().iter().find(is_same) {
            return known.decision.clone();
        }
        let decision = self.decide(check);
        let (subject, target) = (check.subject.clone(), OwnedTarget::of(check.target));
        let verb = check.verb.to_owned();
        self.decided.lock().push(Decided { subject, target, verb, decision: decision.clone() });
        decision
    }
}

/// The result of a future that is nearly always ready. Only authorizers that ask another server wait. In that case this
/// thread blocks, and the runtime moves its other tasks away.
fn wait<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return Ok(value);
    }
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            Ok(tokio::task::block_in_place(|| handle.block_on(future)))
        }
        _ => Err("the authorizer cannot be waited for".to_owned()),
    }
}
