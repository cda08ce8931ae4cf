//! A file layer (VFS) for SQLite that passes everything on to the operating system's and records each write, truncation
//! and sync on the way. From the record it makes the files that a power failure could have left at any moment.
//!
//! The model of a disk is this: what was written before a file's last sync is there. Of what was written since, every
//! sector (512 bytes) is there or not, independently and in any order, and one that was being written may be torn: begun
//! with the new bytes and ended with the old. Bytes beside those written do not change (SQLite calls this powersafe
//! overwrite and relies on it by default). The same layer refuses writes and syncs on demand, as a full or failing disk
//! does.
//!
//! This crate needs `unsafe` because a VFS is a table of C functions; see its Cargo.toml.

mod disk;
mod vfs;

pub use disk::{Disk, Failure, Image};
