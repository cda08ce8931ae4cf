//! Compares the catalog with data that was extracted by other means. The data is a JSON file whose `types` contain the
//! fields of each struct. The properties of a field are `n` name, `t` Go type, `p` Protobuf number, and `oe`/`oz`
//! omitted when empty or zero. Others are `r` required, `lt`/`lk` list type and keys, `mt` map type, `ps`/`pk` patch
//! strategy and key, and `d` default. The last are `in` inline and `nj` not in JSON.

use std::collections::{BTreeMap, BTreeSet};

use pintle_catalog::facts::{FieldFacts, Package, parse};
use pintle_versions::Minor;
use serde_json::Value;

use crate::print_status;

/// Comparable facts: a path (`core/v1.Pod spec number`) and its value.
pub(super) type Facts = BTreeMap<String, String>;

/// Prints every difference. Returns an error with their number if there are any.
pub(super) fn report(ours: &str, theirs: &str) -> Result<(), String> {
    let packages = parse(ours, Minor::NEWEST).map_err(|e| e.to_string())?;
    let theirs: Value = serde_json::from_str(theirs).map_err(|e| e.to_string())?;
    let (ours, theirs) = (of_catalog(&packages), of_json(&theirs));
    // Types are identified by name, whether they are structs or enums.
    let named = |facts: &Facts| -> BTreeSet<String> {
        facts.keys().filter_map(|path| path.split(' ').nth(1)).map(str::to_owned).collect()
    };
    let (mine, other) = (named(&ours), named(&theirs));
    let only_mine: Vec<&str> = mine.difference(&other).map(String::as_str).collect();
    print_status(&format!(
        "{} types in the catalog, {} in the file; {} only in the catalog: {}\n",
        mine.len(),
        other.len(),
        only_mine.len(),
        only_mine.join(" ")
    ));
    let mut differences = 0;
    let paths: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    for path in paths {
        let (a, b) = (ours.get(path), theirs.get(path));
        // Types that only the catalog has are listed above.
        if a == b || only_mine.iter().any(|name| path.split(' ').nth(1) == Some(name)) {
            continue;
        }
        differences += 1;
        let text = |v: Option<&String>| v.map_or("absent", String::as_str).to_owned();
        print_status(&format!("{path}: {} in the catalog, {} in the file\n", text(a), text(b)));
    }
    print_status(&format!("{differences} differences in {} facts\n", theirs.len()));
    if differences == 0 { Ok(()) } else { Err(format!("{differences} differences")) }
}

