//! The alternative names of certificates, and the constraints of authorities on them (RFC 5280, section 4.2.1.10; Go:
//! `checkChainConstraints`).

use std::net::IpAddr;

use x509_parser::extensions::{GeneralName, GeneralSubtree, NameConstraints};

/// The alternative names of a certificate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    dns: Vec<String>,
    emails: Vec<String>,
    uris: Vec<String>,
    /// Addresses of four or sixteen bytes.
    addresses: Vec<Box<[u8]>>,
}

impl Names {
    /// The names that Go reads; `None` if a name is malformed.
    pub(crate) fn of(names: &[GeneralName<'_>]) -> Option<Self> {
        let mut read = Self::default();
        for name in names {
            match name {
                GeneralName::DNSName(name) => read.dns.push((*name).to_owned()),
                GeneralName::RFC822Name(email) => read.emails.push((*email).to_owned()),
                GeneralName::URI(uri) => read.uris.push((*uri).to_owned()),
                GeneralName::IPAddress(address) if matches!(address.len(), 4 | 16) => {
                    read.addresses.push((*address).into());
                }
                GeneralName::IPAddress(_) | GeneralName::Invalid(..) => return None,
                _ => {}
            }
        }
        Some(read)
    }
}

/// The constraints of an authority on the names of the certificates below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constraints {
    permitted: Subtrees,
    excluded: Subtrees,
}

/// Parts of the spaces of names. An empty list of permitted parts restricts nothing.
#[derive(Clone, Debug, Default)]
struct Subtrees {
    dns: Vec<String>,
    emails: Vec<String>,
    uris: Vec<String>,
    /// Addresses and masks.
    addresses: Vec<Box<[u8]>>,
}

impl Constraints {
    /// The constraints, and whether Go processes all of them; `None` if a constraint is malformed.
    pub(crate) fn of(constraints: &NameConstraints<'_>) -> Option<(Self, bool)> {
        let empty = Vec::new();
        let (permitted, permitted_heeded) = Subtrees::of(constraints.permitted_subtrees.as_ref().unwrap_or(&empty))?;
        let (excluded, excluded_heeded) = Subtrees::of(constraints.excluded_subtrees.as_ref().unwrap_or(&empty))?;
        Some((Self { permitted, excluded }, permitted_heeded && excluded_heeded))
    }

    /// Whether the names of a certificate satisfy the constraints. A name that cannot be compared does not.
    pub(crate) fn allow(&self, names: &Names) -> bool {
        let Self { permitted, excluded } = self;
        let dns = |name: &str| {
            is_domain(name, false)
                && (permitted.dns.is_empty() || permitted.dns.iter().any(|domain| contains(domain, name)))
                && !excluded.dns.iter().any(|domain| excludes(domain, name))
        };
        let uri = |uri: &str| {
            host(uri).is_some_and(|host| {
                (permitted.uris.is_empty() || permitted.uris.iter().any(|domain| contains(domain, host)))
                    && !excluded.uris.iter().any(|domain| excludes(domain, host))
            })
        };
        let email = |email: &str| {
            let fits = |subtree: &String, covers: fn(&str, &str) -> bool| match mailbox(subtree) {
                Some(exact) => mailbox(email)
                    .is_some_and(|(local, domain)| local == exact.0 && domain.eq_ignore_ascii_case(exact.1)),
                None => mailbox(email).is_some_and(|(_, domain)| covers(subtree, domain)),
            };
            mailbox(email).is_some()
                && (permitted.emails.is_empty() || permitted.emails.iter().any(|subtree| fits(subtree, contains)))
                && !excluded.emails.iter().any(|subtree| fits(subtree, excludes))
        };
        let address = |address: &[u8]| {
            let is_in = |network: &[u8]| is_in_network(network, address);
            (permitted.addresses.is_empty() || permitted.addresses.iter().any(|network| is_in(network)))
                && !excluded.addresses.iter().any(|network| is_in(network))
        };
        names.dns.iter().all(|name| dns(name))
            && names.uris.iter().all(|name| uri(name))
            && names.emails.iter().all(|name| email(name))
            && names.addresses.iter().all(|name| address(name))
    }
}

impl Subtrees {
    fn of(subtrees: &[GeneralSubtree<'_>]) -> Option<(Self, bool)> {
        let (mut read, mut all_heeded) = (Self::default(), true);
        for subtree in subtrees {
            match &subtree.base {
                GeneralName::DNSName(domain) if is_domain(domain, true) => read.dns.push((*domain).to_owned()),
                GeneralName::URI(domain) if is_domain(domain, true) && domain.parse::<IpAddr>().is_err() => {
                    read.uris.push((*domain).to_owned());
                }
                GeneralName::RFC822Name(email) if mailbox(email).is_some() || is_domain(email, true) => {
                    read.emails.push((*email).to_owned());
                }
                GeneralName::IPAddress(network) if is_network(network) => read.addresses.push((*network).into()),
                GeneralName::DNSName(_)
                | GeneralName::URI(_)
                | GeneralName::RFC822Name(_)
                | GeneralName::IPAddress(_)
                | GeneralName::Invalid(..) => return None,
                _ => all_heeded = false,
            }
        }
        Some((read, all_heeded))
    }
}

/// Whether a text is a domain, or empty. A constraint may begin with a period.
fn is_domain(text: &str, is_constraint: bool) -> bool {
    let labels = if is_constraint { text.strip_prefix('.').unwrap_or(text) } else { text };
    text.is_empty()
        || labels.split('.').all(|label| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_graphic()))
}

