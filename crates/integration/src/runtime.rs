//! The tokio runtime for tests. Servers run on their own threads, so any runtime works.

use std::future::Future;

/// Runs a test on a runtime with two workers.
///
/// # Panics
/// Panics if the test panics or the runtime cannot be created.
pub fn run<T: Send + 'static>(test: impl Future<Output = T> + Send + 'static) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    match runtime.block_on(runtime.spawn(test)) {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
