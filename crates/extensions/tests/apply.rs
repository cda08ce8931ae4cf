//! Server-side apply of custom resources: operations of several managers on an object, one per line, and then the
//! object and its managed fields. The scenarios are in `apply.txt` and read top to bottom. `UPDATE_EXPECT=1` updates
//! the file.
//!
//! `schema {...}` is followed by scenarios, each of which begins with `==`. A manager runs `apply`, `force` or
//! `update`. A line with `!` shows the error of the operation before it.

use std::fmt::Write as _;

use pintle_apply::merge::{ConvertError, ManagedFields, UpdateError, Updater, VersionConverter};
use pintle_apply::typed::{Duplicates, TypeRef};
use pintle_extensions::schema::{StructuralSchema, to_types};
use pintle_schema::Schema as Types;
use pintle_value::{Value, print};

struct Kind(Types);

impl VersionConverter for Kind {
    fn type_ref(&self, _: &str) -> Option<TypeRef<'_>> {
        Some(TypeRef::new(&self.0.types, self.0.root))
    }

    fn convert(&self, object: &Value, _: &str, _: &str) -> Result<Value, ConvertError> {
        Ok(object.clone())
    }
}

#[derive(Default)]
struct State {
    live: Value,
    managers: ManagedFields<String>,
}

impl State {
    /// Runs one operation. Returns its error message. All calls to the code under test are here.
    fn run(&mut self, kind: &Kind, line: &str) -> Result<(), String> {
        let mut words = line.splitn(3, ' ');
        let (verb, manager, object) =
            (words.next().unwrap_or(""), words.next().unwrap_or("").to_owned(), words.next().unwrap_or(""));
        let object: Value = serde_json::from_str(object).expect(line);
        let duplicates = if verb == "update" { Duplicates::Allowed } else { Duplicates::Forbidden };
        TypeRef::new(&kind.0.types, kind.0.root).validate(&object, duplicates).map_err(|e| e.to_string())?;
        let updater = Updater { converter: kind };
        let managers = self.managers.clone();
        let done = match verb {
            "update" => {
                let managers = updater.update(&self.live, &object, "v1", managers, &manager);
                managers.map(|managers| (Some(object), managers))
            }
            "apply" | "force" => updater.apply(&self.live, &object, "v1", managers, &manager, verb == "force"),
            _ => panic!("{line}"),
        };
        let (object, managers) = done.map_err(|error| match error {
            UpdateError::Conflicts(conflicts) => {
                let conflict = conflicts.iter().map(|c| format!("conflict with {}: {}", c.manager, c.path));
                conflict.collect::<Vec<_>>().join(", ")
            }
            UpdateError::Failed(message) => message,
        })?;
        self.managers = managers;
        self.live = object.unwrap_or_else(|| self.live.clone());
        Ok(())
    }

    fn write(&self, out: &mut String) {
        writeln!(out, "= {}", print::json(&self.live)).expect("a string");
        for (manager, owned) in &self.managers {
            write!(out, "= {manager} owns").expect("a string");
            owned.set.paths().iter().for_each(|path| write!(out, " {path}").expect("a string"));
            out.push('\n');
        }
    }
}

fn run_scenarios(table: &str) -> String {
    let mut out = String::new();
    let mut kind = None;
    let mut state: Option<State> = None;
    for line in table.lines().filter(|line| !line.starts_with(['!', '=']) || line.starts_with("==")) {
        match (line.split(' ').next().unwrap_or(""), &mut state) {
            ("apply" | "force" | "update", Some(state)) => {
                writeln!(out, "{line}").expect("a string");
                if let Err(refused) = state.run(kind.as_ref().expect("a schema"), line) {
                    writeln!(out, "! {}", refused.replace('\n', " ")).expect("a string");
                }
                continue;
            }
            ("==", _) => state = Some(State { live: Value::object(), ..State::default() }),
            ("schema", _) => {
                let tree: Value = serde_json::from_str(&line[7..]).expect(line);
                kind = Some(Kind(to_types(&StructuralSchema::parse(&tree).expect(line))));
            }
            ("", Some(ended)) => {
                ended.write(&mut out);
                state = None;
            }
            _ => {}
        }
        writeln!(out, "{line}").expect("a string");
    }
    state.into_iter().for_each(|state| state.write(&mut out));
    out
}

#[test]
fn custom_resources_are_merged_by_their_schema() {
    pintle_scenarios::check_file(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/apply.txt"), run_scenarios);
}
