//! Finds unrecognized `format` values, which the server ignores and about which it warns clients (upstream:
//! `WarningsOnCreate` of apiextensions-apiserver's `pkg/registry/customresourcedefinition`, and
//! `pkg/apiserver/validation/formats.go`).

use std::collections::HashSet;

use pintle_value::Value;

use super::spec::schemas;

/// The recognized formats of strings, without dashes.
const TEXTS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Returns the unrecognized formats in the schemas of a CRD, without duplicates.
pub(super) fn unrecognized_formats(object: &Value) -> Vec<&str> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for schema in schemas(object) {
        schema.any(&mut |node| {
            let format = node.text("format");
            if !format.is_empty() && !is_known(node.text("type"), format) && seen.insert(format) {
                found.push(format);
            }
            false
        });
    }
    found
}

fn is_known(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => TEXTS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}
