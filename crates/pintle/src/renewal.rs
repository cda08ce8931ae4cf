//! Renews the server's own certificates before they expire, while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pintle_store::{Clock, Timestamp};
use time::OffsetDateTime;

use crate::certificates::{CertificateError, ClockBounds, KeyFolder, KeyPlan, write_private};
use crate::front_proxy::FrontProxyIdentity;
use crate::kubeconfig::{KubeconfigCluster, KubeconfigCredentials};
use crate::serving::{LOOPBACK_NAME, ServingError, ServingTls};

/// How often the certificates are examined. They are renewed months before they expire, but a wrong clock may be
/// corrected at any time.
const INTERVAL: Duration = Duration::from_secs(300);

/// Renews the server's own certificates.
pub(crate) struct CertificateRenewal {
    pub(crate) tls: Arc<ServingTls>,
    pub(crate) front_proxy: Arc<FrontProxyIdentity>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The time at which the server started.
    pub(crate) started: OffsetDateTime,
    /// The host names and addresses for which the serving certificate is valid.
    pub(crate) names: Vec<String>,
    /// The private key of service accounts, in PEM.
    pub(crate) service_account_key: String,
    /// Where the certificates are stored.
    pub(crate) data_dir: Option<PathBuf>,
    /// The file with the administrator's kubeconfig, which contains two of the certificates.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The base URL of the server.
    pub(crate) url: String,
    /// The base URL for clients on other machines, if it differs.
    pub(crate) advertised_url: Option<String>,
}

impl CertificateRenewal {
    /// Renews certificates when they are due. A failed renewal is tried again later: the certificates stay valid for
    /// long.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.clock.sleep(INTERVAL).await;
            if let Err(error) = self.renew() {
                tracing::error!(%error, "Failed to renew the server's own certificates, will retry");
            }
        }
    }

    fn renew(&self) -> Result<(), ServingError> {
        let now = time_of(self.clock.now());
        let data_dir = self.data_dir.as_deref();
        let running = KeyFolder::of_running(data_dir, &self.tls.built_in(), &self.service_account_key)?;
        let mut keys = KeyPlan::new(&running, None, &self.names, now)?;
        if keys.is_unchanged() {
            return Ok(());
        }
        // The newest commit proves nothing here: this process made it with the same clock.
        keys.check_clock(now, ClockBounds::ServerStart(self.started))?;
        self.tls.set_built_in(keys.certificates.clone(), |certificates| {
            keys.write()?;
            match &self.kubeconfig {
                Some(path) => write_private(path, &self.kubeconfig(certificates)),
                None => Ok(()),
            }
        })?;
        self.front_proxy.set_built_in(&keys.certificates);
        Ok(())
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self, certificates: &crate::certificates::Certificates) -> String {
        let server_name = self.tls.has_certificate().then_some(LOOPBACK_NAME);
        let mut cluster = KubeconfigCluster::new(&self.url, server_name, &certificates.authority.certificate);
        cluster.advertised.clone_from(&self.advertised_url);
        cluster.kubeconfig("admin", KubeconfigCredentials::Certificate(&certificates.admin))
    }

    /// Writes the administrator's kubeconfig, and returns it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write_kubeconfig(&self) -> Result<String, CertificateError> {
        let text = self.kubeconfig(&self.tls.built_in());
        if let Some(path) = &self.kubeconfig {
            write_private(path, &text)?;
        }
        Ok(text)
    }
}

/// The time of a clock.
pub(crate) fn time_of(now: Timestamp) -> OffsetDateTime {
    let seconds = i64::try_from(now.0 / 1000).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use pintle_store::ManualClock;

    use super::*;
    use crate::certificates::{Certificates, new_key, sec1_pem};
    use crate::front_proxy::AggregatorOptions;
    use crate::serving::TlsOptions;

    #[test]
    fn a_renewal_replaces_the_client_certificate_for_aggregated_servers() {
        let start = Timestamp(1_800_000_000_000);
        let certificates = Certificates::generate(&[], time_of(start)).expect("certificates");
        let front_proxy = FrontProxyIdentity::load(AggregatorOptions::default(), &certificates).expect("an identity");
        let mut receiver = front_proxy.aggregation().client_certificate;
        let clock = Arc::new(ManualClock::new(start));
        let renewal = CertificateRenewal {
            tls: ServingTls::load(TlsOptions::default(), certificates.clone()).expect("TLS"),
            front_proxy,
            clock: clock.clone(),
            started: time_of(start),
            names: Vec::new(),
            service_account_key: sec1_pem(&new_key().expect("a key")).expect("PEM"),
            data_dir: None,
            kubeconfig: None,
            url: String::new(),
            advertised_url: None,
        };
        renewal.renew().expect("nothing to renew");
        assert!(!receiver.has_changed().expect("a sender"));
        clock.advance(Duration::from_secs(3600 * 24 * 3600));
        renewal.renew().expect("a renewal");
        let renewed = receiver.borrow_and_update().clone().expect("a certificate");
        assert_eq!(renewed.chain, renewal.tls.built_in().front_proxy.certificate.as_bytes());
        assert_ne!(renewed.chain, certificates.front_proxy.certificate.as_bytes());
        assert_eq!(renewed.key, certificates.front_proxy.key.as_bytes());
    }
}
