//! `cargo xtask release`: checks what docs/releases.md demands of a release and can be checked in a moment. It prints
//! the result of each check, and then the steps that remain. It changes nothing and publishes nothing.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use crate::commands::output;
use crate::{print_status, root};

/// The files with the version, and the text around it. The version of `Cargo.toml` is the release's.
const VERSIONS: &[(&str, &str, &str)] = &[
    ("Cargo.toml", "[workspace.package]\nversion = \"", "\"\n"),
    ("Cargo.lock", "\nname = \"pintle\"\nversion = \"", "\"\n"),
    ("packages/python/pyproject.toml", "\nversion = \"", "\"\n"),
    ("packages/javascript/package.json", "\n  \"version\": \"", "\",\n"),
    ("packages/java/pom.xml", "\n  <version>", "</version>\n"),
];

/// Documents with commands and examples that name the version.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "docs/releases.md",
    "crates/testkit/README.md",
    "packages/java/README.md",
    "packages/javascript/README.md",
    "packages/python/README.md",
];

/// The files that a release has, as folder, beginning and end of the name. `{}` is the version.
const FILES: &[(&str, &str, &str)] = &[
    ("target/optimized", "pintle", ""),
    ("target/packages", "pintle-{}-py3-none-", ".whl"),
    ("target/packages", "pintle-{}.tgz", ""),
    ("target/packages", "pintle-junit-{}.jar", ""),
];

/// The result of a check: a line about the present state, or about the fault and its remedy.
type Outcome = Result<String, String>;

/// Runs all checks.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if let Some(unexpected) = arguments.first() {
        return Err(format!("unexpected argument {unexpected:?}; the version is the version of Cargo.toml"));
    }
    let version = version_of(&read_file("Cargo.toml")?, VERSIONS[0])?;
    let today = output(Command::new("date").args(["-u", "+%F"]))?;
    let today = today.trim();
    let changelog = read_file("CHANGELOG.md")?;
    let checks = [
        ("versions", same_versions(&version, read_file)),
        ("changelog", changelog_entry(&changelog, &version, today)),
        ("documents", mentioned_versions(&version, read_file)),
        ("clean tree", clean_tree(&git(&["status", "--porcelain"])?)),
        ("tag", new_tag(&version, &git(&["tag", "--list"])?)),
        ("files", built_files(&root(), &version, commit_time()?)),
    ];
    let mut faults = 0;
    for (name, outcome) in &checks {
        let (mark, text) = match outcome {
            Ok(text) => ("ok", text),
            Err(text) => ("FAULT", text),
        };
        faults += usize::from(outcome.is_err());
        print_status(&format!("{mark:<6} {name}: {text}\n"));
    }
    if faults > 0 {
        return Err(format!("{faults} of {} checks of version {version} failed", checks.len()));
    }
    print_status(&remaining_steps(&version, today, section(&changelog, &format!("[{version}]")).is_some()));
    Ok(())
}

/// The steps that this command cannot check.
fn remaining_steps(version: &str, today: &str, has_section: bool) -> String {
    let steps = if has_section {
        vec![
            "pass the long checks and update the numbers, if that is not done: docs/releases.md, steps 3 to 5"
                .to_owned(),
            format!("git tag --annotate v{version} --message 'Pintle {version}' && git push origin v{version}"),
            "sha256sum target/optimized/pintle target/packages/* > SHA256SUMS".to_owned(),
            format!("publish these files, SHA256SUMS and the section {version} of CHANGELOG.md"),
        ]
    } else {
        vec![
            format!("rename \"## [Unreleased]\" in CHANGELOG.md to \"## [{version}] - {today}\", and commit"),
            "cargo xtask optimize && cargo xtask package --binary target/optimized/pintle --test".to_owned(),
            "cargo xtask release".to_owned(),
        ]
    };
    let lines = steps.iter().enumerate().map(|(index, step)| format!("  {}. {step}\n", index + 1));
    format!("\nPintle {version} can be released. What remains:\n{}", lines.collect::<String>())
}

/// The version in the text of a file.
fn version_of(text: &str, (path, before, after): (&str, &str, &str)) -> Result<String, String> {
    let found = text.split_once(before).and_then(|(_, rest)| rest.split_once(after));
    found.map(|(version, _)| version.to_owned()).ok_or_else(|| format!("{path} has no version"))
}

/// All packages have the version of the server.
fn same_versions(version: &str, read: impl Fn(&str) -> Result<String, String>) -> Outcome {
    for place in VERSIONS {
        let found = version_of(&read(place.0)?, *place)?;
        if found != version {
            return Err(format!("{} has {found} instead of {version}", place.0));
        }
    }
    Ok(format!("{} files have {version}", VERSIONS.len()))
}

/// The rest of a heading of the changelog after its name, and the lines below.
fn section<'a>(changelog: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let (_, found) = changelog.split_once(&format!("\n## {name}"))?;
    let (heading, lines) = found.split_once('\n').unwrap_or((found, ""));
    Some((heading, lines.split("\n## ").next().unwrap_or_default()))
}

