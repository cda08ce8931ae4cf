use pintle_flow_control::{AllocationItem, allocate};

use crate::{is_near, items, rows, text};

#[test]
fn seats_are_divided_as_upstream_divides_them() {
    let mut solved = 0;
    for row in rows("allocations.jsonl") {
        // The sum of seats has no sign here.
        let Some(sum) = row["Sum"].as_u64() else { continue };
        let problem: Vec<_> = items(&row, "Items")
            .iter()
            .map(|item| AllocationItem {
                target: item["Target"].as_f64().expect("a number"),
                lower_bound: item["Lower"].as_f64().expect("a number"),
                upper_bound: item["Upper"].as_f64().expect("a number"),
            })
            .collect();
        match allocate(sum as usize, &problem) {
            Ok(found) => {
                let seats: Vec<_> = items(&row, "Allocations").iter().filter_map(serde_json::Value::as_f64).collect();
                let is_equal = found.seats.len() == seats.len()
                    && found.seats.iter().zip(&seats).all(|(one, other)| is_near(*one, *other));
                let fraction = row["FairProp"].as_f64().expect("a number");
                assert!(is_equal && is_near(found.fair_fraction, fraction), "{found:?} {row}");
                solved += 1;
            }
            Err(error) => assert_eq!(error, text(&row, "Error"), "{row}"),
        }
    }
    assert!(solved > 100, "{solved}");
}
