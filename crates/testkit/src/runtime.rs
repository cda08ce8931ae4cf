//! The tokio runtime for tests. Its workers have stacks as large as those of the `pintle` binary, because objects may
//! nest 10,000 levels deep and are processed recursively.

use std::future::Future;

use tokio::runtime::Runtime;

/// The stack size of a worker in bytes, as in the binary.
const WORKER_STACK: usize = 64 << 20;

/// Creates a runtime with workers like those of the binary.
pub(crate) fn worker_runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(WORKER_STACK)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Runs a test on a runtime with workers like those of the binary.
///
/// # Panics
/// Panics if the test panics or the runtime cannot be created.
pub fn run<T: Send + 'static>(test: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = worker_runtime();
    // `block_on` alone would run the test on the caller's thread, whose stack is small.
    match runtime.block_on(runtime.spawn(test)) {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