/// The changelog has the version with the date of today, or unreleased changes that become it.
fn changelog_entry(changelog: &str, version: &str, today: &str) -> Outcome {
    let changes = |lines: &str| lines.lines().filter(|line| line.starts_with("- ")).count();
    let unreleased = section(changelog, "[Unreleased]").map_or(0, |(_, lines)| changes(lines));
    match section(changelog, &format!("[{version}]")) {
        None if unreleased == 0 => Err(format!("neither {version} nor Unreleased has changes")),
        None => Ok(format!("{unreleased} unreleased changes will be {version}")),
        Some(_) if unreleased > 0 => Err(format!("both {version} and Unreleased have changes; raise the version")),
        Some((heading, _)) if heading.trim() != format!("- {today}") => {
            Err(format!("the heading \"[{version}]{heading}\" must end with \" - {today}\""))
        }
        Some((_, lines)) if changes(lines) == 0 => Err(format!("{version} has no changes")),
        Some((_, lines)) => Ok(format!("{version} has {} changes", changes(lines))),
    }
}

/// Documents name no other version.
fn mentioned_versions(version: &str, read: impl Fn(&str) -> Result<String, String>) -> Outcome {
    let mut count = 0;
    for path in DOCUMENTS {
        for found in versions_in(&read(path)?) {
            if found != version {
                return Err(format!("{path} names version {found}"));
            }
            count += 1;
        }
    }
    Ok(format!("{count} mentions of {version}"))
}

/// The versions of Pintle that a text names, such as the version in `pintle-junit-0.1.0.jar`.
fn versions_in(text: &str) -> Vec<String> {
    let after_name = text.split("pintle").skip(1);
    let numbers = after_name.map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_lowercase() || "-:".contains(c)));
    let numbers = numbers.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit() && c != '.').next());
    let numbers = numbers.map(|number| number.trim_end_matches('.'));
    numbers.filter(|number| number.split('.').filter(|part| !part.is_empty()).count() == 3).map(str::to_owned).collect()
}

/// The working tree has no changes, given the output of `git status --porcelain`.
fn clean_tree(status: &str) -> Outcome {
    match status.lines().count() {
        0 => Ok("everything is committed".to_owned()),
        count => Err(format!("{count} files are not committed")),
    }
}

/// The version is not released yet.
fn new_tag(version: &str, tags: &str) -> Outcome {
    let tag = format!("v{version}");
    if tags.lines().any(|found| found == tag) {
        return Err(format!("{tag} exists; raise the version"));
    }
    Ok(format!("{tag} is free"))
}

/// The files of the release exist, and are not older than the commit.
fn built_files(root: &Path, version: &str, commit: SystemTime) -> Outcome {
    for (folder, begin, end) in FILES {
        let begin = begin.replace("{}", version);
        let remedy = "run cargo xtask optimize, then cargo xtask package --binary target/optimized/pintle --test";
        let entries = fs::read_dir(root.join(folder)).map_err(|_| format!("no folder {folder}: {remedy}"))?;
        let is_file =
            |name: &str| if end.is_empty() { name == begin } else { name.starts_with(&begin) && name.ends_with(end) };
        let file = entries.flatten().find(|entry| entry.file_name().to_str().is_some_and(is_file));
        let file = file.ok_or_else(|| format!("no {folder}/{begin}{end}: {remedy}"))?;
        let modified = file.metadata().and_then(|metadata| metadata.modified()).map_err(|error| error.to_string())?;
        if modified < commit {
            return Err(format!("{} is older than the commit: {remedy}", file.path().display()));
        }
    }
    Ok(format!("the program and {} packages are built", FILES.len() - 1))
}

/// The time of the commit that is checked out.
fn commit_time() -> Result<SystemTime, String> {
    let seconds = git(&["show", "--no-patch", "--format=%ct", "HEAD"])?;
    let seconds = seconds.trim().parse().map_err(|error| format!("git show: {error}"))?;
    Ok(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds))
}

fn git(arguments: &[&str]) -> Result<String, String> {
    output(Command::new("git").args(arguments).current_dir(root()))
}

