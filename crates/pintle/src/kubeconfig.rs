//! The administrator's kubeconfig.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::certificates::Certificates;

/// The kubeconfig of the administrator, with the certificates inline.
#[must_use]
pub fn kubeconfig(certificates: &Certificates, url: &str) -> String {
    let encode = |text: &str| STANDARD.encode(text);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: pintle\n\
         \x20 cluster:\n\
         \x20   server: {url}\n\
         \x20   certificate-authority-data: {}\n\
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
