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
}

impl EnvtestCommand {
    /// Creates the folder, and returns its path and a newline.
    pub(crate) fn run(self) -> Result<String, String> {
        let program = env::current_exe().and_then(fs::canonicalize);
        let program = program.map_err(|error| format!("cannot find the path of this program: {error}"))?;
        let folder = self.assets_dir.map_or_else(|| default_folder(&program), Ok)?;
        let folder = std::path::absolute(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let kubectl = find_program(KUBECTL, &folder).unwrap_or_else(|| program.clone());
        // A kubectl that the user has put there stays.
        let has_kubectl = fs::symlink_metadata(folder.join(KUBECTL)).is_ok_and(|kubectl| kubectl.is_file());
        let links = [(KUBE_APISERVER, &program), (ETCD, &program), (KUBECTL, &kubectl)];
        let mut links = links.iter().filter(|(name, _)| *name != KUBECTL || !has_kubectl);
        let linked = fs::create_dir_all(&folder)
            .and_then(|()| links.try_for_each(|(name, target)| link(target, &folder.join(name))));
        linked.map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(format!("{}\n", folder.display()))
    }
}

/// The folder for a program. Each version has its own folder, so tests that run at the same time do not use another
/// version.
fn default_folder(program: &Path) -> Result<PathBuf, String> {
    let is_absolute = |path: &PathBuf| path.is_absolute();
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(is_absolute);
    let cache = cache.or_else(|| env::home_dir().filter(is_absolute).map(|home| home.join(".cache")));
    let cache = cache.ok_or("no cache directory: set HOME, XDG_CACHE_HOME or --assets-dir")?;
    let digest = Sha256::digest(program.as_os_str().as_encoded_bytes());
    let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    Ok(cache.join("pintle/envtest").join(format!("{}-{hash}", env!("CARGO_PKG_VERSION"))))
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
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    // An earlier process with this ID may have been killed between the two steps.
    let _ = fs::remove_file(&temporary);
    symlink(target, &temporary)?;
    fs::rename(&temporary, path)
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
            let printed = EnvtestCommand { assets_dir: Some(folder.clone()) }.run().unwrap();
            assert_eq!(printed, format!("{}\n", folder.display()));
        }
        let program = fs::canonicalize(env::current_exe().unwrap()).unwrap();
        for name in [KUBE_APISERVER, ETCD] {
            assert_eq!(fs::read_link(folder.join(name)).unwrap(), program);
        }
        assert!(folder.join(KUBECTL).is_file());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
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
        let make = || EnvtestCommand { assets_dir: Some(folder.path().to_owned()) }.run();
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
