//! What webhooks converted lately, for lists and watches: many who look at a version see an object that was asked about
//! once (upstream: the watch cache that each version of a custom kind has). It is right for as long as the definition is
//! the same and the object too, and takes a bounded amount of memory. Who gets one object, or writes one, asks anew.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use pintle_cache::Object;
use pintle_registry::ApiError;
use tokio::sync::watch;

use super::View;

/// How many bytes of objects are kept.
const LIMIT: usize = 32 << 20;
/// What an object takes beside its JSON, about.
const OVERHEAD: usize = 400;

/// Objects that were converted, or are being converted.
#[derive(Clone, Default)]
pub(crate) struct Converted(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    found: HashMap<Key, Entry>,
    /// Oldest first.
    order: VecDeque<Key>,
    bytes: usize,
}

/// A state of an object at a version, as a definition has it: revisions tell all three apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    definition: u64,
    object: u64,
    version: Arc<str>,
}

enum Entry {
    Done(Arc<Object>),
    /// One of several that are asked about together, by its place among them.
    Coming(Answers, usize),
}

type Answer = Result<Vec<Arc<Object>>, ApiError>;
type Answers = watch::Receiver<Option<Answer>>;

impl Converted {
    /// Objects at the version of a view that is one of equals.
    ///
    /// # Errors
    /// They cannot be converted.
    pub(super) async fn get(&self, view: &View, objects: &[Arc<Object>]) -> Answer {
        let mut shown: Vec<Option<Arc<Object>>> = vec![None; objects.len()];
        let mut coming = Vec::new();
        let (say, answers) = watch::channel(None);
        let mut asked = Vec::new();
        {
            let mut state = self.0.lock();
            for (i, object) in objects.iter().enumerate() {
                let Some(key) = Key::of(view, object) else { continue };
                match state.found.get(&key) {
                    Some(Entry::Done(done)) => shown[i] = Some(done.clone()),
                    Some(Entry::Coming(answers, place)) => coming.push((i, answers.clone(), *place)),
                    None => {
                        coming.push((i, answers.clone(), asked.len()));
                        state.found.insert(key.clone(), Entry::Coming(answers.clone(), asked.len()));
                        asked.push((key, object.clone()));
                    }
                }
            }
        }
        if !asked.is_empty() {
            // Others may wait for the answer when this client has gone.
            tokio::spawn(ask(self.clone(), view.clone(), asked, say));
        }
        for (i, mut answers, place) in coming {
            let gone = |_| ApiError::Unavailable("the server is shutting down".to_owned());
            let answer = answers.wait_for(Option::is_some).await.map_err(gone)?.clone();
            shown[i] = answer.transpose()?.and_then(|objects| objects.get(place).cloned());
        }
        let lost = || ApiError::Internal("an object was not converted".to_owned());
        shown.into_iter().map(|object| object.ok_or_else(lost)).collect()
    }

    fn keep(&self, keys: Vec<Key>, answer: &Answer) {
        let mut state = self.0.lock();
        let State { found, order, bytes } = &mut *state;
        match answer {
            Ok(objects) => {
                for (key, object) in keys.into_iter().zip(objects) {
                    *bytes += object.json.len() + OVERHEAD;
                    found.insert(key.clone(), Entry::Done(object.clone()));
                    order.push_back(key);
                }
            }
            // Who comes next asks again.
            Err(_) => keys.iter().for_each(|key| drop(found.remove(key))),
        }
        while *bytes > LIMIT
            && let Some(oldest) = order.pop_front()
        {
            if let Some(Entry::Done(object)) = found.remove(&oldest) {
                *bytes -= object.json.len() + OVERHEAD;
            }
        }
    }
}

async fn ask(converted: Converted, view: View, asked: Vec<(Key, Arc<Object>)>, say: watch::Sender<Option<Answer>>) {
    let (keys, objects): (Vec<Key>, Vec<Arc<Object>>) = asked.into_iter().unzip();
    let mut closing = view.cluster.closing.subscribe();
    let answer = tokio::select! {
        answer = view.convert(&objects) => answer,
        _ = closing.wait_for(|closing| *closing) => {
            Err(ApiError::Unavailable("the server is shutting down".to_owned()))
        }
    };
    converted.keep(keys, &answer);
    say.send_replace(Some(answer));
}

impl Key {
    fn of(view: &View, object: &Object) -> Option<Self> {
        let equal = view.equal.as_ref()?;
        Some(Self { definition: equal.versions.since(), object: object.revision, version: equal.name.clone() })
    }
}

impl fmt::Debug for Converted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Converted").field("bytes", &self.0.lock().bytes).finish_non_exhaustive()
    }
}
