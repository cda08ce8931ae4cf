//! The flags of etcd, with kube-apiserver's names.

use std::path::PathBuf;
use std::time::Duration;

use pintle::{EtcdCertificateFiles, EtcdConfig, EtcdServersOverride, StorageMetrics};

use super::parse_duration;
use crate::command::string_slice::StringSlice;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";
/// kube-apiserver's default of `--etcd-healthcheck-timeout` and `--etcd-readycheck-timeout`.
const DEFAULT_CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// kube-apiserver's default of `--lease-reuse-duration-seconds`.
const DEFAULT_LEASE_REUSE_SECONDS: u32 = 60;

/// The flags that say where etcd is, and how objects are stored there.
#[derive(clap::Args)]
pub(crate) struct EtcdStoreFlags {
    /// The etcd servers to connect with (scheme://ip:port), comma separated.
    #[arg(long, value_name = "URL,...")]
    etcd_servers: Vec<StringSlice>,
    /// The prefix to prepend to all resource paths in etcd.
    #[arg(long, value_name = "PREFIX", default_value = "/registry")]
    etcd_prefix: String,
    /// The media type in which objects of built-in kinds are stored in etcd: application/vnd.kubernetes.protobuf or
    /// application/json.
    #[arg(long, value_name = "TYPE", default_value = PROTOBUF)]
    storage_media_type: String,
    /// The file with the certificate authority that is used to secure the communication with etcd. It is read again
    /// when it changes, as are the files of the next two flags.
    #[arg(long, value_name = "FILE")]
    etcd_cafile: Option<PathBuf>,
    /// The file with the client certificate that is used to secure the communication with etcd.
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    etcd_certfile: Option<PathBuf>,
    /// The file with the private key of --etcd-certfile.
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
}

/// The flags of etcd.
#[derive(clap::Args)]
pub(crate) struct EtcdFlags {
    #[command(flatten)]
    store: EtcdStoreFlags,
    /// The etcd servers of single resources, comma separated, as group/resource#servers, where servers are URLs,
    /// semicolon separated. Only events can be in another etcd: /events#http://etcd4:2379;http://etcd5:2379.
    #[arg(long, value_name = "OVERRIDE,...")]
    etcd_servers_overrides: Vec<StringSlice>,
    /// How often old revisions are compacted in etcd. 0 disables this.
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = parse_duration)]
    etcd_compaction_interval: Duration,
    /// The time limit of health checks of etcd.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    etcd_healthcheck_timeout: Duration,
    /// The time limit of readiness checks of etcd.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    etcd_readycheck_timeout: Duration,
    /// 0 disables the metrics of the numbers of stored objects. They are computed when metrics are read, so no other
    /// value has an effect.
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = parse_duration)]
    etcd_count_metric_poll_period: Duration,
    /// 0 disables the metric of the size of the database. It is computed when metrics are read, so no other value has
    /// an effect.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    etcd_db_metric_poll_interval: Duration,
    /// How late changes of other servers in etcd may arrive before /readyz fails. Load balancers then turn to a server
    /// that is up to date. 0 disables this.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    max_feed_lag: Duration,
    /// For how many seconds a lease of etcd is used for further objects that expire. A high number saves leases, and
    /// lets objects live longer than they should.
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_LEASE_REUSE_SECONDS)]
    lease_reuse_duration_seconds: u32,
}

/// Upstream's message about a malformed override.
const INVALID_OVERRIDE: &str = "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are \
                                URLs, semicolon separated";

/// Parses `group/resource#servers` (upstream: `ParseEtcdServersOverrides`).
fn parse_override(text: &str) -> Option<EtcdServersOverride> {
    let (resource, servers) = text.split_once('#').filter(|(_, servers)| !servers.contains('#'))?;
    let (group, resource) = resource.split_once('/').filter(|(_, resource)| !resource.contains('/'))?;
    let servers: Vec<String> = servers.split(';').map(str::to_owned).collect();
    let is_complete = servers.iter().all(|server| !server.is_empty());
    is_complete.then(|| EtcdServersOverride { group: group.to_owned(), resource: resource.to_owned(), servers })
}

