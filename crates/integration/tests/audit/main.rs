//! Audit: events on their way to webhooks and files.

mod receiver;
mod webhook;
