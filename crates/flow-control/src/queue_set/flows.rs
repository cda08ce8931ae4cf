//! The flows of a priority level: their hashes, their virtual time, and their use of seats. The table has a fixed
//! number of flows. A new flow replaces a flow without requests that was not used recently.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use pintle_value::Str;

use crate::metrics::SchemaSeries;
use crate::shuffle_sharding::{Dealer, MAX_HAND, flow_hash};
use crate::{Moment, SeatSeconds};

/// The maximum number of flows of a priority level in its table.
pub const MAX_FLOWS: usize = 1024;

/// The use of seats by a flow.
#[derive(Clone, Debug)]
pub struct FlowUse {
    /// The schema of the flow.
    pub schema: Arc<SchemaSeries>,
    /// The user or the namespace, or empty.
    pub distinguisher: Str,
    /// The number of requests that were executed.
    pub executed: u64,
    /// The number of requests that were rejected.
    pub rejected: u64,
    /// The work of the requests by their estimates.
    pub estimated: SeatSeconds,
    /// The work that the requests have really taken.
    pub actual: SeatSeconds,
    /// The seats of the requests that are executed or linger.
    pub seats_in_use: usize,
    /// The time of the latest request.
    pub latest: Moment,
}

/// The flow of a request.
#[derive(Clone, Debug)]
pub(super) enum RequestFlow {
    /// A flow of the table.
    Listed(usize),
    /// A flow for which the table has no room, by its distinguisher.
    Unlisted(Box<str>),
}

#[derive(Debug)]
struct Flow {
    /// The hash of upstream, which chooses the queues.
    hash: u64,
    usage: FlowUse,
    /// The number of requests of the flow in the queue set.
    requests: usize,
    /// True if a request has begun since the last search for a flow to replace.
    is_recent: bool,
    /// The queues of the flow, as of the last request.
    hand: Option<Hand>,
    /// The reading of the progress meter up to which the flow has taken more than its requests were estimated.
    charged_to: SeatSeconds,
}

/// The cards of a hash.
#[derive(Debug)]
struct Hand {
    dealer: Dealer,
    hash: u64,
    cards: [usize; MAX_HAND],
}

#[derive(Debug, Default)]
pub(super) struct FlowTable {
    flows: Vec<Flow>,
    index: HashTable<usize>,
    hasher: DefaultHashBuilder,
    /// The number of flows without requests.
    idle: usize,
    /// The flow at which the next search for a flow to replace begins.
    next: usize,
}

/// The key of a flow in the table. A schema has the same series as long as the server runs.
fn key(hasher: &DefaultHashBuilder, schema: &Arc<SchemaSeries>, distinguisher: &str) -> u64 {
    hasher.hash_one((Arc::as_ptr(schema).addr(), distinguisher))
}

impl FlowTable {
    /// Begins a request of a flow. Returns the flow and its hash.
    pub(super) fn begin(&mut self, schema: &Arc<SchemaSeries>, distinguisher: &str, now: Moment) -> (RequestFlow, u64) {
        let key_of_flow = key(&self.hasher, schema, distinguisher);
        if let Some(at) = self.place(key_of_flow, schema, distinguisher)
            && let Some(flow) = self.flows.get_mut(at)
        {
            self.idle -= usize::from(flow.requests == 0);
            flow.requests += 1;
            flow.is_recent = true;
            flow.usage.latest = now;
            return (RequestFlow::Listed(at), flow.hash);
        }
        let hash = flow_hash(&schema.name, distinguisher);
        let usage = FlowUse {
            schema: schema.clone(),
            distinguisher: distinguisher.into(),
            executed: 0,
            rejected: 0,
            estimated: SeatSeconds::ZERO,
            actual: SeatSeconds::ZERO,
            seats_in_use: 0,
            latest: now,
        };
        let flow = Flow { hash, usage, requests: 1, is_recent: true, hand: None, charged_to: SeatSeconds::ZERO };
        let Some(at) = self.insert(flow) else { return (RequestFlow::Unlisted(distinguisher.into()), hash) };
        let Self { flows, index, hasher, .. } = self;
        let rehash = |&at: &usize| {
            flows.get(at).map_or(0, |flow: &Flow| key(hasher, &flow.usage.schema, &flow.usage.distinguisher))
        };
        index.insert_unique(key_of_flow, at, rehash);
        (RequestFlow::Listed(at), hash)
    }

    /// The place of a flow in the table.
    fn place(&self, key_of_flow: u64, schema: &Arc<SchemaSeries>, distinguisher: &str) -> Option<usize> {
        let is_same =
            |flow: &Flow| Arc::ptr_eq(&flow.usage.schema, schema) && flow.usage.distinguisher == distinguisher;
        self.index.find(key_of_flow, |&at| self.flows.get(at).is_some_and(is_same)).copied()
    }

    /// Finds a flow of the table.
    pub(super) fn find(&self, schema: &Arc<SchemaSeries>, distinguisher: &str) -> Option<RequestFlow> {
        self.place(key(&self.hasher, schema, distinguisher), schema, distinguisher).map(RequestFlow::Listed)
    }

