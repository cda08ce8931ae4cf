//! `cargo xtask envtest`: runs three test suites with the programs of `pintle envtest` instead of kube-apiserver and
//! etcd. They are controller-runtime's published suite, the suite of a project that kubebuilder has just scaffolded, and
//! the test of `examples/envtest-go`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::commands::{output, target_folder};
use crate::{print_status, root};

/// The release for the served version of Kubernetes.
const CONTROLLER_RUNTIME: &str = "sigs.k8s.io/controller-runtime@v0.24.1";

/// The release that scaffolds projects for this controller-runtime.
const KUBEBUILDER: &str = "sigs.k8s.io/kubebuilder/v4@v4.15.0";

/// The project's contents, as its author would request them from kubebuilder: a kind in two versions, with a controller
/// and all webhooks.
const SCAFFOLD: [&str; 4] = [
    "init --domain example.org --repo example.org/fleet --skip-go-version-check",
    "create api --group crew --version v1 --kind Sailor --resource --controller --make=false",
    "create api --group crew --version v2 --kind Sailor --resource --controller=false --make=false",
    "create webhook --group crew --version v1 --kind Sailor --defaulting --programmatic-validation --conversion --spoke v2 \
     --make=false",
];

/// The packages that use the server most.
const CORE: [&str; 6] = ["builder", "client", "controller", "envtest", "manager/internal/integration", "webhook"];

/// A package whose tests download an older kube-apiserver.
const NEEDS_DOWNLOADS: &str = "/pkg/client/apiutil";

/// The example of a controller in Go.
const EXAMPLE: &str = "examples/envtest-go";

/// Runs the core packages of controller-runtime, or all with `--all`, the scaffolded project and the example. `--built` uses the
/// existing server binary. The tests of the workspace have built it with other features, so building it again would
/// replace it.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let (mut all, mut built) = (false, false);
    for argument in arguments {
        match argument.as_str() {
            "--all" => all = true,
            "--built" => built = true,
            _ => return Err("usage: cargo xtask envtest [--all] [--built]".to_owned()),
        }
    }
    if !built {
        build_server()?;
    }
    let assets = assets()?;
    let example = go_test(EXAMPLE, &root().join(EXAMPLE), &assets, &["./...".to_owned()]);
    let results = [example, controller_runtime(&assets, all), scaffolded_project(&assets)];
    let failures: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

fn controller_runtime(assets: &Path, all: bool) -> Result<(), String> {
    let source = module(CONTROLLER_RUNTIME)?;
    let packages: Vec<String> = if all {
        let listed = output(go()?.args(["list", "./pkg/..."]).current_dir(&source))?;
        listed.lines().filter(|package| !package.ends_with(NEEDS_DOWNLOADS)).map(str::to_owned).collect()
    } else {
        CORE.map(|package| format!("./pkg/{package}")).to_vec()
    };
    go_test(CONTROLLER_RUNTIME, &source, assets, &packages)
}

/// Scaffolds a project, and runs its tests and a test of ours that does what an author of such a project would do.
fn scaffolded_project(assets: &Path) -> Result<(), String> {
    let project = root().join("target/envtest/fleet");
    let error = |error: std::io::Error| format!("{}: {error}", project.display());
    let kubebuilder = root().join("target/envtest").join(KUBEBUILDER).join("bin/kubebuilder");
    if !kubebuilder.exists() {
        let mut build = go()?;
        build.args(["build", "-buildvcs=false", "-o"]).arg(&kubebuilder).arg(".").current_dir(module(KUBEBUILDER)?);
        output(&mut build)?;
    }
    fs::remove_dir_all(&project).or_else(ignore_missing).and_then(|()| fs::create_dir_all(&project)).map_err(error)?;
    for arguments in SCAFFOLD {
        output(Command::new(&kubebuilder).args(arguments.split_whitespace()).current_dir(&project))?;
    }
    output(Command::new("make").args(["manifests", "generate"]).env("GOFLAGS", go_flags()?).current_dir(&project))?;
    let ours = project.join("internal/fleet");
    let test = root().join("tools/envtest/fleet_test.go");
    fs::create_dir(&ours).and_then(|()| fs::copy(test, ours.join("fleet_test.go"))).map_err(error)?;
    go_test(&format!("project of {KUBEBUILDER}"), &project, assets, &["./internal/...".to_owned()])
}

