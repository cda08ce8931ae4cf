//! What can go wrong in a store, told so that a person can act on it. A variant exists where a caller or an operator
//! does something different about it.

use std::path::PathBuf;

use crate::{Key, Record, Revision};

/// Why a store could not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A change's condition did not hold.
    #[error("the key is not in the expected state ({})", match .current {
        Some(record) => format!("it was last changed at revision {}", record.mod_revision),
        None => "it does not exist".to_owned(),
    })]
    Conflict {
        /// What is there instead.
        current: Option<Box<Record>>,
    },

    /// The revision lies before the kept history.
    #[error("the requested revision has been compacted; the oldest one kept is {oldest}")]
    Compacted {
        /// The oldest revision that can be read.
        oldest: Revision,
    },

    /// The revision has not been committed yet.
    #[error("the requested revision lies in the future; the current one is {current}")]
    Future {
        /// The newest revision that can be read.
        current: Revision,
    },

    /// A value or key is larger than the store takes.
    #[error("key {key}: {size} bytes are more than the store takes ({limit})")]
    TooLarge {
        /// The key that was to be written.
        key: Key,
        /// Size of key and value together.
        size: usize,
        /// The most that is taken.
        limit: usize,
    },

    /// The transformer could not make or undo the stored form of a value.
    #[error("the value of {key} cannot be transformed: {detail}")]
    Transform {
        /// The value's key.
        key: Key,
        /// The transformer's reason.
        detail: String,
    },

    /// Another process uses the data folder.
    #[error("the data folder {} is in use by another process{}; stop it or choose another folder", .path.display(), match .pid {
        Some(pid) => format!(" (process id {pid})"),
        None => String::new(),
    })]
    Locked {
        /// The folder.
        path: PathBuf,
        /// The process that holds it, where known.
        pid: Option<u32>,
    },

    /// The file is not a store of ours.
    #[error("{} is not a Pintle store: {detail}; move it away or choose another folder", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it seems to be instead.
        detail: String,
    },

    /// The file was written by a later version of the program.
    #[error("{} has store format {found}, and this version reads up to {supported}; use the newer version that wrote it", .path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: i64,
        /// The newest format that this program reads.
        supported: i64,
    },

    /// The file's content is not what was written.
    #[error("{} is damaged: {detail}; restore it from a backup", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and how.
        detail: String,
    },

    /// There is no room for the change. Nothing of it was stored.
    #[error("no space left for {}; free some and try again", .path.display())]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
    },

    /// The operating system refused an operation on the file.
    #[error("{}: {detail}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        detail: String,
    },

    /// An earlier sync of the file failed, so that later ones cannot be believed: the store takes no more writes until
    /// it is opened again.
    #[error("{} takes no more writes because an earlier one failed to reach the disk ({detail}); check the disk and start again", .path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The failure.
        detail: String,
    },

    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}