impl EtcdStoreFlags {
    /// The etcd that the flags describe. For a migration: the server compacts nothing and does not check the health of
    /// etcd.
    ///
    /// # Errors
    /// No server is named, or the media type is not known.
    pub(crate) fn config(&self) -> Result<EtcdConfig, String> {
        self.config_of(StringSlice::concat(&self.etcd_servers))
    }

    fn config_of(&self, servers: Vec<String>) -> Result<EtcdConfig, String> {
        if servers.is_empty() {
            return Err("--etcd-servers must be specified".to_owned());
        }
        let protobuf = match self.storage_media_type.as_str() {
            PROTOBUF => true,
            JSON => false,
            unknown => {
                return Err(format!("--storage-media-type \"{unknown}\" invalid, allowed values: {JSON}, {PROTOBUF}"));
            }
        };
        Ok(EtcdConfig {
            servers,
            overrides: Vec::new(),
            protobuf,
            // Keys begin with a slash, whatever the prefix is.
            prefix: match self.etcd_prefix.trim_matches('/') {
                "" => String::new(),
                prefix => format!("/{prefix}"),
            },
            certificates: EtcdCertificateFiles {
                certificate_authority: self.etcd_cafile.clone(),
                identity: self.etcd_certfile.clone().zip(self.etcd_keyfile.clone()),
            },
            compaction_interval: Duration::ZERO,
            health_timeout: DEFAULT_CHECK_TIMEOUT,
            ready_timeout: DEFAULT_CHECK_TIMEOUT,
            max_feed_lag: Duration::ZERO,
            lease_reuse: Duration::from_secs(DEFAULT_LEASE_REUSE_SECONDS.into()),
        })
    }
}

impl EtcdFlags {
    /// True if servers of single resources are named.
    pub(crate) fn names_overrides(&self) -> bool {
        !self.etcd_servers_overrides.is_empty()
    }

    /// Which metrics of the store are computed.
    pub(crate) fn storage_metrics(&self) -> StorageMetrics {
        StorageMetrics {
            objects: !self.etcd_count_metric_poll_period.is_zero(),
            size: !self.etcd_db_metric_poll_interval.is_zero(),
        }
    }

    /// True if servers are named.
    pub(crate) fn names_servers(&self) -> bool {
        !self.store.etcd_servers.is_empty()
    }

    /// The etcd that the flags describe.
    ///
    /// # Errors
    /// No server is named, or the media type is not known.
    pub(crate) fn config(&self) -> Result<EtcdConfig, String> {
        self.config_of(StringSlice::concat(&self.store.etcd_servers))
    }

    /// The etcd with these servers and with the other options from the flags.
    ///
    /// # Errors
    /// No server is named, or the media type is not known.
    pub(crate) fn config_of(&self, servers: Vec<String>) -> Result<EtcdConfig, String> {
        let overrides = StringSlice::concat(&self.etcd_servers_overrides);
        let overrides: Option<Vec<EtcdServersOverride>> = overrides.iter().map(|text| parse_override(text)).collect();
        Ok(EtcdConfig {
            overrides: overrides.ok_or(INVALID_OVERRIDE)?,
            compaction_interval: self.etcd_compaction_interval,
            health_timeout: self.etcd_healthcheck_timeout,
            ready_timeout: self.etcd_readycheck_timeout,
            max_feed_lag: self.max_feed_lag,
            lease_reuse: Duration::from_secs(self.lease_reuse_duration_seconds.into()),
            ..self.store.config_of(servers)?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_parsed_as_upstream() {
        let parsed = |group: &str, resource: &str, servers: &[&str]| EtcdServersOverride {
            group: group.to_owned(),
            resource: resource.to_owned(),
            servers: servers.iter().map(|server| (*server).to_owned()).collect(),
        };
        for (text, expect) in [
            ("/events#http://a:1", Some(parsed("", "events", &["http://a:1"]))),
            (
                "apps/deployments#http://a:1;http://b:2",
                Some(parsed("apps", "deployments", &["http://a:1", "http://b:2"])),
            ),
            ("", None),
            ("/events", None),
            ("events#http://a:1", None),
            ("a/b/events#http://a:1", None),
            ("/events#http://a:1#http://b:2", None),
            ("/events#", None),
            ("/events#http://a:1;", None),
        ] {
            assert_eq!(parse_override(text), expect, "{text}");
        }
    }
}