fn read_file(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{
        VERSIONS, built_files, changelog_entry, clean_tree, mentioned_versions, new_tag, read_file, remaining_steps,
        same_versions, versions_in,
    };

    #[test]
    fn the_repository_has_one_version() {
        let version = env!("CARGO_PKG_VERSION");
        same_versions(version, read_file).unwrap();
        mentioned_versions(version, read_file).unwrap();
    }

    #[test]
    fn another_version_in_any_file_is_a_fault() {
        for other in VERSIONS {
            let read = |path: &str| {
                let (_, before, after) = VERSIONS.iter().find(|place| place.0 == path).unwrap();
                Ok(format!("\n{before}{}{after}", if path == other.0 { "0.1.9" } else { "0.2.0" }))
            };
            assert_eq!(same_versions("0.2.0", read), Err(format!("{} has 0.1.9 instead of 0.2.0", other.0)));
        }
        assert_eq!(same_versions("0.2.0", |_| Ok(String::new())), Err("Cargo.toml has no version".to_owned()));
    }

    #[test]
    fn changelog_has_the_version_of_today_or_unreleased_changes() {
        let check = |sections: &str, expect: Result<&str, &str>| {
            let changelog = format!("# Changelog\n\n{sections}\n## [0.1.0] - 2026-01-01\n\n- Old.\n");
            let found = changelog_entry(&changelog, "0.2.0", "2026-06-01");
            assert_eq!(found.as_deref().map_err(String::as_str), expect, "{sections}");
        };
        check("", Err("neither 0.2.0 nor Unreleased has changes"));
        check("## [Unreleased]\n", Err("neither 0.2.0 nor Unreleased has changes"));
        check("## [Unreleased]\n\n### Added\n\n- One.\n- Two\n  lines.\n", Ok("2 unreleased changes will be 0.2.0"));
        check("## [Unreleased]\n\n## [0.2.0] - 2026-06-01\n\n- One.\n", Ok("0.2.0 has 1 changes"));
        check("## [0.2.0] - 2026-06-01\n", Err("0.2.0 has no changes"));
        check(
            "## [0.2.0] - 2026-05-31\n\n- One.\n",
            Err("the heading \"[0.2.0] - 2026-05-31\" must end with \" - 2026-06-01\""),
        );
        check(
            "## [Unreleased]\n\n- One.\n\n## [0.2.0] - 2026-06-01\n\n- Two.\n",
            Err("both 0.2.0 and Unreleased have changes; raise the version"),
        );
    }

    #[test]
    fn versions_in_documents_are_found() {
        let check = |text: &str, expect: &[&str]| assert_eq!(versions_in(text), expect, "{text}");
        check("`v1.36.6+pintle-0.1.0`.", &["0.1.0"]);
        check("pintle-junit-0.1.0.jar and pintle:pintle-junit:0.2.0", &["0.1.0", "0.2.0"]);
        check("pintle-0.1.0-py3-none-linux_x86_64.whl", &["0.1.0"]);
        check("pintle 0.1.0 and pintle-data and pintle serve at 127.0.0.1", &[]);
    }

    #[test]
    fn changed_files_and_existing_tags_are_faults() {
        clean_tree("").unwrap();
        assert_eq!(clean_tree(" M Cargo.toml\n?? new\n"), Err("2 files are not committed".to_owned()));
        new_tag("0.2.0", "v0.1.0\nv0.2.0-rc1\n").unwrap();
        assert_eq!(new_tag("0.2.0", "v0.1.0\nv0.2.0\n"), Err("v0.2.0 exists; raise the version".to_owned()));
    }

    #[test]
    fn files_must_exist_with_the_version_and_be_newer_than_the_commit() {
        let folder = tempfile::tempdir().unwrap();
        let commit = SystemTime::now() - Duration::from_secs(60);
        let fault = |part: &str, commit: SystemTime| {
            let fault = built_files(folder.path(), "0.2.0", commit).unwrap_err();
            assert!(fault.contains(part), "{fault}");
        };
        fault("no folder target/optimized", commit);
        for name in ["optimized", "packages"] {
            std::fs::create_dir_all(folder.path().join("target").join(name)).unwrap();
        }
        let create = |name: &str| std::fs::write(folder.path().join("target").join(name), "").unwrap();
        create("packages/pintle-0.2.0.tgz");
        fault("no target/optimized/pintle:", commit);
        create("optimized/pintle");
        create("packages/pintle-0.1.0-py3-none-linux_x86_64.whl");
        fault("no target/packages/pintle-0.2.0-py3-none-.whl", commit);
        create("packages/pintle-0.2.0-py3-none-linux_x86_64.whl");
        create("packages/pintle-junit-0.1.0.jar");
        fault("no target/packages/pintle-junit-0.2.0.jar", commit);
        create("packages/pintle-junit-0.2.0.jar");
        assert_eq!(built_files(folder.path(), "0.2.0", commit), Ok("the program and 3 packages are built".to_owned()));
        fault("is older than the commit", SystemTime::now() + Duration::from_secs(60));
    }

    #[test]
    fn remaining_steps_begin_with_the_changelog_unless_it_has_the_version() {
        let first = "  1. rename \"## [Unreleased]\" in CHANGELOG.md to \"## [0.2.0] - 2026-06-01\", and commit\n";
        assert!(remaining_steps("0.2.0", "2026-06-01", false).contains(first));
        let steps = remaining_steps("0.2.0", "2026-06-01", true);
        assert!(steps.contains("  1. pass the long checks") && steps.contains("git tag --annotate v0.2.0"), "{steps}");
    }
}
