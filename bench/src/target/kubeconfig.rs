//! Reads kubeconfig files: the server of a context and the credentials of its user. Supports clusters with a CA, and
//! users with a client certificate or a token. Exec credential plugins are not supported.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_value::Value;

use crate::Result;
use crate::client::{ConnectionConfig, Credentials};

/// Reads a context of a kubeconfig file. The default is the current context.
pub(crate) fn read(path: &Path, context: Option<&str>) -> Result<ConnectionConfig> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    parse(&text, folder, context).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Reads a context of a kubeconfig. Relative paths of other files are resolved against `folder`.
fn parse(text: &[u8], folder: &Path, context: Option<&str>) -> Result<ConnectionConfig> {
    let config = pintle_codec::yaml::decode(text)?.value;
    let context = context.unwrap_or_else(|| config.str_at(&["current-context"]));
    let context = find_named(&config, "contexts", "context", context)?;
    let cluster = find_named(&config, "clusters", "cluster", context.str_at(&["cluster"]))?;
    let user = find_named(&config, "users", "user", context.str_at(&["user"]))?;
    let authorities = inline_or_file(cluster, "certificate-authority", folder)?
        .ok_or("the cluster has no certificate-authority; servers are not used without verification")?;
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
    Ok(ConnectionConfig {
        url: cluster.str_at(&["server"]).to_owned(),
        server_name: server_name.map(str::to_owned),
        authorities,
        credentials: Credentials { certificate, token },
    })
}

/// Finds the entry with this name in a list of the kubeconfig.
fn find_named<'v>(config: &'v Value, list: &str, entry_key: &str, name: &str) -> Result<&'v Value> {
    let mut entries = config.items_at(&[list]).iter();
    let entry = entries.find(|entry| entry.str_at(&["name"]) == name);
    Ok(entry.and_then(|entry| entry.get(entry_key)).ok_or_else(|| format!("no {entry_key} named {name:?}"))?)
}

/// Reads a value inline from `KEY-data` in base64, or from the file that `KEY` names.
fn inline_or_file(object: &Value, key: &str, folder: &Path) -> Result<Option<Vec<u8>>> {
    let inline = object.str_at(&[&format!("{key}-data")]);
    if !inline.is_empty() {
        return Ok(Some(STANDARD.decode(inline)?));
    }
    match object.str_at(&[key]) {
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
        let text = found.map(|config| {
            let ConnectionConfig { url, server_name, authorities, credentials } = config;
            let authorities = String::from_utf8(authorities).unwrap();
            let certificate = credentials.certificate.map(|(certificate, key)| [certificate, key].concat());
            let certificate = String::from_utf8(certificate.unwrap_or_default()).unwrap();
            let (name, token) = (server_name.unwrap_or_default(), credentials.token.unwrap_or_default());
            format!("{url} {name} {authorities} {certificate} {token}")
        });
        let found = text.map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expect, "{context:?}");
    }

    #[test]
    fn contexts_are_resolved() {
        check(None, Ok("https://a:1  A CD "));
        check(Some("two"), Ok("https://b/p c B  secret"));
        check(Some("three"), Err("the user has neither a client certificate nor a token"));
        check(Some("four"), Err("the cluster has no certificate-authority; servers are not used without verification"));
        check(Some("five"), Err("no cluster named \"gone\""));
        check(Some("six"), Err("no context named \"six\""));
    }
}
