//! What the CEL expressions of webhooks and policies see of a request beside its objects.

mod access;
mod request;

pub(crate) use request::ExpressionRequest;
