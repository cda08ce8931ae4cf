//! Resources and subresources that keep nothing: a create there does something.

use std::sync::Arc;

use http::StatusCode;
use pintle_registry::{Action, ApiError, Resource};
use pintle_value::{Value, object};

use super::review::review;
use super::subresource::answer;
use super::update::{GuaranteedUpdate, Judge};
use crate::http::Response;
use crate::negotiate;
use crate::pipeline::RequestContext;
use crate::represent::status;

/// Does what a create asks for. `object` is in the namespace of the request.
///
/// # Errors
/// It is malformed, or what it asks for is refused.
pub(crate) async fn act(
    call: &RequestContext,
    resource: &Arc<Resource>,
    action: Action,
    object: Value,
    dry_run: bool,
) -> Result<Response, ApiError> {
    match action {
        Action::Bind => bind(call, object, dry_run).await,
        Action::Review(question) => {
            let answered = review(call, resource, question, object)?;
            answer(call, StatusCode::CREATED, &answered, &resource.schema)
        }
    }
}

/// Binds a pod to a node.
async fn bind(call: &RequestContext, binding: Value, dry_run: bool) -> Result<Response, ApiError> {
    let registry = call.cluster.registry();
    let pods = registry.resource("", "v1", "pods").ok_or(ApiError::NoSuchPath)?;
    let mut change = GuaranteedUpdate::of(call, pods, dry_run);
    change.name = binding.name().to_owned();
    change.subresource = "binding";
    change.judge = Judge::Nobody;
    let now = change.context.now;
    change
        .run(|old| {
            let mut pod = old.clone();
            pintle_kinds::bind(&mut pod, &binding, now)?;
            Ok(pod)
        })
        .await?;
    let accepted = negotiate::output(&call.headers, &call.query, call.endpoint())?;
    let value = object! {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": Value::object(),
        "status": "Success",
        "code": 201,
    };
    Ok(status(call, StatusCode::CREATED, &value, accepted.encoding, accepted.pretty))
}
