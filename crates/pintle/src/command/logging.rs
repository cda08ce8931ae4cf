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
/// 3 on. The start and the stop of the server are always logged. Libraries log only errors below 6: some log a warning
/// for each fault of a client, so that a client could fill the log.
fn filter(verbosity: u8) -> &'static str {
    match verbosity {
        0 => "error,pintle=warn,pintle::start=info,pintle::stop=info",
        1..=2 => "error,pintle=info",
        3..=5 => "error,pintle=debug",
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

    /// Logs as the start of the server, as another crate of the server, and as a library. Returns the messages that
    /// pass the filter.
    fn logged(verbosity: u8) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let writer = file.reopen().expect("the file");
        let log =
            tracing_subscriber::fmt().with_env_filter(filter(verbosity)).with_writer(std::sync::Mutex::new(writer));
        tracing::subscriber::with_default(log.without_time().with_ansi(false).finish(), || {
            tracing::info!(target: "pintle::start", "start");
            tracing::info!(target: "pintle::stop", "stop");
            tracing::info!(target: "pintle_server::pipeline", "request");
            tracing::warn!(target: "pintle_server::pipeline", "retry");
            tracing::warn!(target: "h2::proto::streams::recv", "flood");
            tracing::error!(target: "rusqlite", "corrupt");
        });
        let text = std::fs::read_to_string(file.path()).expect("the log");
        text.lines().filter_map(|line| line.rsplit(' ').next()).map(str::to_owned).collect()
    }

    #[test]
    fn a_client_cannot_fill_the_log_with_warnings_of_libraries() {
        assert_eq!(logged(0), ["start", "stop", "retry", "corrupt"]);
        for verbosity in 1..6 {
            assert_eq!(logged(verbosity), ["start", "stop", "request", "retry", "corrupt"], "{verbosity}");
        }
        assert_eq!(logged(6), ["start", "stop", "request", "retry", "flood", "corrupt"]);
    }
}
