//! PriorityLevelConfiguration objects, and the seats that they get.

use pintle_value::{Str, Value};

use crate::flow_schema::{CATCH_ALL, EXEMPT};
use crate::queue_set::LimitResponse;
use crate::shuffle_sharding::Dealer;

/// The shares of a limited level whose object has none.
const DEFAULT_SHARES: i64 = 30;
/// The part of a level's nominal limit that one request gets at most.
const MAX_SEATS_OF_NOMINAL: f64 = 0.15;

/// A valid PriorityLevelConfiguration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PriorityLevel {
    pub(crate) name: Str,
    pub(crate) uid: Str,
    pub(crate) limit_response: LimitResponse,
    /// The share in the seats of the server.
    shares: u32,
    lendable_percent: u32,
    /// `None` without limit.
    borrowing_limit_percent: Option<u32>,
}

/// The limits of seats of a priority level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeatLimits {
    /// The share in the limit of the server.
    pub(crate) nominal: usize,
    /// The nominal limit, less the seats that other levels may borrow.
    pub(crate) min: usize,
    /// The nominal limit and the seats that the level may borrow.
    pub(crate) max: usize,
}

impl SeatLimits {
    /// The limit before the first adjustment.
    pub(crate) fn initial(&self) -> usize {
        self.nominal - (self.nominal - self.min) / 2
    }
}

impl PriorityLevel {
    /// Reads an object.
    ///
    /// # Errors
    /// The object is broken. Upstream ignores it.
    pub(crate) fn decode(object: &Value) -> Result<Self, String> {
        let name: Str = object.name().into();
        let kind = object.str_at(&["spec", "type"]);
        let (limited, exempt) = (object.at(&["spec", "limited"]), object.at(&["spec", "exempt"]));
        if (kind == "Limited") != limited.is_some() {
            return Err("broken union structure at the top, for Limited".to_owned());
        }
        if (kind == "Exempt") != exempt.is_some() {
            return Err("broken union structure at the top, for Exempt".to_owned());
        }
        if (kind == "Exempt") != (name == EXEMPT) {
            return Err("non-alignment between name and type".to_owned());
        }
        let limit_response = limited.map_or(Ok(LimitResponse::Exempt), limit_response)?;
        let part = limited.or(exempt).ok_or("neither Limited nor Exempt")?;
        let number = |field: &str| part.int_at(&[field]).map(|number| u32::try_from(number).unwrap_or_default());
        let default_shares = if limited.is_some() { DEFAULT_SHARES } else { 0 };
        Ok(Self {
            name,
            uid: object.uid().into(),
            limit_response,
            shares: number("nominalConcurrencyShares").unwrap_or(default_shares as u32),
            lendable_percent: number("lendablePercent").unwrap_or_default(),
            borrowing_limit_percent: number("borrowingLimitPercent").filter(|_| limited.is_some()),
        })
    }

    /// The mandatory level `exempt`, which exists without its object.
    pub(crate) fn exempt() -> Self {
        Self {
            name: EXEMPT.into(),
            uid: Str::default(),
            limit_response: LimitResponse::Exempt,
            shares: 0,
            lendable_percent: 0,
            borrowing_limit_percent: None,
        }
    }

    /// The mandatory level `catch-all`, which exists without its object.
    pub(crate) fn catch_all() -> Self {
        let limit_response = LimitResponse::Reject;
        Self { name: CATCH_ALL.into(), limit_response, shares: 5, ..Self::exempt() }
    }

    pub(crate) fn shares(&self) -> u64 {
        self.shares.into()
    }

    /// The limits of a level, from the limit of the server and the shares of all levels. The nominal limits of all
    /// levels may sum up to a little more than the limit of the server, because they are rounded up.
    pub(crate) fn seat_limits(&self, server_limit: usize, all_shares: u64) -> SeatLimits {
        let percent = |nominal: usize, percent: u32| (nominal as f64 * f64::from(percent) / 100.0).round() as usize;
        let nominal = (server_limit as f64 * f64::from(self.shares) / all_shares.max(1) as f64).ceil() as usize;
        let lendable = percent(nominal, self.lendable_percent).min(nominal);
        let borrowable = self.borrowing_limit_percent.map_or(server_limit, |limit| percent(nominal, limit));
        SeatLimits { nominal, min: nominal - lendable, max: nominal + borrowable }
    }

