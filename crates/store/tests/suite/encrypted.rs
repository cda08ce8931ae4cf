//! The suites that use the files of a store, with encryption.

#![allow(clippy::duplicate_mod, reason = "the suites run with both forms of a store")]

const FORM: crate::form::Form = crate::form::Form::Encrypted;

#[path = "content.rs"]
pub(crate) mod content;
#[path = "damage.rs"]
mod damage;
#[path = "lost_changes.rs"]
mod lost_changes;
#[path = "power_loss.rs"]
mod power_loss;
#[path = "process_kill.rs"]
mod process_kill;