/// The facts of the catalog's packages.
pub(super) fn of_catalog(packages: &[Package<'_>]) -> Facts {
    let mut facts = Facts::new();
    for package in packages {
        for alias in package.aliases.iter().filter(|a| !a.values.is_empty()) {
            let path = format!("enum {}.{}", package.name, alias.name);
            facts.insert(format!("{path} closed"), alias.closed.to_string());
            facts.insert(format!("{path} values"), alias.values.join("|"));
        }
        for structure in &package.structs {
            let owner = format!("struct {}.{}", package.name, structure.name);
            if structure.kind {
                facts.insert(format!("kind {}.{}", package.name, structure.name), "registered".into());
            }
            facts.insert(owner.clone(), "declared".into());
            for (index, field) in structure.fields.iter().enumerate() {
                of_field(&mut facts, &owner, index, package.name, field);
            }
        }
    }
    facts
}

fn of_field(facts: &mut Facts, owner: &str, index: usize, package: &str, field: &FieldFacts<'_>) {
    let ty = qualify(package, field.ty);
    let path = match (field.inline, field.hidden) {
        (true, _) => format!("{owner} ={ty}"),
        (_, true) => format!("{owner} #{}", field.number),
        _ => format!("{owner} {}", field.name),
    };
    let mut put = |key: &str, value: String| {
        if !value.is_empty() {
            facts.insert(format!("{path} {key}"), value);
        }
    };
    put("index", if field.hidden { String::new() } else { index.to_string() });
    put("type", ty.clone());
    put("number", if field.number == 0 { String::new() } else { field.number.to_string() });
    put(
        "omitted",
        if field.omit_zero {
            "zero".into()
        } else if field.omit_empty {
            "empty".into()
        } else {
            String::new()
        },
    );
    put("required", if field.required { "yes".into() } else { String::new() });
    put("list", field.list.to_owned());
    put("keys", field.list_keys.to_owned());
    put("map", field.map.to_owned());
    put("patch", field.patch.to_owned());
    put("patch key", field.patch_key.to_owned());
    put("default", field.default.unwrap_or_default().to_owned());
    put("gates", field.gates.to_owned());
    put("hidden", if field.hidden { "yes".into() } else { String::new() });
    put("discriminator", if field.discriminator { "yes".into() } else { String::new() });
    put("member", if field.member { "yes".into() } else { String::new() });
}

/// Qualifies a Go type's names of its own package with the package.
fn qualify(package: &str, ty: &str) -> String {
    let split = ty.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
    let (prefix, name) = ty.split_at(split);
    if let Some((key, value)) = name.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        return format!("{prefix}map[{}]{}", qualify(package, key), qualify(package, value));
    }
    if name.starts_with(|c: char| c.is_ascii_uppercase()) && !name.contains('.') {
        return format!("{prefix}{package}.{name}");
    }
    ty.to_owned()
}

fn of_json(json: &Value) -> Facts {
    let mut facts = Facts::new();
    for (name, enum_facts) in members(&json["enums"]) {
        facts.insert(format!("enum {name} closed"), (enum_facts["closed"] == 1).to_string());
        facts.insert(format!("enum {name} values"), joined(&enum_facts["v"], "|"));
    }
    for (package, kinds) in members(&json["kinds"]) {
        for kind in kinds.as_array().into_iter().flatten() {
            facts.insert(format!("kind {package}.{}", text(kind)), "registered".into());
        }
    }
    for (name, fields) in members(&json["types"]) {
        let owner = format!("struct {name}");
        facts.insert(owner.clone(), "declared".into());
        for (index, field) in fields.as_array().into_iter().flatten().enumerate() {
            let hidden = field["nj"] == 1 || field["n"] == "-";
            let path = match text(&field["n"]) {
                // A struct embedded in a type with custom JSON is neither in JSON nor in Protobuf.
                name if name.is_empty() && hidden => continue,
                name if name.is_empty() => format!("{owner} ={}", text(&field["t"])),
                _ if hidden => format!("{owner} #{}", field["p"]),
                name => format!("{owner} {name}"),
            };
            let flag = |key: &str| if field[key] == 1 { "yes".to_owned() } else { String::new() };
            let field_facts = [
                ("index", if hidden { String::new() } else { index.to_string() }),
                ("type", text(&field["t"])),
                ("number", text(&field["p"])),
                (
                    "omitted",
                    if field["oz"] == 1 {
                        "zero".into()
                    } else if field["oe"] == 1 {
                        "empty".into()
                    } else {
                        String::new()
                    },
                ),
                ("required", if hidden { String::new() } else { flag("r") }),
                ("list", text(&field["lt"])),
                ("keys", joined(&field["lk"], ",")),
                ("map", text(&field["mt"])),
                ("patch", text(&field["ps"])),
                ("patch key", text(&field["pk"])),
                ("default", if field["d"].is_null() { String::new() } else { field["d"].to_string() }),
                ("gates", text(&field["fg"])),
                ("hidden", if hidden { "yes".into() } else { String::new() }),
                ("discriminator", flag("ud")),
                ("member", flag("uo")),
            ];
            for (key, value) in field_facts {
                if !value.is_empty() {
                    facts.insert(format!("{path} {key}"), value);
                }
            }
        }
    }
    facts
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn joined(value: &Value, separator: &str) -> String {
    value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(separator)
}
