//! Texts in messages as Go prints them.

use pintle_value::Str;
use pintle_value::print::quote;

/// A list of texts as Go prints it with `%q`.
pub(crate) fn quote_list(texts: &[Str]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", texts.join(" "))
}
