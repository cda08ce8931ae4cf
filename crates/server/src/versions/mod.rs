//! Objects of kinds whose versions are equals (custom kinds), between the version of a request and those that they are
//! stored at. What is stored at the request's version is shown as it is; anything else is read as its own version, and
//! converted: at once, or by a webhook. Kinds that have a hub are always shown as they are stored.

mod batches;
mod conversions;
mod convert;
mod converted;
mod resolve;
mod view;
mod webhooks;

pub(crate) use conversions::Conversions;
pub(crate) use converted::Converted;
pub(crate) use view::View;
pub(crate) use webhooks::Webhooks;
