//! Audit: events on their way to webhooks and files.

mod receiver;
mod server;
mod webhook;