    /// The maximum number of seats of a request; zero without a limit of the level.
    pub(crate) fn max_seats(&self, nominal: usize) -> u64 {
        let LimitResponse::Queue { dealer, .. } = self.limit_response else { return 0 };
        let part = (nominal as f64 * MAX_SEATS_OF_NOMINAL).ceil() as usize;
        part.min(nominal / dealer.hand_size()).max(1) as u64
    }
}

fn limit_response(limited: &Value) -> Result<LimitResponse, String> {
    let queuing = limited.at(&["limitResponse", "queuing"]);
    if (limited.str_at(&["limitResponse", "type"]) == "Reject") != queuing.is_none() {
        return Err("broken union structure for limit response".to_owned());
    }
    let Some(queuing) = queuing else { return Ok(LimitResponse::Reject) };
    let number = |field: &str| usize::try_from(queuing.int_at(&[field]).unwrap_or_default()).unwrap_or_default();
    let (queues, hand_size, queue_length_limit) = (number("queues"), number("handSize"), number("queueLengthLimit"));
    // As in upstream, a level without queues rejects.
    if queues == 0 {
        return Ok(LimitResponse::Reject);
    }
    let dealer = Dealer::new(queues, hand_size).map_err(|error| {
        format!("the QueueSetConfig implies an invalid shuffle sharding config (DesiredNumQueues is deckSize): {error}")
    })?;
    Ok(LimitResponse::Queue { dealer, queue_length_limit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bootstrap_objects, object};

    #[test]
    fn mandatory_levels_equal_their_objects() {
        let levels: Vec<_> = bootstrap_objects("type").iter().map(PriorityLevel::decode).collect();
        for mandatory in [PriorityLevel::exempt(), PriorityLevel::catch_all()] {
            assert!(levels.contains(&Ok(mandatory)));
        }
    }

    #[test]
    fn broken_objects_are_refused() {
        let check = |name: &str, spec: &str, expect: &str| {
            let level = object(&format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{spec}}}"#));
            assert_eq!(PriorityLevel::decode(&level).err().as_deref(), Some(expect), "{spec}");
        };
        check("l", r#"{"type":"Limited"}"#, "broken union structure at the top, for Limited");
        check("exempt", r#"{"type":"Exempt"}"#, "broken union structure at the top, for Exempt");
        check("l", r#"{"type":"Exempt","exempt":{}}"#, "non-alignment between name and type");
        check(
            "l",
            r#"{"type":"Limited","limited":{"limitResponse":{"type":"Queue"}}}"#,
            "broken union structure for limit response",
        );
        check(
            "l",
            r#"{"type":"Limited","limited":{"limitResponse":{"type":"Queue","queuing":{"queues":2,"handSize":3}}}}"#,
            "the QueueSetConfig implies an invalid shuffle sharding config (DesiredNumQueues is deckSize): handSize 3 is \
             greater than deckSize 2",
        );
    }

    #[test]
    fn seats_follow_the_shares() {
        let levels: Vec<_> =
            bootstrap_objects("type").iter().map(|level| PriorityLevel::decode(level).expect("valid")).collect();
        let shares = levels.iter().map(PriorityLevel::shares).sum();
        let check = |name: &str, expect: [usize; 4], max_seats| {
            let level = levels.iter().find(|level| level.name == name).expect("a level");
            let limits = level.seat_limits(600, shares);
            assert_eq!([limits.nominal, limits.min, limits.max, limits.initial()], expect, "{name}");
            assert_eq!(level.max_seats(limits.nominal), max_seats, "{name}");
        };
        check("exempt", [0, 0, 600, 0], 0);
        check("catch-all", [13, 13, 613, 13], 0);
        check("system", [74, 50, 674, 62], 12);
        check("workload-low", [245, 24, 845, 135], 37);
        check("leader-election", [25, 25, 625, 25], 4);
    }
}
