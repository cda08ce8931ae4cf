//! The values of all flags of the original program that this program replaces, for `/flagz`.

use std::collections::BTreeMap;

use super::flags::{Arity, Flag, FlagTable, FlagValues};
use super::integers;
use crate::command::flag_text::FlagForm;

impl FlagTable {
    /// The value of each flag by name, as Go prints it: the given value or the default.
    pub(super) fn effective(&self, values: &FlagValues) -> BTreeMap<String, String> {
        let value = |flag: &Flag| (flag.name.to_owned(), effective(flag, values.given.get(flag.name)));
        self.flags.iter().map(value).collect()
    }
}

fn effective(flag: &Flag, given: Option<&Vec<String>>) -> String {
    if let Some(given) = given {
        return form(flag).print(given);
    }
    match flag.default.trim_matches('"') {
        "" => zero(flag),
        default if flag.arity == Arity::List => format!("[{}]", default.trim_matches(['[', ']'])),
        default => default.to_owned(),
    }
}

/// The value that Go prints for a flag without a default. Help texts omit it.
fn zero(flag: &Flag) -> String {
    match (flag.arity, flag.value_type) {
        (Arity::Bool, _) => "false".to_owned(),
        (_, "ip") => "<nil>".to_owned(),
        (_, "float" | "float32" | "quantity" | "Level") => "0".to_owned(),
        (_, value_type) if integers::is_integer(value_type) => "0".to_owned(),
        _ => form(flag).print(&[]),
    }
}

fn form(flag: &Flag) -> FlagForm {
    match flag.value_type {
        "duration" => FlagForm::Duration,
        "mapStringString" => FlagForm::Pairs,
        "colonSeparatedMultimapStringString" => FlagForm::Multimap,
        "namedCertKey" => FlagForm::Certificates,
        "stringArray" => FlagForm::Array,
        _ if flag.arity == Arity::List => FlagForm::List,
        _ => FlagForm::Text,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn flags_without_a_value_have_their_defaults() {
        let table = FlagTable::from_tsv(include_str!("kube-apiserver-flags.tsv"), pintle_versions::Minor::DEFAULT);
        let command_line = ["--etcd-servers=http://a:1,http://b:2", "--livez-grace-period=120s", "--profiling=false"];
        let values = table.parse("kube-apiserver", command_line.map(OsString::from)).expect("flags");
        let effective = table.effective(&values);
        let value = |name: &str| effective.get(name).map(String::as_str);
        assert_eq!(effective.len(), table.len());
        assert_eq!(value("etcd-servers"), Some("[http://a:1,http://b:2]"));
        // Flags without an effect are listed, too.
        assert_eq!(value("livez-grace-period"), Some("2m0s"));
        assert_eq!(value("profiling"), Some("false"));
        assert_eq!(value("secure-port"), Some("6443"));
        assert_eq!(value("advertise-address"), Some("<nil>"));
        assert_eq!(value("etcd-prefix"), Some("/registry"));
        assert_eq!(value("goaway-chance"), Some("0"));
        assert_eq!(value("enable-admission-plugins"), Some("[]"));
        assert_eq!(value("runtime-config"), Some(""));
        assert_eq!(value("tls-sni-cert-key"), Some("[]"));
        assert_eq!(value("enable-bootstrap-token-auth"), Some("false"));
    }
}
