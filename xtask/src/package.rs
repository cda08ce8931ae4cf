//! `cargo xtask package`: builds the packages for tests in Python, JavaScript and Java (`packages/`) with the server's
//! binary inside, for the platform of this machine. Nothing is published.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::commands::{cargo, run_command, target_folder};
use crate::{print_status, root};

const USAGE: &str = "usage: cargo xtask package [--release | --binary PATH] [--test]";

/// Files that builds and tests leave in a package's folder. They are not copied.
const LEFTOVERS: [&str; 7] = [".mypy_cache", ".pytest_cache", ".venv", "__pycache__", "bin", "node_modules", "target"];

/// A package: its folder, the paths of the licence and the binary in it, and the functions that build and test it.
struct Package {
    folder: &'static str,
    licence: &'static str,
    binary: fn() -> String,
    build: fn(&Build<'_>) -> Result<PathBuf, String>,
    test: fn(&Build<'_>, &Path) -> Result<(), String>,
}

/// The folders of a build: the copy of the package with the binary, and the folder for the result.
struct Build<'a> {
    source: PathBuf,
    output: &'a Path,
}

const PACKAGES: [Package; 3] = [
    Package {
        folder: "python",
        licence: "LICENSE",
        binary: || "src/pintle/bin/pintle".to_owned(),
        build: build_python,
        test: test_python,
    },
    Package {
        folder: "javascript",
        licence: "LICENSE",
        binary: || format!("bin/{}/pintle", node_platform(std::env::consts::OS, std::env::consts::ARCH)),
        build: build_javascript,
        test: test_javascript,
    },
    Package {
        folder: "java",
        licence: "src/main/resources/META-INF/LICENSE",
        binary: || format!("src/main/resources/pintle/{}-{}/pintle", std::env::consts::OS, std::env::consts::ARCH),
        build: build_java,
        test: test_java,
    },
];

/// Builds all packages into `target/packages`. With `--test` it installs each package into a new environment and runs
/// the package's tests there.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let (mut release, mut binary, mut test) = (false, None, false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--release" => release = true,
            "--binary" => binary = Some(PathBuf::from(rest.next().ok_or(USAGE)?)),
            "--test" => test = true,
            _ => return Err(USAGE.to_owned()),
        }
    }
    let binary = match binary {
        Some(_) if release => return Err(USAGE.to_owned()),
        Some(path) => path,
        None => build_server(release)?,
    };
    let output = root().join("target/packages");
    let builds = output.join("build");
    remove_folder(&output)?;
    for package in &PACKAGES {
        let build = Build { source: builds.join(package.folder), output: &output };
        prepare(package, &build, &binary)?;
        let started = Instant::now();
        let result = (package.build)(&build)?;
        let size = fs::metadata(&result).map_err(|error| format!("{}: {error}", result.display()))?.len();
        let seconds = started.elapsed().as_secs();
        print_status(&format!("{}: {} MB, {seconds} s\n", result.display(), size / 1_000_000));
        if test {
            let started = Instant::now();
            (package.test)(&build, &result)?;
            print_status(&format!("{}: tests passed, {} s\n", package.folder, started.elapsed().as_secs()));
        }
    }
    // After a failure the folder stays.
    remove_folder(&builds)
}

/// Builds the server, and returns its path.
fn build_server(release: bool) -> Result<PathBuf, String> {
    let mut command = cargo(&["build", "--package", "pintle"]);
    if release {
        command.arg("--release");
    }
    run_command(&mut command)?;
    Ok(target_folder().join(if release { "release/pintle" } else { "debug/pintle" }))
}

/// Copies the package's folder, and adds the licence and the binary.
fn prepare(package: &Package, build: &Build<'_>, binary: &Path) -> Result<(), String> {
    let failed = |path: &Path| format!("cannot copy {}", path.display());
    let source = root().join("packages").join(package.folder);
    copy_folder(&source, &build.source).map_err(|error| format!("{}: {error}", failed(&source)))?;
    for (from, to) in [(root().join("LICENSE"), package.licence), (binary.to_owned(), &(package.binary)())] {
        let to = build.source.join(to);
        let created = to.parent().map_or(Ok(()), fs::create_dir_all);
        created.and_then(|()| fs::copy(&from, &to)).map_err(|error| format!("{}: {error}", failed(&from)))?;
        let mode = if from == binary { 0o755 } else { 0o644 };
        fs::set_permissions(&to, fs::Permissions::from_mode(mode)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if LEFTOVERS.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&source, &target)?;
        } else {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

fn build_python(build: &Build<'_>) -> Result<PathBuf, String> {
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]).arg(build.output).arg(&build.source);
    run_command(&mut command)?;
    file_with_extension(build.output, "whl")
}

