//! The command line of `pintle serve`: the flags, and the text of each value for `/flagz`.

use std::collections::BTreeMap;

use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::Serve;
use crate::command::flag_text::FlagForm;

/// The flags with their values as Go prints them, by name.
pub(crate) type FlagValues = BTreeMap<String, String>;

/// The flags of `pintle serve`, and their values for `/flagz`.
pub(crate) struct ServeCommand {
    /// The flags.
    pub(crate) serve: Serve,
    /// The values of all flags of the command, defaults included.
    pub(crate) values: FlagValues,
}

impl FromArgMatches for ServeCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { values: flag_values(matches), serve: Serve::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.values = flag_values(matches);
        self.serve.update_from_arg_matches(matches)
    }
}

impl Args for ServeCommand {
    fn augment_args(command: Command) -> Command {
        Serve::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Serve::augment_args_for_update(command)
    }
}

/// The values of all flags, defaults included.
fn flag_values(matches: &ArgMatches) -> FlagValues {
    let command = Serve::augment_args(Command::new("serve"));
    let value = |flag: &clap::Arg| {
        let name = flag.get_long()?;
        let values = matches.get_raw(flag.get_id().as_str()).into_iter().flatten();
        let values: Vec<String> = values.map(|value| value.to_string_lossy().into_owned()).collect();
        Some((name.to_owned(), form(name, flag).print(&values)))
    };
    command.get_arguments().filter_map(value).collect()
}

/// How the value of a flag is printed.
fn form(name: &str, flag: &clap::Arg) -> FlagForm {
    let value_name = flag.get_value_names().and_then(<[_]>::first).map(|name| name.as_str());
    match (name, value_name) {
        ("feature-gates", _) => FlagForm::Multimap,
        ("runtime-config" | "oidc-required-claim", _) => FlagForm::Pairs,
        ("tls-sni-cert-key", _) => FlagForm::Certificates,
        ("service-account-issuer" | "service-account-key-file", _) => FlagForm::Array,
        (_, Some("DURATION")) => FlagForm::Duration,
        _ if matches!(flag.get_action(), ArgAction::Append) => FlagForm::List,
        _ => FlagForm::Text,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        serve: ServeCommand,
    }

    #[test]
    fn all_flags_have_the_values_that_go_prints() {
        let command_line = [
            "serve",
            "--feature-gates=kube:B=true",
            "--feature-gates=A=false",
            "--runtime-config=api/beta=true,api/alpha=false",
            "--request-timeout=90s",
            "--cors-allowed-origins=\"//a{1,2}$\",//b$",
            "--v=3",
        ];
        let parsed = CommandLine::parse_from(command_line).serve;
        let value = |name: &str| parsed.values.get(name).map(String::as_str);
        assert_eq!(value("feature-gates"), Some(":A=false,kube:B=true"));
        assert_eq!(value("runtime-config"), Some("api/alpha=false,api/beta=true"));
        assert_eq!(value("request-timeout"), Some("1m30s"));
        assert_eq!(value("cors-allowed-origins"), Some("[\"//a{1,2}$\",//b$]"));
        assert_eq!(value("v"), Some("3"));
        // Defaults.
        assert_eq!(value("bind-address"), Some("127.0.0.1"));
        assert_eq!(value("event-ttl"), Some("1h0m0s"));
        assert_eq!(value("enable-admission-plugins"), Some("[]"));
        assert_eq!(value("tls-sni-cert-key"), Some("[]"));
        assert_eq!(value("tls-cert-file"), Some(""));
        assert_eq!(value("allow-privileged"), Some("true"));
        let names: Vec<&String> = parsed.values.keys().collect();
        let mut flags = Serve::flag_names();
        flags.sort();
        assert_eq!(names, flags.iter().collect::<Vec<_>>());
        assert_eq!(parsed.serve.secure_port, 6443);
    }
}
