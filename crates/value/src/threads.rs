//! The stack of threads that walk trees. Trees are walked, cloned and dropped recursively, so every thread that may
//! meet a tree is started with [`TREE_STACK`]. Such threads are the workers of a server's runtime, and the threads
//! here.

use std::panic::resume_unwind;
use std::thread::{Builder, ScopedJoinHandle};

use pintle_locks::Mutex;

/// The stack of a thread that walks trees, in bytes. Decoders accept 10,000 levels, for which writes of custom
/// resources were seen to use 24 MiB without optimizations. The system backs only the used part with memory.
pub const TREE_STACK: usize = 128 << 20;

/// A builder of threads that walk trees.
pub fn thread_builder(name: &str) -> Builder {
    Builder::new().name(name.to_owned()).stack_size(TREE_STACK)
}

/// Maps items on all processors, and returns the results in order. A part whose thread cannot be started is mapped on
/// the caller's.
///
/// # Panics
/// Panics if `each` panics.
pub fn map_parallel<T: Sync, R: Send>(items: &[T], each: &(dyn Fn(&T) -> R + Sync)) -> Vec<R> {
    let parts: Vec<&[T]> = items.chunks(part_length(items.len())).collect();
    map_parts(parts, &|part: &[T]| part.iter().map(each).collect())
}

/// Maps items as [`map_parallel`] does, and consumes them.
///
/// # Panics
/// Panics if `each` panics.
pub fn map_parallel_owned<T: Send + Sync, R: Send>(mut items: Vec<T>, each: &(dyn Fn(T) -> R + Sync)) -> Vec<R> {
    let length = part_length(items.len());
    let mut parts = Vec::new();
    while items.len() > length {
        parts.push(Mutex::new(items.split_off((items.len() - 1) / length * length)));
    }
    parts.push(Mutex::new(items));
    parts.reverse();
    // A part is taken once, by its thread or, if that cannot be started, by the caller.
    let take = |part: &Mutex<Vec<T>>| std::mem::take(&mut *part.lock());
    map_parts(parts.iter().collect(), &|part: &Mutex<Vec<T>>| take(part).into_iter().map(each).collect())
}

/// The number of items of the part of each processor.
fn part_length(items: usize) -> usize {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    items.div_ceil(workers).max(1)
}

/// Maps each part on a thread of its own, and returns the results in order.
fn map_parts<P: Copy + Send, R: Send>(parts: Vec<P>, map: &(dyn Fn(P) -> Vec<R> + Sync)) -> Vec<R> {
    std::thread::scope(|scope| {
        let start = |part| match thread_builder("pintle-load").spawn_scoped(scope, move || map(part)) {
            Ok(thread) => Part::Started(thread),
            Err(_) => Part::Done(map(part)),
        };
        let parts: Vec<_> = parts.into_iter().map(start).collect();
        parts.into_iter().flat_map(Part::results).collect()
    })
}

/// A part of the items of [`map_parallel`].
enum Part<'scope, R> {
    Started(ScopedJoinHandle<'scope, Vec<R>>),
    Done(Vec<R>),
}

impl<R> Part<'_, R> {
    fn results(self) -> Vec<R> {
        match self {
            Part::Started(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Part::Done(results) => results,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{map_parallel, map_parallel_owned};

    #[test]
    fn map_parallel_keeps_the_order() {
        for count in [0, 1, 2, 1001] {
            let items: Vec<usize> = (0..count).collect();
            let expected: Vec<_> = (0..count).map(|item| item * 2).collect();
            assert_eq!(map_parallel(&items, &|item| item * 2), expected);
            assert_eq!(map_parallel_owned(items, &|item| item * 2), expected);
        }
    }
}
