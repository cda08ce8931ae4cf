//! Test environments of controller-runtime (envtest). `pintle envtest` prints a folder with links to this program,
//! under the names of the programs that envtest starts.

mod etcd;
mod flag_values;
mod flags;
mod integers;
mod kube_apiserver;
mod unsupported;

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use pintle_versions::Minor;
use sha2::{Digest, Sha256};

pub(crate) use self::etcd::run as etcd;
pub(crate) use self::kube_apiserver::run as kube_apiserver;
pub(crate) use self::unsupported::{missing_help, refusal_of};

/// The names of the programs in the folder.
pub(crate) const KUBE_APISERVER: &str = "kube-apiserver";
pub(crate) const ETCD: &str = "etcd";
pub(crate) const KUBECTL: &str = "kubectl";

/// `pintle envtest`.
#[derive(clap::Args)]
pub(crate) struct EnvtestCommand {
    /// The directory of the programs [default: pintle/envtest in the user's cache directory].
    #[arg(long, value_name = "DIR")]
    assets_dir: Option<PathBuf>,
    /// The version of Kubernetes that the server of the directory is.
    #[arg(long, value_name = "MINOR", default_value_t = Minor::DEFAULT, value_parser = Minor::parse_known)]
    kubernetes_version: Minor,
}

/// The file of a directory with the version of its server.
const VERSION_FILE: &str = "kubernetes-version";

/// The version of the server in the directory of a program.
///
/// # Errors
/// The file with the version cannot be read, or this program cannot be that version.
fn version_of(program: &Path) -> Result<Minor, String> {
    let Some(folder) = program.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(Minor::DEFAULT);
    };
    let file = folder.join(VERSION_FILE);
    match fs::read_to_string(&file) {
        Ok(text) => Minor::parse_known(text.trim()).map_err(|why| format!("{}: {why}", file.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Minor::DEFAULT),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

impl EnvtestCommand {
    /// Creates the folder, and returns its path and a newline.
    pub(crate) fn run(self) -> Result<String, String> {
        let program = env::current_exe().and_then(fs::canonicalize);
        let program = program.map_err(|error| format!("cannot find the path of this program: {error}"))?;
        let version = self.kubernetes_version;
        let folder = self.assets_dir.map_or_else(|| default_folder(&program, version), Ok)?;
        let folder = std::path::absolute(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let kubectl = find_program(KUBECTL, &folder).unwrap_or_else(|| program.clone());
        // A kubectl that the user has put there stays.
        let has_kubectl = fs::symlink_metadata(folder.join(KUBECTL)).is_ok_and(|kubectl| kubectl.is_file());
        let links = [(KUBE_APISERVER, &program), (ETCD, &program), (KUBECTL, &kubectl)];
        let mut links = links.iter().filter(|(name, _)| *name != KUBECTL || !has_kubectl);
        let linked = fs::create_dir_all(&folder)
            .and_then(|()| links.try_for_each(|(name, target)| link(target, &folder.join(name))))
            .and_then(|()| replace(&folder.join(VERSION_FILE), &format!("{version}\n")));
        linked.map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(format!("{}\n", folder.display()))
    }
}

/// The folder for a program and a version of Kubernetes. Each has its own folder, so tests that run at the same time do
/// not use another version.
fn default_folder(program: &Path, version: Minor) -> Result<PathBuf, String> {
    let is_absolute = |path: &PathBuf| path.is_absolute();
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(is_absolute);
    let cache = cache.or_else(|| env::home_dir().filter(is_absolute).map(|home| home.join(".cache")));
    let cache = cache.ok_or("no cache directory: set HOME, XDG_CACHE_HOME or --assets-dir")?;
    let digest = Sha256::digest(program.as_os_str().as_encoded_bytes());
    let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let folder = cache.join("pintle/envtest").join(format!("{}-{hash}", env!("CARGO_PKG_VERSION")));
    Ok(folder.join(version.to_string()))
}

/// The first program of a name on the PATH, outside one folder.
fn find_program(name: &str, except: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders = env::split_paths(&path).filter(|folder| folder.is_absolute() && folder != except);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Creates a link, or replaces it atomically.
///
/// # Errors
/// The path exists and is not a link, but for example the original program.
fn link(target: &Path, path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(existing) if !existing.is_symlink() => {
            return Err(io::Error::other(format!(
                "{} exists and is not a link: choose another directory",
                path.display()
            )));
        }
        Ok(_) if fs::read_link(path)? == target => return Ok(()),
        _ => {}
    }
    let temporary = temporary_name(path);
    // An earlier process with this ID may have been killed between the two steps.
    let _ = fs::remove_file(&temporary);
    symlink(target, &temporary)?;
    fs::rename(&temporary, path)
}

/// Writes a file atomically, unless it has the text already.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|existing| existing == text.as_bytes()) {
        return Ok(());
    }
    let temporary = temporary_name(path);
    fs::write(&temporary, text)?;
    fs::rename(&temporary, path)
}

/// The name of a file that takes the place of another one.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    name.into()
}

/// The program `kubectl` of a folder that was created while the PATH had no kubectl.
pub(crate) fn kubectl() -> ExitCode {
    let text = "kubectl: not found on the PATH when 'pintle envtest' made this directory. Install kubectl, then run \
                'pintle envtest' again.\n";
    let _ = io::stderr().write_all(text.as_bytes());
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_has_links_to_this_program_and_can_be_made_again() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a/b");
        for _ in 0..2 {
            let printed =
                EnvtestCommand { assets_dir: Some(folder.clone()), kubernetes_version: Minor::DEFAULT }.run().unwrap();
            assert_eq!(printed, format!("{}\n", folder.display()));
        }
        let program = fs::canonicalize(env::current_exe().unwrap()).unwrap();
        for name in [KUBE_APISERVER, ETCD] {
            assert_eq!(fs::read_link(folder.join(name)).unwrap(), program);
        }
        assert!(folder.join(KUBECTL).is_file());
        assert_eq!(version_of(&folder.join(KUBE_APISERVER)), Ok(Minor::DEFAULT));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
    }

    #[test]
    fn a_link_to_another_program_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etcd");
        symlink("/old", &path).unwrap();
        link(Path::new("/new"), &path).unwrap();
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("/new"));
    }

    #[test]
    fn programs_that_are_not_links_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let make =
            || EnvtestCommand { assets_dir: Some(folder.path().to_owned()), kubernetes_version: Minor::DEFAULT }.run();
        fs::write(folder.path().join(KUBECTL), "own").unwrap();
        make().unwrap();
        assert_eq!(fs::read(folder.path().join(KUBECTL)).unwrap(), b"own");
        fs::remove_file(folder.path().join(ETCD)).unwrap();
        fs::write(folder.path().join(ETCD), "original").unwrap();
        assert!(make().unwrap_err().contains("exists and is not a link"));
        assert_eq!(fs::read(folder.path().join(ETCD)).unwrap(), b"original");
    }

    #[test]
    fn programs_are_searched_outside_the_folder_itself() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("sh"), "").unwrap();
        let found = find_program("sh", folder.path()).unwrap();
        assert!(!found.starts_with(folder.path()));
        assert_eq!(find_program("no-such-program", folder.path()), None);
    }
}