/// Whether a name is a domain of a constraint or below it. A constraint that begins with a period does not contain its
/// own domain. An empty constraint contains all domains.
fn contains(constraint: &str, name: &str) -> bool {
    let Some(length) = name.len().checked_sub(constraint.len()) else { return false };
    let (Some(rest), Some(end)) = (name.get(..length), name.get(length..)) else { return false };
    let is_label = rest.is_empty() || rest.ends_with('.') || constraint.is_empty() || constraint.starts_with('.');
    is_label && end.eq_ignore_ascii_case(constraint)
}

/// Whether a constraint contains a name, or a name that matches the name's wildcard.
fn excludes(constraint: &str, name: &str) -> bool {
    let without_label = |name: &str| name.find('.').map(|dot| name[dot..].to_ascii_lowercase());
    contains(constraint, name)
        || name.starts_with('*') && without_label(name).is_some_and(|parent| Some(parent) == without_label(constraint))
}

/// The local part and the domain of an address. Quoted local parts cannot be compared, so they are not read.
fn mailbox(email: &str) -> Option<(&str, &str)> {
    let (local, domain) = email.split_once('@')?;
    let is_local = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(&byte);
    let has_labels = |text: &str| text.split('.').all(|label| !label.is_empty());
    (has_labels(local) && local.bytes().all(is_local) && !domain.is_empty() && is_domain(domain, false))
        .then_some((local, domain))
}

/// The host of a URI, if it is a domain.
fn host(uri: &str) -> Option<&str> {
    let (_, rest) = uri.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    (!host.is_empty() && is_domain(host, false) && host.parse::<IpAddr>().is_err() && !host.starts_with('['))
        .then_some(host)
}

/// Whether a text is an address followed by a mask.
fn is_network(bytes: &[u8]) -> bool {
    let mask = &bytes[bytes.len() / 2..];
    let ones = mask.iter().take_while(|byte| **byte == 0xff).count();
    matches!(bytes.len(), 8 | 32)
        && mask.get(ones).is_none_or(|byte| byte.leading_ones() + byte.trailing_zeros() >= 8)
        && mask.iter().skip(ones + 1).all(|byte| *byte == 0)
}

/// Whether an address is in a network.
fn is_in_network(network: &[u8], address: &[u8]) -> bool {
    let (base, mask) = network.split_at(network.len() / 2);
    base.len() == address.len()
        && base.iter().zip(mask).zip(address).all(|((base, mask), byte)| base & mask == byte & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_contain_what_is_below_them() {
        for (constraint, name, is_contained, is_excluded) in [
            ("example.com", "example.com", true, true),
            ("example.com", "a.EXAMPLE.com", true, true),
            ("example.com", "anexample.com", false, false),
            (".example.com", "example.com", false, false),
            (".example.com", "a.b.example.com", true, true),
            ("", "example.com", true, true),
            ("a.example.com", "*.example.com", false, true),
            ("example.com", "*.example.com", true, true),
            ("com", "*", false, false),
            ("longer.example.com", "example.com", false, false),
        ] {
            assert_eq!(contains(constraint, name), is_contained, "{constraint} {name}");
            assert_eq!(excludes(constraint, name), is_excluded, "{constraint} {name}");
        }
    }

    #[test]
    fn names_are_parsed_strictly() {
        for (text, of_constraint, of_name) in [
            ("", true, true),
            ("a.b", true, true),
            (".a", true, false),
            ("a.", false, false),
            ("a b", false, false),
            ("a..b", false, false),
        ] {
            assert_eq!((is_domain(text, true), is_domain(text, false)), (of_constraint, of_name), "{text}");
        }
        for (uri, expect) in [
            ("spiffe://cluster.local/ns/a", Some("cluster.local")),
            ("https://me@example.com:8443/?q", Some("example.com")),
            ("https://10.0.0.1/", None),
            ("https://[::1]/", None),
            ("urn:a", None),
            ("https:///a", None),
        ] {
            assert_eq!(host(uri), expect, "{uri}");
        }
        for (email, expect) in [
            ("a.b@example.com", Some(("a.b", "example.com"))),
            (".a@example.com", None),
            ("\"a\"@example.com", None),
            ("a@", None),
            ("example.com", None),
        ] {
            assert_eq!(mailbox(email), expect, "{email}");
        }
        for (network, expect) in [
            (&[10, 0, 0, 0, 255, 0, 0, 0][..], true),
            (&[10, 0, 0, 0, 255, 192, 0, 0], true),
            (&[10, 0, 0, 0, 255, 0, 255, 0], false),
            (&[10, 0, 0, 0, 160, 0, 0, 0], false),
            (&[10, 0, 0, 0, 255, 255, 255, 255], true),
            (&[10, 0, 0, 0], false),
            (&[], false),
        ] {
            assert_eq!(is_network(network), expect, "{network:?}");
        }
        assert!(is_in_network(&[10, 1, 0, 0, 255, 255, 0, 0], &[10, 1, 2, 3]));
        assert!(!is_in_network(&[10, 1, 0, 0, 255, 255, 0, 0], &[10, 2, 2, 3]));
        assert!(!is_in_network(&[10, 1, 0, 0, 255, 255, 0, 0], &[0; 16]));
    }
}
