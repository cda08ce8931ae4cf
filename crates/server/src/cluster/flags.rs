//! The flags of the process, which `/flagz` shows.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The flags by name, with their values as Go prints them.
#[derive(Debug)]
pub(crate) struct Flags {
    values: BTreeMap<String, String>,
    /// The text of `/flagz`, which does not change after its first request.
    text: OnceLock<String>,
}

impl Flags {
    /// The flags of these values.
    pub(crate) fn new(values: BTreeMap<String, String>) -> Self {
        Self { values, text: OnceLock::new() }
    }

    /// The values by name.
    pub(crate) fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }

    /// The text of all flags. The first call makes it with `write`.
    pub(crate) fn text(&self, write: impl FnOnce(&BTreeMap<String, String>) -> String) -> &str {
        self.text.get_or_init(|| write(&self.values))
    }
}
