//! Runs the test programs of the workspace: builds all of them, runs two at a time, and prints the slowest. A few programs
//! mostly wait for processes and clocks. They run beside the other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::commands::{cargo, run_command};
use crate::{print_status, root};

/// The packages whose tests need Go programs, a release build or minutes.
const SLOW_PACKAGES: &[&str] = &[
    "pintle",
    "pintle-bench",
    "pintle-encryption",
    "pintle-fuzz",
    "pintle-integration",
    "pintle-store",
    "pintle-testkit",
    "xtask",
];
/// The programs that mostly wait, as package and name. The longest is first.
const WAITING: &[(&str, &str)] = &[("pintle", "consistency"), ("pintle-store", "suite"), ("pintle", "program")];
/// How many of the slowest programs are printed.
const SLOWEST: usize = 20;

/// Which tests run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selection {
    /// All tests, documentation tests included.
    All,
    /// The tests that need no other program than themselves.
    Fast,
}

/// A test program.
struct Program {
    package: String,
    name: String,
    /// `lib`, `bin` or `test`.
    kind: String,
    executable: PathBuf,
    /// The folder of its package, in which it runs.
    folder: PathBuf,
}

/// The outcome of a program.
struct Outcome {
    title: String,
    passed: bool,
    time: Duration,
}

impl Program {
    /// Reads a message of cargo. Returns `None` for messages about anything else.
    fn of(message: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let target = &message["target"];
        let manifest = Path::new(message["manifest_path"].as_str()?);
        let folder = manifest.parent()?.to_path_buf();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            package: package_name(message["package_id"].as_str()?).to_owned(),
            name: text(&target["name"])?,
            kind: text(&target["kind"][0])?,
            executable: text(&message["executable"])?.into(),
            folder,
        })
    }

    fn title(&self) -> String {
        match self.kind.as_str() {
            "test" => format!("{} --test {}", self.package, self.name),
            "bin" => format!("{} --bin {}", self.package, self.name),
            _ => format!("{} --lib", self.package),
        }
    }

    fn waits(&self) -> bool {
        WAITING.contains(&(self.package.as_str(), self.name.as_str()))
    }

    /// Runs the program and prints its output when it has ended.
    fn run(&self, output: &Mutex<()>) -> Outcome {
        let title = self.title();
        print_status(&format!("     Starting -p {title}\n"));
        let start = Instant::now();
        let result = Command::new(&self.executable)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null())
            .output();
        let time = start.elapsed();
        let _guard = output.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        print_status(&format!("\n     Output of -p {title}\n"));
        let passed = match result {
            Ok(result) => {
                for bytes in [&result.stdout, &result.stderr] {
                    print_status(&String::from_utf8_lossy(bytes));
                }
                result.status.success()
            }
            Err(error) => {
                print_status(&format!("{}: {error}\n", self.executable.display()));
                false
            }
        };
        Outcome { title, passed, time }
    }
}

/// The name in a package id, such as `path+file:///folder#name@1.0.0` or `path+file:///folder/name#1.0.0`.
fn package_name(id: &str) -> &str {
    let (path, fragment) = id.rsplit_once('#').unwrap_or((id, ""));
    match fragment.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(path),
    }
}

/// Builds and runs the tests.
///
/// # Errors
/// A program cannot be built or run, or a test fails.
pub(crate) fn run(selection: Selection) -> Result<(), String> {
    let mut packages = vec!["--workspace"];
    if selection == Selection::Fast {
        packages.extend(SLOW_PACKAGES.iter().flat_map(|package| ["--exclude", *package]));
    }
    let programs = build(&packages)?;
    let (waiting, computing): (Vec<_>, Vec<_>) = programs.into_iter().partition(Program::waits);
    let output = Mutex::new(());
    let lane = |programs: Vec<Program>| programs.iter().map(|program| program.run(&output)).collect::<Vec<_>>();
    let outcomes = std::thread::scope(|scope| {
        let beside = scope.spawn(|| lane(waiting));
        let mut outcomes = lane(computing);
        outcomes.extend(beside.join().map_err(|_| "the thread of a lane panicked")?);
        Ok::<_, &str>(outcomes)
    });
    let mut outcomes = outcomes?;
    print_slowest(&mut outcomes);
    let mut failed: Vec<String> = outcomes
        .iter()
        .filter(|outcome| !outcome.passed)
        .map(|outcome| format!("cargo test -p {}", outcome.title))
        .collect();
    if selection == Selection::All
        && run_command(&mut cargo(&["test", "--workspace", "--doc", "--no-fail-fast"])).is_err()
    {
        failed.push("cargo test --workspace --doc".to_owned());
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("tests failed:\n  {}", failed.join("\n  "))) }
}

/// Builds the test programs of packages.
fn build(packages: &[&str]) -> Result<Vec<Program>, String> {
    let arguments = [&["test", "--no-run", "--message-format=json-render-diagnostics"], packages].concat();
    let messages = crate::commands::output(&mut cargo(&arguments))?;
    let mut programs: Vec<Program> = messages.lines().filter_map(Program::of).collect();
    let waiting_position = |program: &Program| {
        WAITING.iter().position(|waiting| *waiting == (program.package.as_str(), program.name.as_str()))
    };
    programs.sort_by_key(waiting_position);
    print_status(&format!("{} test programs of {}\n", programs.len(), root().display()));
    Ok(programs)
}

fn print_slowest(outcomes: &mut [Outcome]) {
    outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.time));
    print_status("\nthe slowest test programs:\n");
    for outcome in outcomes.iter().take(SLOWEST) {
        print_status(&format!("{:7.1} s  {}\n", outcome.time.as_secs_f64(), outcome.title));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_the_messages_of_cargo() {
        let message = |test: bool, kind: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///w/crates/x#pintle-x@0.1.0","manifest_path":"/w/crates/x/Cargo.toml",
                    "target":{{"kind":["{kind}"],"name":"rules"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let program = Program::of(&message(true, "test", r#""/t/rules-1""#)).expect("a program");
        assert_eq!(
            (program.title().as_str(), program.folder.as_path()),
            ("pintle-x --test rules", Path::new("/w/crates/x"))
        );
        let library = Program::of(&message(true, "lib", r#""/t/x-1""#)).expect("a program");
        assert_eq!(library.title(), "pintle-x --lib");
        assert!(Program::of(&message(false, "lib", "null")).is_none());
        assert!(Program::of(r#"{"reason":"build-finished","success":true}"#).is_none());
    }

    #[test]
    fn packages_are_named_in_both_forms_of_their_ids() {
        assert_eq!(package_name("path+file:///w/crates/store#pintle-store@0.1.0"), "pintle-store");
        assert_eq!(package_name("path+file:///w/xtask#0.1.0"), "xtask");
    }
}
