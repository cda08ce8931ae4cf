//! `examples/high-availability`: the flags of its compose file. The containers themselves need Docker.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use pintle_integration::{Etcd, tool_path};

use super::PROGRAM;
use super::server::{Server, printed};

/// The commands of the compose file that begin with a word, each with its flags.
fn commands(begin: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/high-availability/compose.yaml");
    let text = std::fs::read_to_string(path).expect("the compose file");
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
    let flags = |rest: &[&str]| {
        let flags = rest.iter().skip(1).map_while(|line| line.strip_prefix("- --"));
        flags.map(|flag| format!("--{flag}")).collect()
    };
    let first = format!("- {begin}");
    (0..lines.len()).filter(|index| lines[*index] == first).map(|index| flags(&lines[index..])).collect()
}

/// Every flag of a command is in the help of its program.
#[track_caller]
fn check_flags(flags: &[String], help: &mut Command) {
    let help = help.output().expect("the program runs");
    let help = String::from_utf8([help.stdout, help.stderr].concat()).expect("UTF-8");
    let known: BTreeSet<&str> = help.split_whitespace().collect();
    assert!(!flags.is_empty());
    for flag in flags {
        let name = flag.split('=').next().unwrap_or_default();
        assert!(known.contains(name), "{name} is unknown");
    }
}

#[test]
fn etcds_of_the_example_have_known_flags() {
    let commands = commands("etcd");
    assert_eq!(commands.len(), 3);
    for flags in commands {
        check_flags(&flags, Command::new(tool_path("etcd")).arg("--help"));
    }
}

#[test]
fn servers_of_the_example_share_an_etcd_and_keys() {
    let [flags] = <[_; 1]>::try_from(commands("serve")).expect("one command for all servers");
    check_flags(&flags, Command::new(PROGRAM).args(["serve", "--help"]));
    let etcd = Etcd::start();
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    // The addresses, the port and the folders are others than in the containers.
    let is_local =
        |flag: &&String| ["--data-dir", "--bind-address", "--secure-port"].iter().any(|name| flag.starts_with(name));
    let rest: Vec<&str> = flags
        .iter()
        .filter(|flag| !is_local(flag) && !flag.starts_with("--etcd-servers="))
        .map(String::as_str)
        .chain(["--etcd-servers", etcd.url()])
        .collect();
    assert_eq!(rest.len(), flags.len() - 4 + 2);
    let start =
        |folder: &Path, address: &str| Server::start(folder, &[&rest[..], &["--advertise-address", address]].concat());

    let server = start(first.path(), "192.0.2.1");
    assert!(first.path().join("admin.kubeconfig").metadata().expect("the file of the health check").len() > 0);
    // The service `keys` copies the folder in this way.
    let copied = Command::new("cp").arg("-r").arg(first.path().join("pki")).arg(second.path()).status();
    assert!(copied.expect("cp runs").success());
    let other = start(second.path(), "192.0.2.2");
    printed(first.path(), &["create", "configmap", "a"]);
    printed(second.path(), &["get", "configmap", "a"]);
    // Both stop at once, and not one after the other: each continues to serve for the time that the flags say.
    drop((server, other));
}
