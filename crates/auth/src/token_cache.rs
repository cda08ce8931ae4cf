//! A cache of successful and of failed authentications by tokens (upstream: `authentication/token/cache`). A result
//! belongs to one token and one list of audiences. A token is never accepted for audiences for which it was not
//! authenticated. Requests that arrive while an authenticator waits for another server wait for the same answer.
//!
//! Entries are found by a hash with a random seed and compared as a whole. The hash is not cryptographic, because a
//! collision can only replace an entry. A cryptographic hash would cost more than everything else.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use hashbrown::DefaultHashBuilder;
use pintle_locks::RwLock;
use pintle_value::Str;

use crate::authenticate::AuthenticationResult;
use crate::shared_fetch::{FetchRole, SharedFetches};
use crate::{AuthFuture, TokenAuthenticator};

/// The number of parts of the cache, each with a lock of its own.
const SHARDS: usize = 32;
/// Maximum size of the tokens and audiences of a part, in bytes.
const SHARD_BYTES: usize = 1 << 20;
/// Maximum number of entries of a part.
const SHARD_ENTRIES: usize = 1024;

/// The time for which results are cached; zero disables caching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenCacheTtl {
    /// How long a success is cached.
    pub success: Duration,
    /// How long an unknown token is cached.
    pub failure: Duration,
    /// How long an error is cached.
    pub error: Duration,
}

impl TokenCacheTtl {
    /// The defaults of kube-apiserver.
    pub const DEFAULT: TokenCacheTtl =
        TokenCacheTtl { success: Duration::from_secs(10), failure: Duration::ZERO, error: Duration::ZERO };
    /// Nothing is cached.
    pub const DISABLED: TokenCacheTtl =
        TokenCacheTtl { success: Duration::ZERO, failure: Duration::ZERO, error: Duration::ZERO };
}

impl Default for TokenCacheTtl {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Observes a cache, for metrics.
pub trait TokenCacheObserver: Send + Sync {
    /// A token was authenticated. `hit` is true if the result came from the cache; `took` is the duration.
    fn authenticated(&self, hit: bool, took: Duration);
    /// The number of requests that wait for an answer outside the cache has changed.
    fn blocked(&self, difference: i64);
    /// The authenticator behind the cache is asked.
    fn fetch_started(&self);
    /// A fetch has ended. `ok` is false if the answer is an error, and `None` if the answer was not awaited.
    fn fetch_ended(&self, ok: Option<bool>);
}

/// Counts a request that waits, even if it ends before the answer.
struct Blocked<'c>(&'c dyn TokenCacheObserver);

impl<'c> Blocked<'c> {
    fn start(observer: &'c dyn TokenCacheObserver) -> Self {
        observer.blocked(1);
        Self(observer)
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.0.blocked(-1);
    }
}

/// Reports the end of a fetch, even if the request ends before it.
struct Fetch<'c>(&'c dyn TokenCacheObserver, Option<bool>);

impl<'c> Fetch<'c> {
    fn start(observer: &'c dyn TokenCacheObserver) -> Self {
        observer.fetch_started();
        Self(observer, None)
    }

    fn end(mut self, ok: bool) {
        self.1 = Some(ok);
    }
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        self.0.fetch_ended(self.1);
    }
}

/// Caches the answers of an authenticator.
pub struct CachedTokenAuthenticator<A> {
    authenticator: A,
    ttl: TokenCacheTtl,
    observer: Box<dyn TokenCacheObserver>,
    hasher: DefaultHashBuilder,
    shards: [RwLock<Shard>; SHARDS],
    fetches: SharedFetches,
}

/// A part of the cache.
#[derive(Default)]
struct Shard {
    entries: HashMap<u64, Entry>,
    /// The size of all tokens and audiences, in bytes.
    bytes: usize,
}

struct Entry {
    token: Box<str>,
    audiences: Box<[Str]>,
    result: AuthenticationResult,
    expires: Instant,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.token.len() + self.audiences.iter().map(|audience| audience.len()).sum::<usize>()
    }
}

impl Shard {
    fn insert(&mut self, key: u64, entry: Entry, now: Instant) {
        let bytes = entry.bytes();
        if self.entries.len() >= SHARD_ENTRIES || self.bytes + bytes > SHARD_BYTES {
            self.entries.retain(|_, entry| now < entry.expires);
            self.bytes = self.entries.values().map(Entry::bytes).sum();
        }
        if self.entries.len() >= SHARD_ENTRIES || self.bytes + bytes > SHARD_BYTES {
            return;
        }
        self.bytes += bytes;
        if let Some(replaced) = self.entries.insert(key, entry) {
            self.bytes -= replaced.bytes();
        }
    }
}

