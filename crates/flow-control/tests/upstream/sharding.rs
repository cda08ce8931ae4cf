use pintle_flow_control::{Dealer, flow_hash};
use serde_json::Value;

use crate::{items, rows, text};

#[test]
fn hands_are_dealt_as_upstream_deals_them() {
    for row in rows("shuffle_sharding.jsonl") {
        // Sizes have no sign here.
        let (Some(deck), Some(hand)) = (row["Deck"].as_u64(), row["Hand"].as_u64()) else { continue };
        match Dealer::new(deck as usize, hand as usize) {
            Ok(dealer) => {
                assert_eq!(text(&row, "Error"), "", "{deck} {hand}");
                for dealt in items(&row, "Dealt") {
                    let hash = text(dealt, "Hash").parse().expect("a hash");
                    let cards: Vec<_> = items(dealt, "Cards").iter().filter_map(Value::as_u64).collect();
                    let found: Vec<_> =
                        dealer.deal(hash)[..dealer.hand_size()].iter().map(|card| *card as u64).collect();
                    assert_eq!(found, cards, "{deck} {hand} {hash}");
                }
            }
            Err(error) => assert_eq!(error, text(&row, "Error"), "{deck} {hand}"),
        }
    }
}

#[test]
fn flows_have_the_hashes_of_upstream() {
    for row in rows("flow_hashes.jsonl") {
        let hash = flow_hash(text(&row, "Schema"), text(&row, "Distinguisher"));
        assert_eq!(hash.to_string(), text(&row, "Hash"), "{row}");
    }
}
