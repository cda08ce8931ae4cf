//! The layers of crates and modules. ARCHITECTURE.md has the one list of the crates and of the modules of `server`. `apply` and `cel` name
//! their layers in their own documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules that only fuzz targets and tests of other crates use. They may use every layer.
const ABOVE_ALL: &[&str] = &["lib", "fuzzing"];

/// The layers of `apply`, the lowest first.
const APPLY: &[&[&str]] = &[&["typed"], &["merge"], &["managed_fields"]];
/// The layers of `cel`, the lowest first. Modules beside the layers are used by all of them.
const CEL: &[&[&str]] = &[
    &["syntax", "value"],
    &["cost"],
    &["function"],
    &["env"],
    &["check"],
    &["cost_estimator", "eval"],
    &["program", "library"],
    &["compile"],
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names in backticks of a table's cell.
fn names(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The rows of the table after a heading of ARCHITECTURE.md, as cells.
fn table(heading: &str) -> Vec<Vec<String>> {
    let text = read(&root().join("ARCHITECTURE.md"));
    let (_, section) = text.split_once(heading).expect("the heading");
    let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('|').skip(1).map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// The Rust files below a folder, with the name of the top module of each.
fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    fn collect(folder: &Path, top: Option<&str>, found: &mut Vec<(String, PathBuf)>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let top = top.unwrap_or(&name);
            if path.is_dir() {
                collect(&path, Some(top), found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((top.to_owned(), path.clone()));
            }
        }
    }
    let mut found = Vec::new();
    collect(folder, None, &mut found);
    found
}

/// The top modules that a file names after `crate::`, without its unit tests and comments.
fn uses(file: &str) -> BTreeSet<String> {
    let code = file.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut found = BTreeSet::new();
    for (position, _) in code.match_indices("crate::") {
        let path = &code[position + "crate::".len()..];
        let is_name = |character: char| character.is_alphanumeric() || character == '_';
        let list = path.strip_prefix('{').and_then(|list| list.split('}').next()).unwrap_or(path);
        let parts = if path.starts_with('{') { list.split(',').collect() } else { vec![list] };
        for part in parts {
            let part = part.trim_start();
            found.insert(part[..part.find(|character| !is_name(character)).unwrap_or(part.len())].to_owned());
        }
    }
    found
}

/// Checks that each module uses only modules of its own layer and of lower layers. Modules without a layer are reported if `complete`.
fn check_modules(krate: &str, layers: &BTreeMap<String, usize>, complete: bool) {
    let mut wrong = Vec::new();
    for (module, path) in files(&root().join("crates").join(krate).join("src")) {
        if ABOVE_ALL.contains(&module.as_str()) {
            continue;
        }
        let Some(own) = layers.get(&module) else {
            if complete {
                wrong.push(format!("{module} has no layer"));
            }
            continue;
        };
        for used in uses(&read(&path)) {
            if layers.get(&used).is_some_and(|layer| layer > own) {
                wrong.push(format!("{} uses {used}, which is a higher layer", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{krate}:\n{}", wrong.join("\n"));
}

fn check_listed(krate: &str, layers: &[&[&str]]) {
    let numbered = layers.iter().enumerate();
    let layers = numbered.flat_map(|(number, names)| names.iter().map(move |name| ((*name).to_owned(), number)));
    check_modules(krate, &layers.collect(), false);
}

#[test]
fn crates_use_only_crates_above_them_in_the_list() {
    let order: Vec<String> = table("## Crates").iter().flat_map(|row| names(&row[0])).collect();
    let position = |name: &str| order.iter().position(|listed| listed == name);
    let mut wrong = Vec::new();
    for (own, name) in order.iter().enumerate() {
        let manifest = read(&root().join("crates").join(name).join("Cargo.toml"));
        let (_, dependencies) = manifest.split_once("[dependencies]").unwrap_or_default();
        let dependencies = dependencies.lines().take_while(|line| !line.starts_with('['));
        for used in dependencies.filter_map(|line| line.strip_prefix("pintle-")) {
            let used = used.split(['.', ' ', '=']).next().unwrap_or_default();
            match position(used) {
                Some(listed) if listed < own => {}
                Some(_) => wrong.push(format!("{name} uses {used}, which is below it")),
                None => wrong.push(format!("{name} uses {used}, which is not in the list")),
            }
        }
    }
    assert!(order.len() > 25, "the list: {order:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn modules_of_the_server_use_only_modules_above_them_in_the_list() {
    // A semicolon separates two layers of one row.
    let rows = table("### Layers of `server`");
    let groups = rows.iter().flat_map(|row| row[1].split(';').map(names));
    let layers: BTreeMap<String, usize> =
        groups.enumerate().flat_map(|(number, names)| names.into_iter().map(move |name| (name, number))).collect();
    assert!(layers.len() > 15, "the list: {layers:?}");
    check_modules("server", &layers, true);
}

#[test]
fn modules_of_apply_and_cel_use_only_lower_layers() {
    check_listed("apply", APPLY);
    check_listed("cel", CEL);
}

#[test]
fn uses_are_found_in_code_only() {
    let file = "// crate::comment\nuse crate::one::Two;\nuse crate::{three, four::Five};\nfn f() { crate::six::seven() }\n\
                #[cfg(test)]\nmod tests { use crate::eight; }";
    assert_eq!(uses(file).into_iter().collect::<Vec<_>>(), ["four", "one", "six", "three"]);
}