impl<A: TokenAuthenticator> CachedTokenAuthenticator<A> {
    /// A cache of an authenticator.
    pub fn new(authenticator: A, ttl: TokenCacheTtl, observer: Box<dyn TokenCacheObserver>) -> Self {
        let shards = std::array::from_fn(|_| RwLock::default());
        Self {
            authenticator,
            ttl,
            observer,
            hasher: DefaultHashBuilder::default(),
            shards,
            fetches: SharedFetches::default(),
        }
    }

    fn key(&self, token: &str, audiences: &[Str]) -> u64 {
        self.hasher.hash_one((token, audiences))
    }

    fn shard(&self, key: u64) -> &RwLock<Shard> {
        &self.shards[key as usize % SHARDS]
    }

    fn cached(&self, key: u64, token: &str, audiences: &[Str], now: Instant) -> Option<AuthenticationResult> {
        let shard = self.shard(key).read();
        let entry = shard.entries.get(&key)?;
        (now < entry.expires && *entry.token == *token && *entry.audiences == *audiences).then(|| entry.result.clone())
    }

    fn store(&self, key: u64, token: &str, audiences: &[Str], result: &AuthenticationResult, now: Instant) {
        let ttl = match result {
            Ok(Some(_)) => self.ttl.success,
            Ok(None) => self.ttl.failure,
            Err(_) => self.ttl.error,
        };
        if ttl.is_zero() {
            return;
        }
        let entry = Entry {
            token: token.into(),
            audiences: audiences.into(),
            result: result.clone(),
            expires: now.checked_add(ttl).unwrap_or(now),
        };
        self.shard(key).write().insert(key, entry, now);
    }
}

