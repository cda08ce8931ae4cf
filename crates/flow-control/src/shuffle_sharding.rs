//! Shuffle sharding: the queues that a flow may use (upstream: `util/shufflesharding`, `hashFlowID`).

use sha2::{Digest, Sha256};

/// The bits of a hash that decide about a hand. With more bits the last card would be dealt unevenly.
const MAX_HASH_BITS: f64 = 60.0;
/// The largest hand that [`MAX_HASH_BITS`] allow, except with one card.
pub(crate) const MAX_HAND: usize = 15;
/// The largest number of queues.
const MAX_DECK: usize = 1 << 26;

/// Deals a hand of queues to each flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dealer {
    deck: usize,
    hand: usize,
}

impl Dealer {
    /// A dealer of `hand` out of `deck` queues.
    ///
    /// # Errors
    /// Returns upstream's message if no hash has enough bits, or the hand is larger than the deck.
    pub fn new(deck: usize, hand: usize) -> Result<Self, String> {
        if deck == 0 || hand == 0 {
            return Err(format!("deckSize {deck} or handSize {hand} is not positive"));
        }
        if hand > deck {
            return Err(format!("handSize {hand} is greater than deckSize {deck}"));
        }
        if deck > MAX_DECK {
            return Err(format!("deckSize {deck} is impractically large"));
        }
        if ((deck as f64).log2() * hand as f64).ceil() > MAX_HASH_BITS || hand > MAX_HAND {
            return Err(format!(
                "required entropy bits of deckSize {deck} and handSize {hand} is greater than {MAX_HASH_BITS}"
            ));
        }
        Ok(Self { deck, hand })
    }

    /// The number of queues.
    #[must_use]
    pub fn deck_size(self) -> usize {
        self.deck
    }

    /// The size of a hand.
    #[must_use]
    pub fn hand_size(self) -> usize {
        self.hand
    }

    /// Deals the hand of a hash: different numbers below the number of queues. The rest of the array is zero.
    #[must_use]
    pub fn deal(self, mut hash: u64) -> [usize; MAX_HAND] {
        // A digit of the hash chooses a card among the cards that the cards before have left.
        let mut digits = [0; MAX_HAND];
        for (at, digit) in digits.iter_mut().enumerate().take(self.hand) {
            let left = (self.deck - at) as u64;
            *digit = (hash % left) as usize;
            hash /= left;
        }
        let mut hand = digits;
        for (at, card) in hand.iter_mut().enumerate().take(self.hand) {
            digits[..at].iter().rev().for_each(|before| *card += usize::from(*card >= *before));
        }
        hand
    }
}

/// The hash of a flow, from the names of its schema and its distinguisher.
#[must_use]
pub fn flow_hash(flow_schema: &str, distinguisher: &str) -> u64 {
    let mut hasher = Sha256::new();
    hasher.update(flow_schema);
    hasher.update([0]);
    hasher.update(distinguisher);
    let digest = hasher.finalize();
    digest.iter().take(8).rev().fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn sizes_are_checked_as_upstream_checks_them() {
        let check = |deck, hand, expect: &str| assert_eq!(Dealer::new(deck, hand).err().unwrap_or_default(), expect);
        check(64, 6, "");
        check(1, 1, "");
        check(0, 1, "deckSize 0 or handSize 1 is not positive");
        check(5, 6, "handSize 6 is greater than deckSize 5");
        check(MAX_DECK + 1, 1, "deckSize 67108865 is impractically large");
        check(1024, 7, "required entropy bits of deckSize 1024 and handSize 7 is greater than 60");
    }

    #[test]
    fn hashes_and_hands_are_those_of_upstream() {
        let check = |schema: &str, user: &str, hash: u64, hands: [&[usize]; 3]| {
            assert_eq!(flow_hash(schema, user), hash);
            for ((deck, size), hand) in [(128, 6), (16, 4), (7, 7)].into_iter().zip(hands) {
                let dealer = Dealer::new(deck, size).expect("valid sizes");
                assert_eq!(&dealer.deal(hash)[..size], hand);
            }
        };
        let hands: [&[usize]; 3] = [&[55, 62, 126, 125, 105, 1], &[7, 14, 0, 3], &[5, 0, 1, 3, 4, 6, 2]];
        check("global-default", "alice", 17_644_606_172_554_983_095, hands);
        let hands: [&[usize]; 3] = [&[40, 98, 19, 93, 75, 70], &[8, 3, 4, 15], &[6, 2, 4, 5, 0, 1, 3]];
        check("s", "", 708_724_544_354_296_616, hands);
    }

    #[test]
    fn all_hands_are_dealt_equally_often() {
        let dealer = Dealer::new(7, 3).expect("valid sizes");
        let mut counts: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        for hash in 0..7 * 6 * 5 * 4 {
            let mut hand = dealer.deal(hash)[..3].to_vec();
            hand.sort_unstable();
            assert!(hand.windows(2).all(|pair| pair[0] < pair[1]) && hand[2] < 7, "{hand:?}");
            *counts.entry(hand).or_default() += 1;
        }
        assert_eq!(counts.len(), 35);
        assert!(counts.values().all(|count| *count == 24));
    }
}
