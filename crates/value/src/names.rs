//! The rules for names, labels, ports and the like (apimachinery's `validation` package).

/// What is wrong with a name that must be a DNS subdomain (RFC 1123); with `prefix` something will be added to it.
#[must_use]
pub fn dns1123_subdomain_name(_name: &str, _prefix: bool) -> Vec<String> {
    Vec::new()
}