impl<A: TokenAuthenticator> TokenAuthenticator for CachedTokenAuthenticator<A> {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        let started = Instant::now();
        let key = self.key(token, audiences);
        if let Some(result) = self.cached(key, token, audiences, started) {
            self.observer.authenticated(true, started.elapsed());
            return AuthFuture::ready(result);
        }
        let blocked = Blocked::start(&*self.observer);
        let fetched = move |fetch: Fetch<'_>, result: AuthenticationResult| {
            fetch.end(result.is_ok());
            // The result counts from the time when the token was read, because bound objects may have been deleted
            // since.
            self.store(key, token, audiences, &result, started);
            result
        };
        let answered = move |result: AuthenticationResult| {
            drop(blocked);
            self.observer.authenticated(false, started.elapsed());
            result
        };
        match self.authenticator.authenticate_token(token, audiences) {
            AuthFuture::Ready(result) => {
                let fetch = Fetch::start(&*self.observer);
                AuthFuture::Ready(result.map(|result| fetched(fetch, result)).map(answered))
            }
            AuthFuture::Boxed(pending) => AuthFuture::boxed(async move {
                loop {
                    match self.fetches.join(key, token, audiences) {
                        FetchRole::Leader(leader) => {
                            let fetch = Fetch::start(&*self.observer);
                            // Another leader may have stored its answer since this request looked into the cache.
                            let result = match self.cached(key, token, audiences, Instant::now()) {
                                Some(result) => {
                                    fetch.end(true);
                                    result
                                }
                                None => fetched(fetch, pending.await),
                            };
                            leader.answer(&result);
                            return answered(result);
                        }
                        FetchRole::Follower(fetch) => {
                            if let Some(result) = fetch.wait().await {
                                return answered(result);
                            }
                        }
                    }
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::{Authentication, AuthenticationError, UserInfo};

    /// Counts the questions to it.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    /// The token "bad" is an error, "unknown" is not handled, and every other token is the name of its owner.
    fn answer(token: &str, audiences: &[Str]) -> AuthenticationResult {
        match token {
            "bad" => Err(AuthenticationError("bad".to_owned())),
            "unknown" => Ok(None),
            name => Ok(Some(Authentication {
                user: UserInfo { name: name.into(), ..UserInfo::default() },
                audiences: audiences.to_vec(),
                ..Authentication::default()
            })),
        }
    }

    impl TokenAuthenticator for Counting {
        fn authenticate_token<'a>(
            &'a self,
            token: &'a str,
            audiences: &'a [Str],
        ) -> AuthFuture<'a, AuthenticationResult> {
            self.0.fetch_add(1, Ordering::Relaxed);
            AuthFuture::ready(answer(token, audiences))
        }
    }

    /// Counts hits, misses, fetches that run, errors, and requests that wait.
    #[derive(Clone, Default)]
    struct Counts(Arc<[AtomicUsize; 5]>);

    impl TokenCacheObserver for Counts {
        fn authenticated(&self, hit: bool, _: Duration) {
            self.0[usize::from(!hit)].fetch_add(1, Ordering::Relaxed);
        }

        fn blocked(&self, difference: i64) {
            self.0[4].fetch_add(usize::from(difference > 0), Ordering::Relaxed);
            self.0[4].fetch_sub(usize::from(difference < 0), Ordering::Relaxed);
        }

        fn fetch_started(&self) {
            self.0[2].fetch_add(1, Ordering::Relaxed);
        }

        fn fetch_ended(&self, ok: Option<bool>) {
            self.0[2].fetch_sub(1, Ordering::Relaxed);
            self.0[3].fetch_add(usize::from(ok != Some(true)), Ordering::Relaxed);
        }
    }

    /// Presents tokens with audiences in turn. Each row has the number of questions to the authenticator so far.
    #[track_caller]
    fn check(ttl: TokenCacheTtl, rows: &[(&str, &[&str], usize)]) -> [usize; 5] {
        let counts = Counts::default();
        let cache = CachedTokenAuthenticator::new(Counting::default(), ttl, Box::new(counts.clone()));
        for (token, audiences, asked) in rows {
            let audiences: Vec<Str> = audiences.iter().map(|audience| Str::from(*audience)).collect();
            let AuthFuture::Ready(Some(found)) = cache.authenticate_token(token, &audiences) else {
                panic!("not ready")
            };
            assert_eq!(found, answer(token, &audiences), "{token}");
            assert_eq!(cache.authenticator.0.load(Ordering::Relaxed), *asked, "{token} {audiences:?}");
        }
        counts.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    #[test]
    fn successes_are_cached_by_token_and_audiences() {
        let rows: &[(&str, &[&str], usize)] = &[
            ("alice", &[], 1),
            ("alice", &[], 1),
            ("alice", &["a"], 2),
            ("alice", &["b"], 3),
            ("alice", &["a", "b"], 4),
            ("alice", &["ab"], 5),
            ("alicea", &[], 6),
            ("alice", &["a"], 6),
            ("alice", &["b", "a"], 7),
            ("bad", &[], 8),
            ("bad", &[], 9),
            ("unknown", &[], 10),
            ("unknown", &[], 11),
        ];
        assert_eq!(check(TokenCacheTtl::DEFAULT, rows), [2, 11, 0, 2, 0]);
    }

    #[test]
    fn failures_are_cached_if_configured() {
        let cached = Duration::from_secs(10);
        let ttl = TokenCacheTtl { failure: cached, error: cached, ..TokenCacheTtl::DISABLED };
        let rows: &[(&str, &[&str], usize)] =
            &[("bad", &[], 1), ("bad", &[], 1), ("unknown", &[], 2), ("unknown", &[], 2), ("a", &[], 3), ("a", &[], 4)];
        assert_eq!(check(ttl, rows), [2, 4, 0, 1, 0]);
        // An error is not an unknown token.
        let ttl = TokenCacheTtl { failure: cached, ..TokenCacheTtl::DISABLED };
        let rows: &[(&str, &[&str], usize)] =
            &[("bad", &[], 1), ("bad", &[], 2), ("unknown", &[], 3), ("unknown", &[], 3)];
        assert_eq!(check(ttl, rows), [1, 3, 0, 2, 0]);
    }

    /// Answers with the number of times that it was asked, as soon as `open` is set.
    #[derive(Default)]
    struct Remote {
        asked: AtomicUsize,
        open: Arc<AtomicBool>,
    }

    impl TokenAuthenticator for Remote {
        fn authenticate_token<'a>(&'a self, _: &'a str, _: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
            AuthFuture::boxed(async {
                let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
                poll_fn(|_| if self.open.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }).await;
                answer(&asked.to_string(), &[])
            })
        }
    }

    #[test]
    fn requests_with_the_same_token_wait_for_one_answer() {
        let (remote, counts) = (Remote::default(), Counts::default());
        let open = remote.open.clone();
        let cache = CachedTokenAuthenticator::new(remote, TokenCacheTtl::DISABLED, Box::new(counts.clone()));
        let mut cx = Context::from_waker(Waker::noop());
        let other = [Str::from("other")];
        let mut futures = [&[][..], &[], &[], &other].map(|audiences| Some(cache.authenticate_token("t", audiences)));
        let mut poll = |index: usize| {
            let future: &mut Option<AuthFuture<'_, _>> = &mut futures[index];
            let polled = Pin::new(future.as_mut().expect("a request")).poll(&mut cx);
            let Poll::Ready(result) = polled else { return None };
            *future = None;
            result.expect("no error").map(|found: Authentication| found.user.name.to_string())
        };
        let asked = || cache.authenticator.asked.load(Ordering::Relaxed);
        assert_eq!([poll(0), poll(1), poll(2), poll(3)], [None, None, None, None]);
        // There is one fetch for each list of audiences.
        assert_eq!((asked(), counts.0[2].load(Ordering::Relaxed)), (2, 2));
        open.store(true, Ordering::Relaxed);
        assert_eq!(poll(1), None);
        let first = Some("1".to_owned());
        assert_eq!([poll(0), poll(1), poll(2), poll(3)], [first.clone(), first.clone(), first, Some("2".to_owned())]);
        assert_eq!(asked(), 2);
        assert_eq!(counts.0.each_ref().map(|count| count.load(Ordering::Relaxed)), [0, 4, 0, 0, 0]);
    }

    #[test]
    fn a_request_that_missed_before_the_answer_was_stored_uses_it() {
        let (remote, counts) = (Remote::default(), Counts::default());
        remote.open.store(true, Ordering::Relaxed);
        let cache = CachedTokenAuthenticator::new(remote, TokenCacheTtl::DEFAULT, Box::new(counts.clone()));
        let mut cx = Context::from_waker(Waker::noop());
        let mut both = [(); 2].map(|()| cache.authenticate_token("t", &[]));
        for request in &mut both {
            assert_eq!(Pin::new(request).poll(&mut cx), Poll::Ready(answer("1", &[])));
        }
        assert_eq!(counts.0.each_ref().map(|count| count.load(Ordering::Relaxed)), [0, 2, 0, 0, 0]);
    }

    #[test]
    fn another_request_asks_if_the_first_ends_before_the_answer() {
        let (remote, counts) = (Remote::default(), Counts::default());
        let open = remote.open.clone();
        let cache = CachedTokenAuthenticator::new(remote, TokenCacheTtl::DISABLED, Box::new(counts.clone()));
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = cache.authenticate_token("t", &[]);
        let mut second = cache.authenticate_token("t", &[]);
        assert!(Pin::new(&mut first).poll(&mut cx).is_pending());
        assert!(Pin::new(&mut second).poll(&mut cx).is_pending());
        open.store(true, Ordering::Relaxed);
        drop(first);
        assert_eq!(Pin::new(&mut second).poll(&mut cx), Poll::Ready(answer("2", &[])));
        drop(second);
        assert_eq!(counts.0.each_ref().map(|count| count.load(Ordering::Relaxed)), [0, 1, 0, 1, 0]);
    }

    #[test]
    fn entries_expire_and_their_number_and_size_are_bounded() {
        let cache =
            CachedTokenAuthenticator::new(Counting::default(), TokenCacheTtl::DEFAULT, Box::new(Counts::default()));
        let now = Instant::now();
        let success = answer("a", &[]);
        let stored = |cache: &CachedTokenAuthenticator<Counting>| {
            cache.shards.iter().map(|shard| shard.read().entries.len()).sum::<usize>()
        };
        for number in 0..SHARDS * SHARD_ENTRIES * 2 {
            let token = number.to_string();
            cache.store(cache.key(&token, &[]), &token, &[], &success, now);
        }
        assert_eq!(stored(&cache), SHARDS * SHARD_ENTRIES);
        let later = now + TokenCacheTtl::DEFAULT.success;
        let (token, key) = ("late", cache.key("late", &[]));
        cache.store(key, token, &[], &success, later);
        assert_eq!(stored(&cache), (SHARDS - 1) * SHARD_ENTRIES + 1);
        assert_eq!(cache.cached(key, token, &[], later), Some(success.clone()));
        assert_eq!(cache.cached(key, "other", &[], later), None);
        assert_eq!(cache.cached(key, token, &[], later + TokenCacheTtl::DEFAULT.success), None);
        let large = "x".repeat(SHARD_BYTES + 1);
        cache.store(cache.key(&large, &[]), &large, &[], &success, later);
        assert_eq!(cache.cached(cache.key(&large, &[]), &large, &[], later), None);
    }
}
