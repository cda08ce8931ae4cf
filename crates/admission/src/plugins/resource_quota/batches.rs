//! Batches of the writes of a namespace. Writes that arrive while a batch is being decided form the next batch. So a
//! quota is written once for all writes of a batch.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use pintle_locks::Mutex;
use pintle_value::Str;
use tokio::sync::oneshot;

/// How long a write waits for its turn (upstream: `quotaEvaluator.Evaluate`).
const TIMEOUT: Duration = Duration::from_secs(10);

/// The writes that wait, by namespace. A namespace has an entry while one of its writes leads.
type Queues<W, O> = Mutex<HashMap<Str, Vec<Waiter<W, O>>>>;

/// Batches of writes `W`, each of which has an outcome `O`.
pub(super) struct Batches<W, O>(Arc<Queues<W, O>>);

/// The time for the turn of a write is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedOut;

/// A write that waits.
struct Waiter<W, O> {
    write: Arc<W>,
    turn: oneshot::Sender<Turn<W, O>>,
}

/// The outcome of a write's wait.
enum Turn<W, O> {
    /// The write was decided in a batch that another write led.
    Decided(O),
    /// The write leads the next batch.
    Lead(Leadership<W, O>),
}

/// The right to decide the next batch of a namespace. Dropping the leadership passes it on.
struct Leadership<W, O> {
    queues: Arc<Queues<W, O>>,
    namespace: Str,
}

impl<W, O> Default for Batches<W, O> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<W, O> Batches<W, O> {
    /// Decides a write, together with the writes that wait for the same namespace. `decide` returns an outcome for each
    /// write of a batch.
    ///
    /// # Errors
    /// The turn of the write did not come in time.
    pub(super) async fn decide<F>(
        &self,
        namespace: &str,
        write: Arc<W>,
        decide: impl FnOnce(Vec<Arc<W>>) -> F,
    ) -> Result<O, TimedOut>
    where
        F: Future<Output = Vec<O>>,
    {
        let leadership = loop {
            match self.enter(namespace, &write) {
                Ok(leadership) => break leadership,
                Err(turn) => match self.wait(namespace, &write, turn).await? {
                    Some(Turn::Decided(outcome)) => return Ok(outcome),
                    Some(Turn::Lead(leadership)) => break leadership,
                    // The write that led was given up.
                    None => {}
                },
            }
        };
        let mut writes = vec![write];
        let mut turns = Vec::new();
        for waiter in leadership.take_waiting() {
            writes.push(waiter.write);
            turns.push(waiter.turn);
        }
        let mut outcomes = decide(writes).await.into_iter();
        let own = outcomes.next().ok_or(TimedOut)?;
        for (turn, outcome) in turns.into_iter().zip(outcomes) {
            let _ = turn.send(Turn::Decided(outcome));
        }
        Ok(own)
    }

    /// Takes the lead, or waits for the write that leads.
    fn enter(&self, namespace: &str, write: &Arc<W>) -> Result<Leadership<W, O>, oneshot::Receiver<Turn<W, O>>> {
        match self.0.lock().entry(namespace.into()) {
            Entry::Vacant(entry) => {
                entry.insert(Vec::new());
                Ok(Leadership { queues: self.0.clone(), namespace: namespace.into() })
            }
            Entry::Occupied(mut waiting) => {
                let (turn, receiver) = oneshot::channel();
                waiting.get_mut().push(Waiter { write: write.clone(), turn });
                Err(receiver)
            }
        }
    }

    /// Waits for the turn of a write. `None` if the write that led was given up. A write that is being decided waits
    /// for the decision, however long it takes.
    async fn wait(
        &self,
        namespace: &str,
        write: &Arc<W>,
        mut turn: oneshot::Receiver<Turn<W, O>>,
    ) -> Result<Option<Turn<W, O>>, TimedOut> {
        if let Ok(turn) = tokio::time::timeout(TIMEOUT, &mut turn).await {
            return Ok(turn.ok());
        }
        let was_waiting = self.0.lock().get_mut(namespace).is_some_and(|waiting| {
            let count = waiting.len();
            waiting.retain(|waiter| !Arc::ptr_eq(&waiter.write, write));
            waiting.len() < count
        });
        if was_waiting { Err(TimedOut) } else { Ok(turn.await.ok()) }
    }
}

impl<W, O> Leadership<W, O> {
    fn take_waiting(&self) -> Vec<Waiter<W, O>> {
        self.queues.lock().get_mut(&self.namespace).map(std::mem::take).unwrap_or_default()
    }
}

impl<W, O> Drop for Leadership<W, O> {
    fn drop(&mut self) {
        let next = {
            let mut queues = self.queues.lock();
            match queues.get_mut(&self.namespace) {
                Some(waiting) if !waiting.is_empty() => waiting.remove(0),
                _ => {
                    queues.remove(&self.namespace);
                    return;
                }
            }
        };
        // If the next write was given up in the meantime, the leadership in the message is dropped and passed on again.
        let leadership = Self { queues: self.queues.clone(), namespace: self.namespace.clone() };
        let _ = next.turn.send(Turn::Lead(leadership));
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    /// Decides batches on request, and records them.
    #[derive(Default)]
    struct Decider {
        may_decide: Notify,
        batches: Mutex<Vec<Vec<u32>>>,
    }

    impl Decider {
        async fn decide(&self, writes: Vec<Arc<u32>>) -> Vec<u32> {
            self.may_decide.notified().await;
            let writes: Vec<u32> = writes.iter().map(|write| **write).collect();
            self.batches.lock().push(writes.clone());
            writes.into_iter().map(|write| write * 10).collect()
        }
    }

    #[tokio::test]
    async fn writes_that_wait_are_decided_together() {
        let (batches, decider) = (Batches::default(), Decider::default());
        let decide = |namespace: &'static str, write: u32| {
            let (batches, decider) = (&batches, &decider);
            async move { batches.decide(namespace, Arc::new(write), |writes| decider.decide(writes)).await }
        };
        let writes = join_all([decide("n", 1), decide("n", 2), decide("n", 3), decide("other", 4)]);
        let permits = async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
                decider.may_decide.notify_one();
            }
        };
        let (outcomes, ()) = tokio::join!(writes, permits);
        assert_eq!(outcomes, [Ok(10), Ok(20), Ok(30), Ok(40)]);
        let mut decided = decider.batches.lock().clone();
        decided.sort();
        assert_eq!(decided, [vec![1], vec![2, 3], vec![4]]);
        assert!(batches.0.lock().is_empty());
    }

    #[tokio::test]
    async fn a_write_that_is_given_up_passes_the_lead_on() {
        let batches: Batches<u32, u32> = Batches::default();
        let first = batches.decide("n", Arc::new(1), |_| pending());
        let mut first = Box::pin(first);
        assert!(futures_util::poll!(first.as_mut()).is_pending());
        let second = batches.decide("n", Arc::new(2), |writes| async move { vec![*writes[0]] });
        let mut second = Box::pin(second);
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        drop(first);
        assert_eq!(second.await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_has_an_end() {
        let batches: Batches<u32, u32> = Batches::default();
        let first = batches.decide("n", Arc::new(1), |_| pending());
        let mut first = Box::pin(first);
        assert!(futures_util::poll!(first.as_mut()).is_pending());
        let second = batches.decide("n", Arc::new(2), |_| async { Vec::new() });
        assert_eq!(second.await, Err(TimedOut));
        assert!(batches.0.lock()["n"].is_empty());
    }
}
