//! The table of C functions between SQLite and the operating system's VFS. It follows SQLite's documentation of
//! `sqlite3_vfs` and `sqlite3_io_methods` and its example of a shim, `vfstrace`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use rusqlite::ffi;

use crate::{Disk, DiskFailure};

/// The application data of the VFS object.
struct VfsLayer {
    disk: Disk,
    below: *mut ffi::sqlite3_vfs,
}

/// SQLite allocates this struct for each open file, directly followed by the file object of the underlying VFS.
#[repr(C)]
struct ShimFile {
    base: ffi::sqlite3_file,
    /// Null for files that are not recorded, such as temporary files.
    recorded: *mut RecordedFile,
}

struct RecordedFile {
    disk: Disk,
    path: PathBuf,
}

/// Registers the VFS with SQLite. The VFS is never freed, since SQLite may use it until the process ends.
pub(crate) fn register(name: &str, disk: Disk) -> Result<(), i32> {
    let name = CString::new(name).map_err(|_| ffi::SQLITE_MISUSE)?;
    // SAFETY: SQLite initialises itself on the first call and returns its default VFS or null.
    let below = unsafe {
        ffi::sqlite3_initialize();
        ffi::sqlite3_vfs_find(ptr::null())
    };
    if below.is_null() {
        return Err(ffi::SQLITE_NOTFOUND);
    }
    let layer = Box::into_raw(Box::new(VfsLayer { disk, below }));
    // SAFETY: `below` is a registered VFS and is never unregistered here. Copying the table copies plain pointers.
    // Every copied function is either replaced below or ignores its VFS object.
    let mut vfs = unsafe { ptr::read(below) };
    vfs.pNext = ptr::null_mut();
    vfs.zName = name.into_raw();
    vfs.pAppData = layer.cast();
    vfs.szOsFile += size_of::<ShimFile>() as c_int;
    vfs.xOpen = Some(open);
    vfs.xDelete = Some(delete);
    vfs.xAccess = Some(access);
    vfs.xFullPathname = Some(full_pathname);
    // SAFETY: the table is complete and lives for ever.
    match unsafe { ffi::sqlite3_vfs_register(Box::into_raw(Box::new(vfs)), 0) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(code),
    }
}

/// SAFETY: [`register`] must have made `vfs`.
unsafe fn layer<'l>(vfs: *mut ffi::sqlite3_vfs) -> &'l VfsLayer {
    // SAFETY: `register` put a leaked `VfsLayer` there.
    unsafe { &*(*vfs).pAppData.cast::<VfsLayer>() }
}

/// The file object of the underlying VFS. SAFETY: [`open`] must have opened `file`, or be opening it.
unsafe fn lower(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: SQLite allocates `szOsFile` bytes, and our struct comes first.
    unsafe { file.cast::<ShimFile>().add(1).cast() }
}

/// SAFETY: [`open`] must have opened `file`.
unsafe fn recorded<'f>(file: *mut ffi::sqlite3_file) -> Option<&'f RecordedFile> {
    // SAFETY: `open` set the pointer to a box that lives until `close`, or to null.
    unsafe { (*file.cast::<ShimFile>()).recorded.as_ref() }
}

/// Calls a function of the underlying file object with these arguments. SAFETY: the same as for [`lower`]; SQLite's own
/// VFSs have every function that is called here.
macro_rules! below {
    ($file:expr, $function:ident $(, $argument:expr)*) => {{
        let file = lower($file);
        match (*(*file).pMethods).$function {
            Some(function) => function(file $(, $argument)*),
            None => ffi::SQLITE_IOERR,
        }
    }};
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls this with a VFS of ours and a file object of the requested size. A name that is not null is
    // a C string. The default VFS has an open function.
    unsafe {
        let layer = layer(vfs);
        let ours = file.cast::<ShimFile>();
        (*ours).base.pMethods = ptr::null();
        (*ours).recorded = ptr::null_mut();
        let code = match (*layer.below).xOpen {
            Some(open) => open(layer.below, name, lower(file), flags, out),
            None => ffi::SQLITE_CANTOPEN,
        };
        // SQLite closes a file even after a failed open if the file's methods are set.
        if !(*lower(file)).pMethods.is_null() {
            (*ours).base.pMethods = &METHODS;
        }
        if code == ffi::SQLITE_OK && !name.is_null() && flags & (ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL) != 0 {
            let path = path(name);
            layer.disk.record_open(&path);
            (*ours).recorded = Box::into_raw(Box::new(RecordedFile { disk: layer.disk.clone(), path }));
        }
        code
    }
}