    /// Puts a flow at a free place. `None` if all flows of the table have requests.
    fn insert(&mut self, flow: Flow) -> Option<usize> {
        if self.flows.len() < MAX_FLOWS {
            self.flows.push(flow);
            return Some(self.flows.len() - 1);
        }
        if self.idle == 0 {
            return None;
        }
        // The second round finds the flow whose mark the first round has removed.
        for _ in 0..2 * MAX_FLOWS {
            let at = self.next;
            self.next = (at + 1) % MAX_FLOWS;
            let old = self.flows.get_mut(at)?;
            if old.requests == 0 && !std::mem::take(&mut old.is_recent) {
                let old_key = key(&self.hasher, &old.usage.schema, &old.usage.distinguisher);
                if let Ok(entry) = self.index.find_entry(old_key, |&other| other == at) {
                    entry.remove();
                }
                *old = flow;
                self.idle -= 1;
                return Some(at);
            }
        }
        None
    }

    /// Ends a request of a flow.
    pub(super) fn end(&mut self, flow: &RequestFlow) {
        if let Some(flow) = self.get_mut(flow) {
            flow.requests -= 1;
            self.idle += usize::from(flow.requests == 0);
        }
    }

    fn get(&self, flow: &RequestFlow) -> Option<&Flow> {
        if let RequestFlow::Listed(at) = flow { self.flows.get(*at) } else { None }
    }

    fn get_mut(&mut self, flow: &RequestFlow) -> Option<&mut Flow> {
        if let RequestFlow::Listed(at) = flow { self.flows.get_mut(*at) } else { None }
    }

    pub(super) fn usage_mut(&mut self, flow: &RequestFlow) -> Option<&mut FlowUse> {
        self.get_mut(flow).map(|flow| &mut flow.usage)
    }

    pub(super) fn distinguisher<'f>(&'f self, flow: &'f RequestFlow) -> &'f str {
        match flow {
            RequestFlow::Listed(at) => self.flows.get(*at).map_or("", |flow| &flow.usage.distinguisher),
            RequestFlow::Unlisted(distinguisher) => distinguisher,
        }
    }

    /// A card of the hand of a flow.
    pub(super) fn card(&mut self, flow: &RequestFlow, dealer: Dealer, hash: u64, at: usize) -> usize {
        let Some(flow) = self.get_mut(flow) else { return dealer.deal(hash)[at] };
        let hand = flow.hand.take().filter(|hand| (hand.dealer, hand.hash) == (dealer, hash));
        flow.hand.insert(hand.unwrap_or_else(|| Hand { dealer, hash, cards: dealer.deal(hash) })).cards[at]
    }

    /// The virtual time of a flow, which is zero unless the flow was charged.
    pub(super) fn charged_to(&self, flow: &RequestFlow) -> SeatSeconds {
        self.get(flow).map_or(SeatSeconds::ZERO, |flow| flow.charged_to)
    }

    /// Sets the virtual time of a flow.
    pub(super) fn charge(&mut self, flow: &RequestFlow, charged_to: SeatSeconds) {
        if let Some(flow) = self.get_mut(flow) {
            flow.charged_to = charged_to;
        }
    }

    /// Moves all virtual times back.
    pub(super) fn move_back(&mut self, decrement: SeatSeconds) {
        for flow in &mut self.flows {
            flow.charged_to = flow.charged_to.saturating_minus(decrement);
        }
    }

    /// The seats that the requests of a flow hold. Zero for a flow that is not in the table.
    pub(super) fn seats_in_use(&self, flow: &RequestFlow) -> usize {
        self.get(flow).map_or(0, |flow| flow.usage.seats_in_use)
    }

    pub(super) fn uses(&self) -> impl Iterator<Item = &FlowUse> {
        self.flows.iter().map(|flow| &flow.usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_bounded_and_keeps_flows_with_requests() {
        let mut table = FlowTable::default();
        let schema = Arc::new(SchemaSeries::new("s"));
        let begin = |table: &mut FlowTable, user: &str| table.begin(&schema, user, Moment::START).0;
        let held = begin(&mut table, "held");
        for user in 0..3 * MAX_FLOWS {
            let flow = begin(&mut table, &user.to_string());
            assert!(matches!(flow, RequestFlow::Listed(_)));
            table.end(&flow);
        }
        assert_eq!((table.flows.len(), table.index.len()), (MAX_FLOWS, MAX_FLOWS));
        assert_eq!(table.distinguisher(&held), "held");
        assert!(matches!(begin(&mut table, "held"), RequestFlow::Listed(0)));
        let held: Vec<_> = (0..MAX_FLOWS).map(|user| begin(&mut table, &format!("active-{user}"))).collect();
        assert!(matches!(&held[MAX_FLOWS - 1], RequestFlow::Unlisted(_)));
        assert_eq!(table.distinguisher(&held[MAX_FLOWS - 1]), format!("active-{}", MAX_FLOWS - 1));
        table.end(&held[5]);
        assert!(matches!(begin(&mut table, "new"), RequestFlow::Listed(_)));
    }
}
