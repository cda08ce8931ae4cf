//! A VFS for SQLite that delegates to the operating system's VFS and records each write, truncation and sync. From the
//! record it computes the files that a power loss may leave at any moment.
//!
//! The disk model: all writes before the last sync of a file survive. Of the later writes, every sector (512 bytes)
//! survives or not, independently and in any order. A sector that is being written may be torn: it starts with the new
//! bytes and ends with the old bytes. Bytes next to the written ones do not change. (SQLite calls this powersafe
//! overwrite and relies on it by default.) The VFS can also fail writes and syncs, like a full or broken disk.
//!
//! This crate needs `unsafe` because a VFS is a table of C functions; see its Cargo.toml.

mod disk;
mod vfs;

pub use disk::{Disk, DiskFailure, DiskImage};
