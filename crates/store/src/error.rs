//! The errors of a store. A variant exists where a caller or an operator reacts differently to it.

use std::path::PathBuf;

use crate::{Key, Record, Revision, TransformErrorKind};

/// The reason why a store operation failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The condition of a change does not hold.
    #[error("the key is not in the expected state ({})", match .current {
        Some(record) => format!("it was last changed at revision {}", record.mod_revision),
        None => "it does not exist".to_owned(),
    })]
    Conflict {
        /// The current record of the key.
        current: Option<Box<Record>>,
    },

    /// The compare of a change holds, but not its conditions on other keys.
    #[error("another key is not in the expected state")]
    ConditionFailed,

    /// The revision has been compacted (etcd's `ErrCompacted`).
    #[error("the requested revision has been compacted; the oldest available one is {oldest}")]
    Compacted {
        /// The oldest revision that can be read.
        oldest: Revision,
    },

    /// The revision is not committed yet (etcd's `ErrFutureRev`).
    #[error("the requested revision is in the future; the current one is {current}")]
    FutureRevision {
        /// The current revision.
        current: Revision,
    },

    /// The key and the value together exceed the store's limit.
    #[error("key {key}: {size} bytes exceed the maximum of {limit}")]
    TooLarge {
        /// The key to write.
        key: Key,
        /// Size of key and value together.
        size: usize,
        /// The maximum size.
        limit: usize,
    },

    /// The transformer cannot convert a value to or from its stored form.
    #[error("the value of {key} cannot be transformed: {detail}")]
    Transform {
        /// The key of the value.
        key: Key,
        /// The transformer's error.
        detail: String,
        /// The kind of the error.
        kind: TransformErrorKind,
    },

    /// Another process has locked the data directory.
    #[error("the data directory {} is in use by another process{}; stop it or choose another directory", .path.display(), match .pid {
        Some(pid) => format!(" (process id {pid})"),
        None => String::new(),
    })]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The process that holds the lock, if known.
        pid: Option<u32>,
    },

    /// The file is not a Pintle store.
    #[error("{} is not a Pintle store: {detail}; move it away or choose another directory", .path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// The content that the file seems to have instead.
        detail: String,
    },

    /// A newer version of the program wrote the file.
    #[error("{} has store format {found}, and this version reads up to {supported}; use the newer version that wrote it", .path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The format version of the file.
        found: i64,
        /// The newest supported format version.
        supported: i64,
    },

    /// The content of the file is corrupted.
    #[error("{} is corrupted: {detail}; restore it from a backup", .path.display())]
    Corrupted {
        /// The file.
        path: PathBuf,
        /// The place and kind of the corruption.
        detail: String,
    },

    /// The store file is encrypted and its key is missing or wrong, or the file is not encrypted although it must be.
    #[error("{}: {detail}", .path.display())]
    Encryption {
        /// The file.
        path: PathBuf,
        /// The reason. It contains no key.
        detail: String,
    },

    /// The newest acknowledged changes are not in the file, or are damaged.
    #[error(
        "{}: {cause}. The acknowledged changes {} are lost. Restore a backup, or start with --accept-data-loss-after {after} \
         to go on without them", .path.display(), match .until {
            Some(until) => format!("of the revisions {} to {until}", .after.next()),
            None => format!("after revision {after}, if there were any,"),
        }
    )]
    LostChanges {
        /// The file.
        path: PathBuf,
        /// The newest revision that is complete.
        after: Revision,
        /// The newest acknowledged revision, if it is known.
        until: Option<Revision>,
        /// A description of the damage.
        cause: String,
    },

    /// The disk is full. The change is not stored.
    #[error("no space left on device for {}; free some space and try again", .path.display())]
    DiskFull {
        /// The file that cannot grow.
        path: PathBuf,
    },

    /// The operating system reported an error for the file.
    #[error("{}: {detail}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        detail: String,
    },

    /// An earlier fsync failed, so a later successful sync proves nothing. The store rejects writes until it has
    /// written everything again that the disk may not have. It tries that again and again.
    #[error("{} rejects writes because an earlier sync failed ({detail}); check the disk", .path.display())]
    SyncFailed {
        /// The file.
        path: PathBuf,
        /// The error of the failed sync, and the last error of the recovery if it is another one.
        detail: String,
    },

    /// A commit does not return from the disk. Reads go on, writes wait.
    #[error("a commit to {} has not returned for {seconds} s; check the disk", .path.display())]
    Stalled {
        /// The file.
        path: PathBuf,
        /// How long the commit has been running, in seconds.
        seconds: u64,
    },

    /// The server of the store did not answer a change that it was sent. It may have committed the change, may still
    /// commit it, or may never do so. Reads have no such error.
    #[error("whether the change is stored is not known: {detail}")]
    OutcomeUnknown {
        /// The reason.
        detail: String,
    },

    /// The server of the store does not answer, or refuses the request. A change was not committed.
    #[error("the store is unavailable: {detail}")]
    Unavailable {
        /// The reason.
        detail: String,
    },

    /// Changes of other servers do not arrive, so reads wait.
    #[error("changes have not arrived for {seconds} s")]
    Behind {
        /// The duration of the delay, in seconds.
        seconds: u64,
    },

    /// A thread of the engine has ended although the store is open. The store must be opened again.
    #[error("the {thread} thread of the store has ended unexpectedly; restart")]
    ThreadEnded {
        /// The name of the thread.
        thread: &'static str,
    },

    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// The cause of a failed operation on the file, without the path.
    pub(crate) fn into_cause(self) -> String {
        match self {
            Error::DiskFull { .. } => "no space left on device".to_owned(),
            Error::Io { detail, .. }
            | Error::Corrupted { detail, .. }
            | Error::Encryption { detail, .. }
            | Error::NotAStore { detail, .. } => detail,
            error => error.to_string(),
        }
    }
}
