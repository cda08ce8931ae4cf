//! The certificates that clients present in handshakes, before the server knows anything about them.

use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_x509::{Authorities, Certificate};
use serde_json::Value;

use crate::{MemoryLimit, with_memory_limit};

const LIMIT: MemoryLimit = MemoryLimit { per_byte: 200, base: 64 << 10 };

/// The chains that Go has verified. The first authority has signed most certificates.
struct Chains {
    authorities: Authorities,
    leaves: Vec<Vec<u8>>,
    now: Duration,
}

static CHAINS: LazyLock<Chains> = LazyLock::new(|| {
    let table: Value = serde_json::from_str(include_str!("../../../x509/tests/chains.json")).expect("JSON");
    let certificates = table["certificates"]
        .as_array()
        .expect("certificates")
        .iter()
        .map(|text| STANDARD.decode(text.as_str().expect("a text")).expect("base64"));
    let certificates: Vec<_> = certificates.collect();
    let certificate = |index: &Value| certificates[index.as_u64().expect("an index") as usize].clone();
    let rows = table["rows"].as_array().expect("rows");
    let (root, time) = (&rows[0]["roots"], &rows[0]["time"]);
    let is_seed = |row: &&Value| row["roots"] == *root && row["time"] == *time && row["answer"] == "";
    let leaves = rows.iter().filter(is_seed).map(|row| certificate(&row["leaf"])).collect();
    let root = Certificate::parse(&certificate(&root[0])).expect("a certificate");
    Chains {
        authorities: Authorities::new(vec![root]),
        leaves,
        now: Duration::from_secs(time[0].as_u64().expect("seconds")),
    }
});

/// The part of a certificate in the table that the authority has signed. Its length takes one or two bytes.
fn signed(leaf: &[u8]) -> &[u8] {
    const ONE_BYTE: u8 = 0x81;
    match leaf[5] {
        ONE_BYTE => &leaf[4..7 + usize::from(leaf[6])],
        _ => &leaf[4..8 + usize::from(u16::from_be_bytes([leaf[6], leaf[7]]))],
    }
}

/// A certificate is a client's only if the authority has signed it, whatever other certificates are sent with it.
pub(super) fn client(input: &[u8]) {
    let Chains { authorities, leaves, now } = &*CHAINS;
    let parsed = with_memory_limit(input.len(), LIMIT, || Certificate::parse(input));
    let others: Vec<&[u8]> =
        leaves.iter().take(3).map(Vec::as_slice).chain(parsed.is_some().then_some(input)).collect();
    let found = authorities.verify_client(input, &others, *now);
    assert!(parsed.is_some() || found.is_err());
    if found.is_ok() {
        let is_of = |leaf: &Vec<u8>| input.windows(signed(leaf).len()).any(|part| part == signed(leaf));
        assert!(leaves.iter().any(is_of), "nobody has signed this");
    }
}

pub(super) fn client_seeds() -> Vec<Vec<u8>> {
    CHAINS.leaves.clone()
}
