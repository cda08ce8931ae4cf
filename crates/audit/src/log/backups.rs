//! Rotated files: `audit-2006-01-02T15-04-05.000.log` beside `audit.log`, with `.gz` if it is compressed (upstream:
//! lumberjack).

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use pintle_value::time::{Duration, Time};

use super::Rotation;
use super::file::folder;

const COMPRESSED: &str = ".gz";
const DAY: i64 = 86_400;

/// The parts of a file's name before and after the time of its backups.
fn name_parts(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let end = name.rfind('.').unwrap_or(name.len());
    (format!("{}-", &name[..end]), name[end..].to_owned())
}

/// The path of a new backup. If another backup has the time, the next millisecond is used.
pub(super) fn free_backup_path(path: &Path, now: Time) -> io::Result<PathBuf> {
    let (prefix, extension) = name_parts(path);
    let mut time = now;
    loop {
        let text = time.rfc3339_micro().replace(':', "-");
        let name = format!("{prefix}{}{extension}", text.get(..23).unwrap_or(&text));
        let backup = folder(path).join(&name);
        if !backup.try_exists()? && !folder(path).join(name + COMPRESSED).try_exists()? {
            return Ok(backup);
        }
        time = time.plus(Duration(1_000_000));
    }
}

/// The time in the name of a backup.
fn backup_time(name: &str, prefix: &str, extension: &str) -> Option<Time> {
    let name = name.strip_suffix(COMPRESSED).filter(|name| name.ends_with(extension)).unwrap_or(name);
    let text = name.strip_prefix(prefix)?.strip_suffix(extension)?;
    let (date, clock) = text.split_once('T')?;
    let time = format!("{date}T{}Z", clock.replace('-', ":"));
    (text.len() == 23 && !clock.contains(':')).then(|| Time::parse_rfc3339(&time).ok())?
}

/// Removes and compresses backups by the rules of `rotation`.
pub(super) fn clean_up(path: &Path, rotation: Rotation, now: Time) -> io::Result<()> {
    if rotation.max_backups == 0 && rotation.max_age == 0 && !rotation.compress {
        return Ok(());
    }
    let (prefix, extension) = name_parts(path);
    let mut backups = Vec::new();
    for entry in fs::read_dir(folder(path))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.file_type()?.is_dir()
            && let Some(time) = backup_time(&name, &prefix, &extension)
        {
            backups.push((Reverse(time), name));
        }
    }
    backups.sort();
    let age = Duration::from_seconds(DAY.saturating_mul(i64::try_from(rotation.max_age).unwrap_or(i64::MAX)));
    let oldest = (rotation.max_age > 0).then(|| now.plus(Duration(-age.0)));
    let mut kept = HashSet::new();
    let mut result = Ok(());
    for (Reverse(time), name) in &backups {
        let file = folder(path).join(name);
        let plain = name.strip_suffix(COMPRESSED);
        // A backup and its compressed form, which exist both while it is compressed, count once.
        kept.insert(plain.unwrap_or(name));
        let is_surplus = rotation.max_backups > 0 && kept.len() > rotation.max_backups;
        let done = if is_surplus || oldest.is_some_and(|oldest| *time < oldest) {
            fs::remove_file(&file)
        } else if rotation.compress && plain.is_none() {
            compress(&file, &folder(path).join(format!("{name}{COMPRESSED}")))
        } else {
            Ok(())
        };
        result = result.and(done);
    }
    result
}

/// Compresses a file and removes it. An existing target is the rest of an earlier attempt.
fn compress(source: &Path, target: &Path) -> io::Result<()> {
    let mut input = File::open(source)?;
    let metadata = input.metadata()?;
    let write = || {
        let mode = metadata.mode() & 0o7777;
        let output = OpenOptions::new().create(true).write(true).truncate(true).mode(mode).open(target)?;
        let _ = fchown(&output, Some(metadata.uid()), Some(metadata.gid()));
        let mut encoder = GzEncoder::new(output, Compression::default());
        io::copy(&mut input, &mut encoder)?;
        // The source is removed only when the disk has the target.
        encoder.finish()?.sync_all()
    };
    if let Err(error) = { write }() {
        let _ = fs::remove_file(target);
        return Err(error);
    }
    fs::remove_file(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_are_named_as_lumberjack_names_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let now = Time { seconds: 1_136_214_245, nanos: 123_999_999 };
        for (name, expect) in [
            ("audit.log", "audit-2006-01-02T15-04-05.123.log"),
            ("audit", "audit-2006-01-02T15-04-05.123"),
            ("a.b.c", "a.b-2006-01-02T15-04-05.123.c"),
            (".audit", "-2006-01-02T15-04-05.123.audit"),
        ] {
            let path = folder.path().join(name);
            let backup = free_backup_path(&path, now).expect("a path");
            assert_eq!(backup, folder.path().join(expect));
            let (prefix, extension) = name_parts(&path);
            let time = Some(Time { nanos: 123_000_000, ..now });
            for name in [expect.to_owned(), format!("{expect}.gz")] {
                assert_eq!(backup_time(&name, &prefix, &extension), time, "{name}");
            }
        }
    }

    #[test]
    fn a_backup_replaces_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, now) = (folder.path().join("audit.log"), Time { seconds: 0, nanos: 999_000_000 });
        let mut names = Vec::new();
        for suffix in ["", ".gz", ""] {
            let backup = free_backup_path(&path, now).expect("a path");
            names.push(backup.file_name().expect("a name").to_string_lossy().into_owned());
            fs::write(format!("{}{suffix}", backup.display()), "").expect("a file");
        }
        let expect = [
            "audit-1970-01-01T00-00-00.999.log",
            "audit-1970-01-01T00-00-01.000.log",
            "audit-1970-01-01T00-00-01.001.log",
        ];
        assert_eq!(names, expect);
    }

    #[test]
    fn other_files_are_no_backups() {
        for name in [
            "audit.log",
            "audit-.log",
            "audit-2006-01-02T15-04-05.log",
            "audit-2006-01-02T15:04:05.123.log",
            "audit-2006-13-02T15-04-05.123.log",
            "audit-2006-01-02T15-04-05.123.txt",
            "audit-2006-01-02T15-04-05.123.log.gz.gz",
            "other-2006-01-02T15-04-05.123.log",
        ] {
            assert_eq!(backup_time(name, "audit-", ".log"), None, "{name}");
        }
    }
}
