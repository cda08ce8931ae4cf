//! The variables of the CEL expressions of webhooks and policies that describe a request, beside its objects.

mod access;
mod request;

pub(crate) use request::ExpressionRequest;
