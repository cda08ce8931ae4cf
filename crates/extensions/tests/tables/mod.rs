//! Runs tables of upstream's answers, one folder of text files per test.

use std::fs;
use std::path::Path;

/// Runs every table of a folder. `run` returns a table with the actual results and counts its rows. With
/// `UPDATE_EXPECT` in the environment, the result replaces the table.
pub(crate) fn check_tables(folder: &str, run: impl Fn(&str, &mut usize) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut tables: Vec<_> = fs::read_dir(&folder).expect("tables").map(|entry| entry.expect("entry").path()).collect();
    tables.sort();
    let mut rows = 0;
    let mut wrong = Vec::new();
    for path in tables {
        let table = fs::read_to_string(&path).expect("table");
        let found = run(&table, &mut rows);
        if found == table {
            continue;
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, found).expect("table");
        } else {
            let differing = table.lines().zip(found.lines()).find(|(expected, found)| expected != found);
            wrong.push(format!("{}: {differing:?}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows >= 250, "{rows} rows");
}
