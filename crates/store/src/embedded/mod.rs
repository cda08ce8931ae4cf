//! The durable engine: one SQLite file (write-ahead log, `synchronous=FULL`) written by one thread in shared commits.
//! The file holds a log of changes and nothing else that grows; the index of keys is in memory.

mod checkpoint;
mod committer;
mod file;
mod index;
mod queue;
mod reader;
mod rows;
mod sweep;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use self::committer::Committer;
use self::file::{Fault, Folder};
use self::index::Index;
use self::queue::{Queue, Submission, Write};
use self::reader::{Reader, Request};
use self::rows::LogReader;
use crate::feed::{History, Hub};
use crate::{
    Change, ChangeFeed, Clock, Committed, Error, Identity, Key, Op, Pending, Range, Record, Revision, Span, Store,
    StoredChange, SystemClock, Transformer, Window, lock,
};

/// The largest key and value together. Far above what the API takes, far below what SQLite does.
const LARGEST: usize = 64 << 20;

/// How to open an embedded store.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much history to keep.
    pub window: Window,
    /// What turns values into their stored form.
    pub transformer: Arc<dyn Transformer>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The SQLite file layer (a registered VFS) instead of the operating system's. Tests cut the power here.
    pub vfs: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { window: Window::default(), transformer: Arc::new(Identity), clock: Arc::new(SystemClock), vfs: None }
    }
}

/// A store in a data folder.
pub struct Embedded {
    shared: Arc<Shared>,
    requests: Arc<Requests>,
    /// The committing thread, which ends after the reading one.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the engine's threads and its callers share.
#[derive(Debug)]
struct Shared {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    transformer: Arc<dyn Transformer>,
    index: Mutex<Index>,
    queue: Queue,
    hub: Arc<Hub>,
}

/// Tells everybody, when dropped, that nothing will be committed any more, however the committing thread ended.
struct Ended<'c>(&'c Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.queue.stop();
        drop(self.0.queue.drain(usize::MAX));
        self.0.hub.close();
    }
}

/// The way to the reading thread; empty when the store is closed.
struct Requests(Mutex<Option<mpsc::Sender<Request>>>);

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Requests")
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl Embedded {
    /// Opens the store in `folder`, making both if they do not exist, and reads the log once. Blocks meanwhile.
    pub fn open(folder: &Path, options: Options) -> Result<Embedded, Error> {
        let folder = Arc::new(Folder::take(folder)?);
        folder.prepare()?;
        let path = folder.file();
        let Options { window, transformer, clock, vfs } = options;
        let tell = |fault: Fault| fault.at(&path);
        let writer = file::open_writer(&path, vfs.as_deref()).map_err(tell)?;
        let reader = file::open_reader(&path, vfs.as_deref()).map_err(tell)?;
        let (compacted, swept) = rows::read_meta(&writer).map_err(tell)?;
        let index = LogReader::new(&writer).and_then(|mut log| Index::load(&mut log, window, compacted, swept));
        let index = index.map_err(tell)?;
        let hub = Arc::new(Hub::new(index.revision));
        let (index, queue) = (Mutex::new(index), Queue::default());
        let shared = Arc::new(Shared { path, clock, transformer, index, queue, hub });

        let (sender, receiver) = mpsc::channel();
        let requests = Arc::new(Requests(Mutex::new(Some(sender))));
        let committing = Arc::clone(&requests);
        let keeps = Arc::clone(&folder);
        let reading = start("store-reader", keeps, Arc::clone(&shared), move |shared| {
            Reader::new(shared, &reader)?.run(&receiver);
            Ok(())
        })?;
        let work = move |shared: &Shared| {
            let outcome = {
                let _ended = Ended(shared);
                Committer::new(shared, Arc::clone(&committing), &writer, compacted).map(Committer::run)
            };
            // The last to close the file moves the whole log into it, so let that not be two at once.
            committing.end();
            join(reading);
            outcome
        };
        let thread = start("store-committer", folder, Arc::clone(&shared), work)?;
        Ok(Embedded { shared, requests, thread: Mutex::new(Some(thread)) })
    }

    fn open_index(&self) -> Result<std::sync::MutexGuard<'_, Index>, Error> {
        if self.shared.queue.is_stopped() { Err(Error::Closed) } else { Ok(lock(&self.shared.index)) }
    }

    fn submission(&self, change: Change) -> Result<(Submission, oneshot::Receiver<Result<Committed, Error>>), Error> {
        let Change { key, expect, op } = change;
        let write = match op {
            Op::Delete => Write::Delete,
            Op::Put { value, ttl } => {
                let encoded = self.shared.transformer.encode(&key, value.clone());
                let stored =
                    encoded.map_err(|error| Error::Transform { key: key.clone(), detail: error.to_string() })?;
                let size = key.len() + stored.len();
                if size > LARGEST {
                    return Err(Error::TooLarge { key, size, limit: LARGEST });
                }
                Write::Put { value, stored, expires: ttl.map(|ttl| self.shared.clock.now().after(ttl)) }
            }
        };
        let (reply, answer) = oneshot::channel();
        Ok((Submission { key, expect, write, reply }, answer))
    }

    /// Lets both threads end when they are through with what they have.
    fn stop(&self) -> Option<JoinHandle<()>> {
        self.requests.end();
        self.shared.queue.stop();
        lock(&self.thread).take()
    }
}

