//! Limits how often lines that clients cause are logged, so that clients cannot fill the disk.

use std::fmt::{self, Display};
use std::time::{Duration, Instant};

use pintle_locks::Mutex;

/// Maximum number of lines at once.
const BURST: u32 = 100;
/// The time after which another line is allowed.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum length of a text that a client chooses, in bytes.
const MAX_TEXT: usize = 1024;

/// Allows a hundred lines at once, and then one line a second.
#[derive(Debug)]
pub(crate) struct LogLimit(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The time at which a whole burst is allowed again.
    idle_at: Option<Instant>,
    /// The number of lines that were omitted since the last logged line.
    unlogged: u64,
}

impl LogLimit {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(State { idle_at: None, unlogged: 0 }))
    }

    /// Whether a line may be logged now. If so, returns the number of lines that were omitted since the last logged
    /// line.
    pub(crate) fn allow(&self) -> Option<u64> {
        self.allow_at(Instant::now())
    }

    fn allow_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let idle_at = state.idle_at.map_or(now, |at| at.max(now)) + INTERVAL;
        if idle_at > now + INTERVAL * BURST {
            state.unlogged += 1;
            return None;
        }
        state.idle_at = Some(idle_at);
        Some(std::mem::take(&mut state.unlogged))
    }
}

/// The beginning of a text that a client chooses.
pub(crate) struct Shortened<'t>(pub(crate) &'t str);

impl Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beginning = &self.0[..self.0.floor_char_boundary(MAX_TEXT)];
        // The text is quoted, because a line break would begin another line of the log.
        fmt::Debug::fmt(beginning, f)?;
        match self.0.len() - beginning.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let (limit, start) = (LogLimit::new(), Instant::now());
        let allow = |seconds: u64| limit.allow_at(start + Duration::from_secs(seconds));
        assert!((0..BURST).all(|_| allow(0) == Some(0)));
        assert!((0..7).all(|_| allow(0).is_none()));
        assert_eq!((allow(1), allow(1), allow(1)), (Some(7), None, None));
        assert_eq!((allow(3), allow(3), allow(3)), (Some(2), Some(0), None));
        // After a pause, one burst is allowed again, and no more.
        assert_eq!(allow(1000), Some(1));
        assert!((1..BURST).all(|_| allow(1000) == Some(0)));
        assert_eq!(allow(1000), None);
    }

    #[test]
    fn texts_of_clients_are_quoted_and_have_a_maximum_length() {
        assert_eq!(Shortened("a\n\"b\"\u{1b}").to_string(), r#""a\n\"b\"\u{1b}""#);
        let long = "é".repeat(MAX_TEXT);
        let expect = format!("\"{}\" and {MAX_TEXT} more bytes", &long[..MAX_TEXT]);
        assert_eq!(Shortened(&long).to_string(), expect);
    }
}