fn test_python(build: &Build<'_>, wheel: &Path) -> Result<(), String> {
    let environment = build.output.join("build/python-test");
    run_command(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let python = environment.join("bin/python");
    let wheel = format!("{}[test]", wheel.display());
    run_command(Command::new(&python).args(["-m", "pip", "install", "--quiet", &wheel]))?;
    run_test(Command::new(&python).args(["-m", "mypy", "src"]).current_dir(&build.source))?;
    run_test(Command::new(&python).args(["-m", "pytest", "--quiet"]).current_dir(&build.source))
}

fn build_javascript(build: &Build<'_>) -> Result<PathBuf, String> {
    let mut command = Command::new("npm");
    command.args(["pack", "--silent", "--pack-destination"]).arg(build.output).current_dir(&build.source);
    // The command prints the name of the file, which is not needed.
    run_command(command.stdout(Stdio::null()))?;
    file_with_extension(build.output, "tgz")
}

fn test_javascript(build: &Build<'_>, tarball: &Path) -> Result<(), String> {
    // The test needs a project that installs the package: in the package's own folder its name would mean that folder.
    let project = build.output.join("build/javascript-test");
    let failed = |error: std::io::Error| format!("{}: {error}", project.display());
    copy_folder(&build.source.join("test"), &project.join("test")).map_err(failed)?;
    fs::copy(build.source.join("tsconfig.json"), project.join("tsconfig.json")).map_err(failed)?;
    let package = fs::read_to_string(build.source.join("package.json")).map_err(failed)?;
    let package = test_project(&package, tarball)?;
    fs::write(project.join("package.json"), package).map_err(failed)?;
    let install = ["install", "--silent", "--no-package-lock", "--no-audit", "--no-fund"];
    run_command(Command::new("npm").args(install).current_dir(&project))?;
    run_test(Command::new("npm").args(["test", "--silent"]).current_dir(&project))
}

/// The package.json of a project with the scripts and development dependencies of the package, and the package itself.
fn test_project(package: &str, tarball: &Path) -> Result<String, String> {
    let package: serde_json::Value = serde_json::from_str(package).map_err(|error| format!("package.json: {error}"))?;
    let mut dependencies = package["devDependencies"].clone();
    dependencies["pintle"] = format!("file:{}", tarball.display()).into();
    let project = serde_json::json!({
        "private": true,
        "type": "module",
        "scripts": package["scripts"],
        "devDependencies": dependencies,
    });
    Ok(project.to_string())
}

fn build_java(build: &Build<'_>) -> Result<PathBuf, String> {
    run_command(maven(build).args(["-Dmaven.test.skip=true", "package"]))?;
    let jar = file_with_extension(&build.source.join("target"), "jar")?;
    let result = build.output.join(jar.file_name().unwrap_or_default());
    fs::copy(&jar, &result).map_err(|error| format!("{}: {error}", jar.display()))?;
    Ok(result)
}

fn test_java(build: &Build<'_>, jar: &Path) -> Result<(), String> {
    let tested = format!("-Dpintle.tested={}", jar.display());
    let cache = build.output.join("build/java-cache");
    run_test(maven(build).args(["test-compile", "surefire:test", &tested]).env("XDG_CACHE_HOME", cache))
}

fn maven(build: &Build<'_>) -> Command {
    let mut command = Command::new("mvn");
    command.args(["--batch-mode", "--quiet", "--no-transfer-progress"]).current_dir(&build.source);
    command
}

/// The name that Node.js has for a platform, such as linux-x64.
fn node_platform(system: &str, machine: &str) -> String {
    let system = if system == "macos" { "darwin" } else { system };
    let machine = match machine {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}-{machine}")
}

/// The only file of a folder with the extension.
fn file_with_extension(folder: &Path, extension: &str) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let found: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    match <[PathBuf; 1]>::try_from(found) {
        Ok([path]) => Ok(path),
        Err(found) => Err(format!("{} has {} files with the extension {extension}", folder.display(), found.len())),
    }
}

fn remove_folder(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", folder.display())),
        _ => Ok(()),
    }
}

/// Runs tests of an installed package. They use the binary in the package.
fn run_test(command: &mut Command) -> Result<(), String> {
    run_command(command.env_remove("PINTLE_BINARY"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{node_platform, test_project};
    use crate::root;

    /// A file of a package.
    fn read(path: &str) -> String {
        std::fs::read_to_string(root().join("packages").join(path)).unwrap()
    }

    #[test]
    fn packages_guard_the_server_with_the_same_script() {
        let script = read("python/src/pintle/guard.sh");
        assert_eq!(script, read("javascript/src/guard.sh"));
        assert_eq!(script, read("java/src/main/resources/pintle/guard.sh"));
    }

    #[test]
    fn packages_need_no_others_at_run_time() {
        assert!(read("python/pyproject.toml").contains("\ndependencies = []\n"));
        let package: serde_json::Value = serde_json::from_str(&read("javascript/package.json")).unwrap();
        assert_eq!(package["dependencies"], serde_json::Value::Null);
        let project = read("java/pom.xml");
        let count = |text: &str| project.matches(text).count();
        assert_eq!(count("<dependency>"), count("<scope>test</scope>") + count("<scope>provided</scope>"));
    }

    #[test]
    fn platforms_have_the_names_of_node() {
        assert_eq!(node_platform("linux", "x86_64"), "linux-x64");
        assert_eq!(node_platform("macos", "aarch64"), "darwin-arm64");
    }

    #[test]
    fn test_project_installs_the_tarball() {
        let project = test_project(&read("javascript/package.json"), Path::new("/tmp/pintle.tgz")).unwrap();
        let project: serde_json::Value = serde_json::from_str(&project).unwrap();
        assert_eq!(project["devDependencies"]["pintle"], "file:/tmp/pintle.tgz");
        assert!(project["devDependencies"]["vitest"].is_string());
        assert!(project["scripts"]["test"].is_string());
    }
}
