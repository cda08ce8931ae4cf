//! The threads of a server.

use std::future::Future;
use std::io;
use std::num::NonZeroUsize;
use std::sync::mpsc;

use pintle_value::threads::{TREE_STACK, thread_builder};
use tokio::runtime::Handle;

use super::{RunningServer, SHUTDOWN_GRACE_PERIOD};

/// How many tasks a worker runs before it checks for network events and timers. Tokio's default is 61. In a flood of
/// small frames, each task takes its maximum time. With the default, a new request would then wait tens of
/// milliseconds.
const EVENT_INTERVAL: u32 = 16;

/// The runtime on which a server runs. Its workers walk trees (`pintle_value::threads`). The thread that owns the
/// runtime does, too: it drops the data of the tasks.
#[derive(Debug)]
pub(super) struct OwnRuntime {
    handle: Handle,
    /// Ends the runtime when the sender is dropped or sends a value. The value is dropped after the runtime.
    pub(super) end: mpsc::Sender<Option<RunningServer>>,
    pub(super) thread: Option<std::thread::JoinHandle<()>>,
}

impl OwnRuntime {
    pub(super) fn start(worker_threads: Option<NonZeroUsize>) -> io::Result<Self> {
        let (end, ended) = mpsc::channel();
        let (sender, built) = mpsc::channel();
        let own = move || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.thread_name("pintle").thread_stack_size(TREE_STACK).event_interval(EVENT_INTERVAL).enable_all();
            if let Some(threads) = worker_threads {
                builder.worker_threads(threads.get());
            }
            match builder.build() {
                Ok(runtime) => {
                    // If the receiver is gone, `end` is dropped too, and `recv` returns.
                    let _ = sender.send(Ok(runtime.handle().clone()));
                    let rest = ended.recv();
                    runtime.shutdown_timeout(SHUTDOWN_GRACE_PERIOD);
                    drop(rest);
                }
                Err(error) => drop(sender.send(Err(error))),
            }
        };
        let thread = thread_builder("pintle-runtime").spawn(own)?;
        let handle = built.recv().map_err(io::Error::other)??;
        Ok(Self { handle, end, thread: Some(thread) })
    }

    /// Runs a future on the workers of this runtime, and propagates its panic. `None` if the runtime ends before the
    /// future.
    pub(super) async fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Option<T> {
        match self.handle.spawn(future).await {
            Ok(result) => Some(result),
            Err(error) => error.try_into_panic().map_or(None, |panic| std::panic::resume_unwind(panic)),
        }
    }
}
