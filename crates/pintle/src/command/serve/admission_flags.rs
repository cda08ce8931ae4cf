//! The flags of admission, with kube-apiserver's names.

use std::path::PathBuf;

use pintle::read_admission_configuration;
use pintle_admission::{AdmissionConfiguration, PluginChain, TolerationSeconds};

use crate::command::string_slice::StringSlice;

/// The flags of admission.
#[derive(clap::Args)]
pub(crate) struct AdmissionFlags {
    #[arg(long, value_name = "NAME,...",
        help = plugins_help("enabled in addition to default enabled ones"))]
    enable_admission_plugins: Vec<StringSlice>,
    #[arg(long, value_name = "NAME,...",
        help = plugins_help("disabled although they are in the default enabled plugins list"))]
    disable_admission_plugins: Vec<StringSlice>,
    /// File with admission control configuration.
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
    /// Indicates the tolerationSeconds of the toleration for notReady:NoExecute that is added by default to every pod
    /// that does not already have such a toleration.
    #[arg(long, value_name = "SECONDS", default_value_t = TolerationSeconds::default().not_ready,
        allow_negative_numbers = true)]
    default_not_ready_toleration_seconds: i64,
    /// Indicates the tolerationSeconds of the toleration for unreachable:NoExecute that is added by default to every
    /// pod that does not already have such a toleration.
    #[arg(long, value_name = "SECONDS", default_value_t = TolerationSeconds::default().unreachable,
        allow_negative_numbers = true)]
    default_unreachable_toleration_seconds: i64,
}

/// The help of a flag with a list of plugins.
fn plugins_help(purpose: &str) -> String {
    let default: Vec<&str> = PluginChain::enabled_by_default().collect();
    format!(
        "Admission plugins that should be {purpose} ({}). Comma-delimited list of admission plugins: {}. The order of \
         plugins in this flag does not matter",
        default.join(", "),
        PluginChain::registered().join(", "),
    )
}

impl AdmissionFlags {
    /// The configuration of the plugins.
    ///
    /// # Errors
    /// A file cannot be read, or is malformed.
    pub(crate) fn configuration(self) -> Result<AdmissionConfiguration, String> {
        let file = self.admission_control_config_file.as_deref();
        Ok(AdmissionConfiguration {
            plugins: file.map(read_admission_configuration).transpose()?.unwrap_or_default(),
            enabled: StringSlice::concat(&self.enable_admission_plugins),
            disabled: StringSlice::concat(&self.disable_admission_plugins),
            toleration_seconds: TolerationSeconds {
                not_ready: self.default_not_ready_toleration_seconds,
                unreachable: self.default_unreachable_toleration_seconds,
            },
            ..AdmissionConfiguration::default()
        })
    }
}
