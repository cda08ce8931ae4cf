//! Parses container image references: `registry:5000/path/name:tag@sha256:...`. Follows the grammar of the library
//! `distribution/reference` that kube-apiserver uses, as far as defaults and warnings need it.

/// The tag and the digest of an image reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageReference {
    /// The tag; `latest` if there is neither a tag nor a digest.
    pub(crate) tag: String,
    /// The digest with its algorithm, or the empty string.
    pub(crate) digest: String,
}

/// The maximum length of a repository path.
const MAX_PATH: usize = 255;

impl ImageReference {
    /// Parses a reference. Returns `None` if it is malformed.
    pub(crate) fn parse(image: &str) -> Option<Self> {
        if image.len() == 64 && image.bytes().all(is_lower_hex) {
            return None;
        }
        let (domain, remainder) = split_domain(image);
        let remote = remainder.split(':').next().unwrap_or_default();
        if remote.chars().any(char::is_uppercase) {
            return None;
        }

        let (rest, digest) = match remainder.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (remainder.as_str(), None),
        };
        // Paths contain no colons, so a colon after the last slash starts the tag.
        let after_slash = rest.rfind('/').map_or(0, |i| i + 1);
        let (path, tag) = match rest[after_slash..].find(':') {
            Some(i) => (&rest[..after_slash + i], Some(&rest[after_slash + i + 1..])),
            None => (rest, None),
        };
        let path_is_valid = path.split('/').all(is_path_component);
        let domain_is_valid = is_domain(domain);
        if !path_is_valid || !(domain_is_valid || is_path_component(domain)) {
            return None;
        }
        let full_path = if domain_is_valid { path.len() } else { domain.len() + 1 + path.len() };
        if full_path > MAX_PATH || tag.is_some_and(|t| !is_tag(t)) || digest.is_some_and(|d| !is_digest(d)) {
            return None;
        }
        let tag = match (tag, digest) {
            (Some(tag), _) => tag,
            (None, Some(_)) => "",
            (None, None) => "latest",
        };
        Some(Self { tag: tag.to_owned(), digest: digest.unwrap_or_default().to_owned() })
    }
}

/// Returns the default pull policy of an image: `Always` if the tag is `latest` or missing.
pub(crate) fn default_pull_policy(image: &str) -> &'static str {
    // A malformed reference has no tag. Validation rejects it where that matters.
    match ImageReference::parse(image) {
        Some(reference) if reference.tag == "latest" => "Always",
        _ => "IfNotPresent",
    }
}

/// Splits off the registry. The default is Docker Hub.
fn split_domain(image: &str) -> (&str, String) {
    const DEFAULT: &str = "docker.io";
    let (domain, remote) = match image.split_once('/') {
        None => return (DEFAULT, format!("library/{image}")),
        Some((first, rest)) => match first {
            "localhost" => (first, rest),
            "index.docker.io" => (DEFAULT, rest),
            _ if first.contains(['.', ':']) || first.chars().any(char::is_uppercase) => (first, rest),
            _ => (DEFAULT, image),
        },
    };
    if domain == DEFAULT && !remote.contains('/') {
        (domain, format!("library/{remote}"))
    } else {
        (domain, remote.to_owned())
    }
}

fn is_lower_hex(b: u8) -> bool {
    matches!(b, b'0'..=b'9' | b'a'..=b'f')
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = if let Some(bracketed) = domain.strip_prefix('[') {
        let Some((address, rest)) = bracketed.split_once(']') else { return false };
        if address.is_empty() || !address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':') {
            return false;
        }
        (None, rest)
    } else {
        match domain.find(':') {
            Some(i) => (Some(&domain[..i]), &domain[i..]),
            None => (Some(domain), ""),
        }
    };
    let port_is_valid = match port.strip_prefix(':') {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()),
        None => port.is_empty(),
    };
    let host_is_valid = host.is_none_or(|host| {
        host.split('.').all(|part| {
            !part.is_empty()
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                && !part.starts_with('-')
                && !part.ends_with('-')
        })
    });
    port_is_valid && host_is_valid
}

/// Returns true for runs of lower-case letters and digits that are joined by `.`, `_`, `__` or dashes.
fn is_path_component(part: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = part.as_bytes();
    if !bytes.first().copied().is_some_and(is_word) || !bytes.last().copied().is_some_and(is_word) {
        return false;
    }
    bytes.split(|b| is_word(*b)).all(|gap| matches!(gap, b"" | b"." | b"_" | b"__") || gap.iter().all(|b| *b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|b| is_word(b) || b == b'.' || b == b'-')
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(is_lower_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pull_policy_follows_the_tag() {
        let check = |image: &str, policy: &str| assert_eq!(default_pull_policy(image), policy, "{image}");
        let digest = "sha256:".to_owned() + &"0a".repeat(32);
        check("nginx", "Always");
        check("nginx:latest", "Always");
        check("nginx:1.27", "IfNotPresent");
        check("registry.k8s.io/pause", "Always");
        check("localhost:5000/a/b:v1", "IfNotPresent");
        check("localhost:5000/a/b", "Always");
        check("[fe80::1]:5000/a", "Always");
        check(&format!("nginx@{digest}"), "IfNotPresent");
        check(&format!("nginx:latest@{digest}"), "Always");
        check("a__b/c-d---e", "Always");
        // Malformed references count as having a tag other than `latest`.
        for bad in ["", "Nginx", "a___b", "nginx:", "nginx@sha256:00", " nginx", "a//b", &"ab".repeat(32), "-a", "a/"] {
            check(bad, "IfNotPresent");
        }
        check("Registry/nginx", "Always");
    }
}