/// SAFETY: `name` must be a C string.
unsafe fn path(name: *const c_char) -> PathBuf {
    // SAFETY: the caller guarantees it.
    Path::new(&*unsafe { CStr::from_ptr(name) }.to_string_lossy()).to_owned()
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite calls this with a VFS of ours and a C string.
    unsafe {
        let layer = layer(vfs);
        layer.disk.record_delete(&path(name));
        (*layer.below).xDelete.map_or(ffi::SQLITE_IOERR, |delete| delete(layer.below, name, sync))
    }
}

unsafe extern "C" fn access(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe {
        let below = layer(vfs).below;
        (*below).xAccess.map_or(ffi::SQLITE_IOERR, |access| access(below, name, flags, out))
    }
}

unsafe extern "C" fn full_pathname(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    size: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe {
        let below = layer(vfs).below;
        (*below).xFullPathname.map_or(ffi::SQLITE_IOERR, |full| full(below, name, size, out))
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once and does not use it afterwards.
    unsafe {
        let ours = file.cast::<ShimFile>();
        if !(*ours).recorded.is_null() {
            drop(Box::from_raw((*ours).recorded));
            (*ours).recorded = ptr::null_mut();
        }
        below!(file, xClose)
    }
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, out: *mut c_void, size: c_int, offset: i64) -> c_int {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe {
        if recorded(file).is_some_and(|recorded| recorded.disk.fails_reads()) {
            return ffi::SQLITE_IOERR_READ;
        }
        below!(file, xRead, out, size, offset)
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, size: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite gives an open file and `size` bytes at `from`.
    unsafe {
        let recorded = recorded(file);
        match recorded.map(|recorded| recorded.disk.failure()) {
            Some(DiskFailure::Full) => return ffi::SQLITE_FULL,
            Some(DiskFailure::Write) => return ffi::SQLITE_IOERR_WRITE,
            _ => {}
        }
        let code = below!(file, xWrite, from, size, offset);
        if let Some(recorded) = recorded.filter(|_| code == ffi::SQLITE_OK) {
            let bytes = std::slice::from_raw_parts(from.cast::<u8>(), size as usize);
            recorded.disk.record_write(&recorded.path, offset as usize, bytes);
        }
        code
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: SQLite gives an open file.
    unsafe {
        let code = below!(file, xTruncate, size);
        if let Some(recorded) = recorded(file).filter(|_| code == ffi::SQLITE_OK) {
            recorded.disk.record_truncate(&recorded.path, size as usize);
        }
        code
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite gives an open file. The real sync is skipped: the test simulates the power loss, and the record
    // contains the sync.
    unsafe {
        let _ = flags;
        if let Some(recorded) = recorded(file) {
            let is_log = recorded.path.to_string_lossy().ends_with("-wal");
            let failure = recorded.disk.failure();
            if failure == DiskFailure::Sync || (failure == DiskFailure::CheckpointSync && !is_log) {
                recorded.disk.record_failed_sync(&recorded.path);
                return ffi::SQLITE_IOERR_FSYNC;
            }
            recorded.disk.record_sync(&recorded.path);
        }
        ffi::SQLITE_OK
    }
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, out: *mut i64) -> c_int {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe { below!(file, xFileSize, out) }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe { below!(file, xLock, level) }
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe { below!(file, xUnlock, level) }
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe { below!(file, xCheckReservedLock, out) }
}

unsafe extern "C" fn file_control(file: *mut ffi::sqlite3_file, operation: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe { below!(file, xFileControl, operation, argument) }
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe { below!(file, xSectorSize) }
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe { below!(file, xDeviceCharacteristics) }
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe { below!(file, xShmMap, region, size, extend, out) }
}

unsafe extern "C" fn shm_lock(file: *mut ffi::sqlite3_file, offset: c_int, count: c_int, flags: c_int) -> c_int {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe { below!(file, xShmLock, offset, count, flags) }
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe {
        let file = lower(file);
        if let Some(barrier) = (*(*file).pMethods).xShmBarrier {
            barrier(file);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe { below!(file, xShmUnmap, delete) }
}

/// Version 2 of the table: it has shared memory, but no memory-mapped I/O.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