/// Starts a thread that keeps the folder for as long as it may touch the file.
fn start(
    name: &str,
    folder: Arc<Folder>,
    shared: Arc<Shared>,
    work: impl FnOnce(&Shared) -> Result<(), Fault> + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let path = shared.path.clone();
    let body = move || {
        if let Err(fault) = work(&shared) {
            tracing::error!(error = %fault.at(&shared.path), "a thread of the store ended early");
        }
        drop(folder);
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    thread.map_err(|error| Error::Io { path, detail: error.to_string() })
}

impl Requests {
    /// Lets the reading thread end when it is through with what it has.
    fn end(&self) {
        lock(&self.0).take();
    }

    fn send(&self, request: Request) -> Result<(), Error> {
        match &*lock(&self.0) {
            Some(requests) => requests.send(request).map_err(|_| Error::Closed),
            None => Err(Error::Closed),
        }
    }

    /// Has the reading thread read something.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (request, answer) = reader::request(read);
        self.send(request)?;
        answer.await.unwrap_or(Err(Error::Closed))
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(thread) = self.stop() {
            join(thread);
        }
    }
}

fn join(thread: JoinHandle<()>) {
    // A panic has been reported by the panic hook, and there is nothing left to do for the thread.
    let _ = thread.join();
}

impl Store for Embedded {
    fn current_revision(&self) -> Pending<'_, Revision> {
        Box::pin(async { Ok(self.open_index()?.revision) })
    }

    fn get(&self, key: Key, at: Option<Revision>) -> Pending<'_, Option<Record>> {
        Box::pin(self.requests.read(move |reader| reader.get(&key, at)))
    }

    fn range(&self, span: Span, at: Option<Revision>, limit: Option<usize>) -> Pending<'_, Range> {
        Box::pin(self.requests.read(move |reader| reader.range(&span, at, limit)))
    }

    fn commit(&self, change: Change) -> Pending<'_, Committed> {
        Box::pin(async move {
            let (submission, answer) = self.submission(change)?;
            self.shared.queue.submit(submission)?;
            answer.await.unwrap_or(Err(Error::Closed))
        })
    }

    fn changes(&self, from: Revision) -> Pending<'_, ChangeFeed> {
        Box::pin(async move {
            let index = self.open_index()?;
            let from = index.readable(Some(from))?;
            let history = Arc::new(FileHistory(Arc::downgrade(&self.requests)));
            Ok(self.shared.hub.attach(from, history))
        })
    }

    fn compact(&self, before: Revision) -> Pending<'_, ()> {
        Box::pin(async move {
            let mut index = self.open_index()?;
            index.compacted = index.readable(Some(before))?;
            drop(index);
            self.shared.queue.nudge();
            Ok(())
        })
    }

    fn oldest_revision(&self) -> Pending<'_, Revision> {
        Box::pin(async { Ok(self.open_index()?.compacted) })
    }

    fn close(&self) -> Pending<'_, ()> {
        Box::pin(async {
            let Some(thread) = self.stop() else { return Ok(()) };
            let (done, closed) = oneshot::channel();
            // Joining blocks, which a future must not.
            let joiner = std::thread::Builder::new().name("store-close".to_owned()).spawn(move || {
                join(thread);
                // The caller may have stopped waiting.
                let _ = done.send(());
            });
            joiner.map_err(|error| Error::Io { path: self.shared.path.clone(), detail: error.to_string() })?;
            // The sender is dropped only after the thread has ended.
            let _ = closed.await;
            Ok(())
        })
    }
}

/// The history in the file, for feeds, which do not keep a store open.
#[derive(Debug)]
struct FileHistory(Weak<Requests>);

impl History for FileHistory {
    fn page(&self, after: Revision, until: Revision, limit: usize) -> Pending<'_, Vec<StoredChange>> {
        Box::pin(async move {
            let requests = self.0.upgrade().ok_or(Error::Closed)?;
            requests.read(move |reader| reader.page(after, until, limit)).await
        })
    }
}
