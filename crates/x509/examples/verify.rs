//! Measures the verification of a client's chain for each type of the authority's key, and the longest verification
//! that a client can cause.

use std::hint::black_box;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_x509::{Authorities, Certificate};
use serde_json::Value;

const RUNS: u32 = 20;

fn main() {
    let table: Value = serde_json::from_str(include_str!("../tests/chains.json")).expect("JSON");
    let certificate = |index: &Value| {
        let text = table["certificates"][index.as_u64().unwrap_or_default() as usize].as_str().unwrap_or_default();
        STANDARD.decode(text).expect("base64")
    };
    for row in table["rows"].as_array().expect("rows") {
        let name = row["name"].as_str().unwrap_or_default();
        if !name.ends_with(" of the authority") && !name.ends_with(" with the name") {
            continue;
        }
        let root = certificate(&row["roots"][0]);
        let leaf = certificate(&row["leaf"]);
        for copies in [1, 100] {
            let roots = (0..copies).filter_map(|_| Certificate::parse(&root)).collect();
            let authorities = Authorities::new(roots);
            let started = Instant::now();
            for _ in 0..RUNS {
                let _ = black_box(authorities.verify_client(&leaf, &[], Duration::from_secs(1_900_000_000)));
            }
            let each = started.elapsed() / RUNS;
            std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{name}, {copies} candidates: {each:?}\n"))
                .expect("written");
        }
    }
}
