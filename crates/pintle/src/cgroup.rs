//! The memory limit of the process's control group, which containers and service managers set (cgroup v2:
//! `memory.max`, v1: `memory.limit_in_bytes`).

use std::fs;
use std::path::Path;

/// Greater limits are no limits: version 1 has no word for "unlimited", but reports the largest multiple of the page
/// size.
const UNLIMITED: u64 = 1 << 60;

/// The memory limit of this process's control group, in bytes; `None` if there is none.
#[must_use]
pub fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    lowest_limit(&groups, Path::new("/sys/fs/cgroup"))
}

/// The lowest limit of the given control groups and of all groups that contain them. `groups` has the format of
/// `/proc/self/cgroup`. `root` is where their file system is mounted. A process in a container may see the path of its
/// group on the host. That path does not exist below the root of the container.
fn lowest_limit(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let group = root.join(path.trim_start_matches('/'));
        let ancestors = group.ancestors().take_while(|ancestor| ancestor.starts_with(&root));
        let read = |ancestor: &Path| fs::read_to_string(ancestor.join(file)).ok()?.trim().parse::<u64>().ok();
        ancestors.filter_map(read).min()
    });
    limits.min().filter(|limit| *limit < UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], groups: &str, expect: Option<u64>) {
        let root = tempfile::tempdir().expect("a temporary folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        assert_eq!(lowest_limit(groups, root.path()), expect, "{files:?} {groups}");
    }

    #[test]
    fn the_lowest_limit_of_the_control_group_and_its_parents_counts() {
        check(&[("a/b/memory.max", "max\n"), ("a/memory.max", "1000\n")], "0::/a/b\n", Some(1000));
        check(&[("a/b/memory.max", "500\n"), ("a/memory.max", "1000\n")], "0::/a/b\n", Some(500));
        check(&[("a/memory.max", "max\n")], "0::/a\n", None);
        check(&[], "0::/\n", None);
        // A container that sees the path on the host.
        check(&[("memory.max", "700\n")], "0::/kubepods/pod1/c\n", Some(700));
        let groups = "11:cpu,cpuacct:/a\n9:memory:/a\n1:name=systemd:/a\n0::/a\n";
        check(&[("memory/a/memory.limit_in_bytes", "900\n")], groups, Some(900));
        check(&[("memory/memory.limit_in_bytes", "9223372036854771712\n")], groups, None);
        check(&[("memory/memory.limit_in_bytes", "x")], "no group", None);
    }
}
