//! The administrator's kubeconfig.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::certificates::Certificates;

/// The kubeconfig of the administrator, with the certificates inline. Its client asks for `server_name` if that is given.
#[must_use]
pub fn kubeconfig(certificates: &Certificates, url: &str, server_name: Option<&str>) -> String {
    let server_name = server_name.map(|name| format!("    tls-server-name: {name}\n")).unwrap_or_default();
    let encode = |text: &str| STANDARD.encode(text);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: pintle\n\
         \x20 cluster:\n\
         \x20   server: {url}\n\
         \x20   certificate-authority-data: {}\n{server_name}\
         users:\n\
         - name: admin\n\
         \x20 user:\n\
         \x20   client-certificate-data: {}\n\
         \x20   client-key-data: {}\n\
         contexts:\n\
         - name: pintle\n\
         \x20 context:\n\
         \x20   cluster: pintle\n\
         \x20   user: admin\n\
         current-context: pintle\n",
        encode(&certificates.authority.certificate),
        encode(&certificates.admin.certificate),
        encode(&certificates.admin.key),
    )
}
