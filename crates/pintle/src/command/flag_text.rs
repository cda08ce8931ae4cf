//! The values of flags as Go prints them, for `/flagz` (upstream: the `String` methods of pflag's and component-base's
//! flag values).

use pintle_value::time::Duration;

use super::string_slice::StringSlice;

/// How the value of a flag is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagForm {
    /// The text as given; the last value counts.
    Text,
    /// A duration; the last value counts.
    Duration,
    /// A list of strings, in brackets.
    List,
    /// Strings that may contain commas, in brackets.
    Array,
    /// Pairs of certificates and keys, in brackets.
    Certificates,
    /// Pairs such as `a=b`, sorted.
    Pairs,
    /// Values by component, such as `kube:A=true`, sorted by component.
    Multimap,
}

impl FlagForm {
    /// Prints the values of a flag, or the zero value of the form if there are none.
    pub(crate) fn print(self, values: &[String]) -> String {
        let last = values.last().map(String::as_str).unwrap_or_default();
        match self {
            FlagForm::Text => last.to_owned(),
            FlagForm::Duration if last.is_empty() => Duration(0).to_string(),
            FlagForm::Duration => Duration::parse(last).map_or_else(|_| last.to_owned(), |value| value.to_string()),
            FlagForm::List => format!("[{}]", join_csv(&strings(values))),
            FlagForm::Array => format!("[{}]", join_csv(values)),
            FlagForm::Certificates => format!("[{}]", values.join(";")),
            FlagForm::Pairs => {
                let mut pairs = strings(values);
                pairs.sort();
                pairs.join(",")
            }
            FlagForm::Multimap => {
                let values = strings(values);
                let mut pairs: Vec<(&str, &str)> =
                    values.iter().map(|value| value.split_once(':').unwrap_or(("", value))).collect();
                pairs.sort_by_key(|(component, _)| *component);
                let pairs: Vec<String> = pairs.iter().map(|(component, pair)| format!("{component}:{pair}")).collect();
                pairs.join(",")
            }
        }
    }
}

/// The strings of all values of a flag, each of which is a list.
fn strings(values: &[String]) -> Vec<String> {
    // The values were checked when they were parsed.
    StringSlice::concat(&values.iter().filter_map(|value| value.parse().ok()).collect::<Vec<StringSlice>>())
}

/// Strings as a record of CSV (upstream: Go's `encoding/csv`).
fn join_csv(strings: &[String]) -> String {
    let quoted = |string: &String| {
        let needs_quotes = string.contains([',', '"', '\r', '\n']) || string.starts_with([' ', '\t']);
        if needs_quotes { format!("\"{}\"", string.replace('"', "\"\"")) } else { string.clone() }
    };
    strings.iter().map(quoted).collect::<Vec<String>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printed_as_by_go() {
        let check = |form: FlagForm, values: &[&str], expect: &str| {
            let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
            assert_eq!(form.print(&values), expect, "{form:?} {values:?}");
        };
        check(FlagForm::Text, &["a", "b"], "b");
        check(FlagForm::Text, &[], "");
        check(FlagForm::Duration, &["60s"], "1m0s");
        check(FlagForm::Duration, &[], "0s");
        check(FlagForm::List, &["a,b", "\"c,d\""], "[a,b,\"c,d\"]");
        check(FlagForm::List, &[], "[]");
        check(FlagForm::Array, &["a,b", "c"], "[\"a,b\",c]");
        check(FlagForm::Certificates, &["a,b:x", "c,d"], "[a,b:x;c,d]");
        check(FlagForm::Pairs, &["b=1", "a=2,c=3"], "a=2,b=1,c=3");
        check(FlagForm::Multimap, &["kube:A=true", "B=true,C=false"], ":B=true,:C=false,kube:A=true");
    }
}
