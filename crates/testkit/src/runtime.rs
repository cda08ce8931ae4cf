//! The runtime that tests run a cluster on: the same stacks as the `pintle` binary gives its workers, since objects may
//! nest 10,000 levels deep and are walked recursively.

use std::future::Future;

use tokio::runtime::Runtime;

/// The stack of a worker, as in the binary.
const WORKER_STACK: usize = 64 << 20;

/// A runtime with workers like those of the server.
pub(crate) fn workers() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(WORKER_STACK)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Runs a test to its end on workers like those of the server.
///
/// # Panics
/// The test does, or there can be no runtime.
pub fn run<T: Send + 'static>(test: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = workers();
    // `block_on` alone would run the test on the small stack of the thread that calls it.
    match runtime.block_on(runtime.spawn(test)) {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
