//! Kubeconfig files: which server a context names, and who asks there. Clusters with their authority and users with a
//! client certificate or a token are understood; programs that fetch credentials are not run.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_value::Value;

use crate::Result;
use crate::client::{Access, Identity};

/// Reads the access that a context of a file gives; the file's current context if none is named.
pub(crate) fn read(path: &Path, context: Option<&str>) -> Result<Access> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    parse(&text, folder, context).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Reads the access that a context gives. Paths of other files start at `folder`.
fn parse(text: &[u8], folder: &Path, context: Option<&str>) -> Result<Access> {
    let config = pintle_codec::yaml::decode(text)?.value;
    let context = context.unwrap_or_else(|| config.str_at(&["current-context"]));
    let context = named(&config, "contexts", "context", context)?;
    let cluster = named(&config, "clusters", "cluster", context.str_at(&["cluster"]))?;
    let user = named(&config, "users", "user", context.str_at(&["user"]))?;
    let authorities = inline_or_file(cluster, "certificate-authority", folder)?
        .ok_or("the cluster has no certificate-authority; a server that is not verified is not measured")?;
    let certificate = inline_or_file(user, "client-certificate", folder)?;
    let certificate = match (certificate, inline_or_file(user, "client-key", folder)?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        _ => None,
    };
    let token = match (user.str_at(&["token"]), user.str_at(&["tokenFile"])) {
        ("", "") => None,
        ("", file) => Some(std::fs::read_to_string(folder.join(file))?.trim().to_owned()),
        (token, _) => Some(token.to_owned()),
    };
    if certificate.is_none() && token.is_none() {
        return Err("the user has neither a client certificate nor a token".into());
    }
    let server_name = Some(cluster.str_at(&["tls-server-name"])).filter(|name| !name.is_empty());
    Ok(Access {
        url: cluster.str_at(&["server"]).to_owned(),
        server_name: server_name.map(str::to_owned),
        authorities,
        identity: Identity { certificate, token },
    })
}

/// The entry of a list with this name.
fn named<'v>(config: &'v Value, list: &str, part: &str, name: &str) -> Result<&'v Value> {
    let mut entries = config.items_at(&[list]).iter();
    let entry = entries.find(|entry| entry.str_at(&["name"]) == name);
    Ok(entry.and_then(|entry| entry.get(part)).ok_or_else(|| format!("there is no {part} named {name:?}"))?)
}

/// What a key holds in base64 beneath its name with `-data`, or names as a file.
fn inline_or_file(holder: &Value, key: &str, folder: &Path) -> Result<Option<Vec<u8>>> {
    let inline = holder.str_at(&[&format!("{key}-data")]);
    if !inline.is_empty() {
        return Ok(Some(STANDARD.decode(inline)?));
    }
    match holder.str_at(&[key]) {
        "" => Ok(None),
        file => Ok(Some(std::fs::read(folder.join(file)).map_err(|error| format!("{file}: {error}"))?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "
current-context: one
contexts:
- {name: one, context: {cluster: a, user: certificate}}
- {name: two, context: {cluster: b, user: token}}
- {name: three, context: {cluster: a, user: nobody}}
- {name: four, context: {cluster: bare, user: token}}
- {name: five, context: {cluster: gone, user: token}}
clusters:
- {name: a, cluster: {server: 'https://a:1', certificate-authority-data: QQ==}}
- {name: b, cluster: {server: 'https://b/p', certificate-authority-data: Qg==, tls-server-name: c}}
- {name: bare, cluster: {server: 'https://b'}}
users:
- {name: certificate, user: {client-certificate-data: Qw==, client-key-data: RA==}}
- {name: token, user: {token: secret}}
- {name: nobody, user: {}}
";

    fn check(context: Option<&str>, expect: std::result::Result<&str, &str>) {
        let found = parse(CONFIG.as_bytes(), Path::new("."), context);
        let text = found.map(|access| {
            let Access { url, server_name, authorities, identity } = access;
            let authorities = String::from_utf8(authorities).unwrap();
            let certificate = identity.certificate.map(|(certificate, key)| [certificate, key].concat());
            let certificate = String::from_utf8(certificate.unwrap_or_default()).unwrap();
            let (name, token) = (server_name.unwrap_or_default(), identity.token.unwrap_or_default());
            format!("{url} {name} {authorities} {certificate} {token}")
        });
        let found = text.map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expect, "{context:?}");
    }

    #[test]
    fn contexts() {
        check(None, Ok("https://a:1  A CD "));
        check(Some("two"), Ok("https://b/p c B  secret"));
        check(Some("three"), Err("the user has neither a client certificate nor a token"));
        check(
            Some("four"),
            Err("the cluster has no certificate-authority; a server that is not verified is not measured"),
        );
        check(Some("five"), Err("there is no cluster named \"gone\""));
        check(Some("six"), Err("there is no context named \"six\""));
    }
}