/// Runs the tests of Go packages with the folder of `pintle envtest`.
fn go_test(name: &str, source: &Path, assets: &Path, packages: &[String]) -> Result<(), String> {
    let started = Instant::now();
    // Compile on all processors first. Testing one package at a time would not do that.
    output(go()?.args(["list", "-export", "-deps", "-test", "-f", ""]).args(packages).current_dir(source))?;
    let compiled = started.elapsed().as_secs();
    // The packages run one at a time, because the tests of several packages listen on the same ports. Vetting is left
    // to the authors.
    let mut command = go()?;
    command.args(["test", "-count=1", "-p=1", "-vet=off", "-timeout=10m"]).args(packages);
    command.current_dir(source).env("KUBEBUILDER_ASSETS", assets);
    for variable in ["TEST_ASSET_KUBE_APISERVER", "TEST_ASSET_ETCD", "USE_EXISTING_CLUSTER", "PINTLE_CONTROLLERS"] {
        command.env_remove(variable);
    }
    let status = command.status().map_err(|error| format!("cannot run go: {error}"))?;
    let seconds = started.elapsed().as_secs();
    if !status.success() {
        return Err(format!("{name}: {status} after {seconds} s"));
    }
    print_status(&format!("{name}: passed after {seconds} s, of which compiling took {compiled}\n"));
    Ok(())
}

fn build_server() -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["build", "--package", "pintle"]).current_dir(root()).status();
    if !built.map_err(|error| format!("cannot run cargo: {error}"))?.success() {
        return Err("the server cannot be built".to_owned());
    }
    Ok(())
}

/// Returns the folder of the server's programs.
fn assets() -> Result<PathBuf, String> {
    let folder = root().join("target/envtest/assets");
    let program = target_folder().join("debug/pintle");
    output(Command::new(&program).args(["envtest", "--assets-dir"]).arg(&folder))?;
    Ok(folder)
}

/// Copies a Go module to a folder where it can be built and tested. Returns the folder.
fn module(name: &str) -> Result<PathBuf, String> {
    let (path, _) = name.split_once('@').unwrap_or((name, ""));
    let copy = root().join("target/envtest").join(name);
    if copy.join("go.mod").exists() {
        return Ok(copy);
    }
    print_status(&format!("downloading {name}\n"));
    let downloaded = output(go()?.args(["mod", "download", "-json", name]).current_dir(root()))?;
    let downloaded: serde_json::Value = serde_json::from_str(&downloaded).map_err(|error| error.to_string())?;
    let folder = downloaded["Dir"].as_str().ok_or_else(|| format!("go has no folder of {path}"))?;
    let partial = copy.with_extension("new");
    let copied =
        fs::remove_dir_all(&partial).or_else(ignore_missing).and_then(|()| copy_folder(Path::new(folder), &partial));
    copied.and_then(|()| fs::rename(&partial, &copy)).map_err(|error| format!("{}: {error}", copy.display()))?;
    Ok(copy)
}

fn ignore_missing(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Copies a folder, and makes its files writable and its scripts executable: the files of a module have no such
/// permissions.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&source, &target)?;
            continue;
        }
        fs::copy(&source, &target)?;
        let is_script = target.extension().is_some_and(|extension| extension == "sh");
        fs::set_permissions(&target, fs::Permissions::from_mode(if is_script { 0o755 } else { 0o644 }))?;
    }
    Ok(())
}

/// The command `go`.
fn go() -> Result<Command, String> {
    let mut command = Command::new("go");
    command.env("GOFLAGS", go_flags()?);
    Ok(command)
}

/// The flags of all Go commands: the user's flags, and the flag with which the tools are built. So the commands and the
/// tools share compiled packages.
fn go_flags() -> Result<String, String> {
    let flags = output(Command::new("go").args(["env", "GOFLAGS"]).current_dir(root()))?;
    Ok(format!("{} -trimpath", flags.trim_end()))
}
