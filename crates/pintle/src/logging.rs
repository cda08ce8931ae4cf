//! The log of the binary, on standard error: its verbosity (`--v`) and its format (`--logging-format`).

use std::io::{IsTerminal, stderr};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// The variable that overrides `--v` with a filter by target, such as `info,pintle_store=debug`.
const FILTER_VARIABLE: &str = "PINTLE_LOG";

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoggingFormat {
    /// One line of text per message.
    Text,
    /// One JSON object per message.
    Json,
}

/// Starts to log.
pub(crate) fn init(verbosity: u8, format: LoggingFormat) {
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new(filter(verbosity)));
    let log = tracing_subscriber::fmt().with_writer(stderr).with_ansi(stderr().is_terminal()).with_env_filter(filter);
    match format {
        LoggingFormat::Text => log.init(),
        LoggingFormat::Json => log.json().init(),
    }
}

/// The filter of a verbosity of klog: kube-apiserver logs the traces of slow requests from 2 on, and every request from
/// 3 on.
fn filter(verbosity: u8) -> &'static str {
    match verbosity {
        0 => "warn,pintle::start=info",
        1..=2 => "info",
        3..=5 => "info,pintle=debug",
        6..=8 => "debug,pintle=trace",
        9.. => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verbosity_has_a_valid_filter() {
        for verbosity in 0..=u8::MAX {
            assert!(EnvFilter::try_new(filter(verbosity)).is_ok(), "{verbosity}");
        }
    }
}
