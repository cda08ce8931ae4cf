//! The record of the allocated node ports in the form of upstream: a bitmap of the ports of a range (upstream:
//! `RangeAllocation`, `allocator.AllocationBitmap`).

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use pintle_schema::base64;
use pintle_value::{Value, object};

fn text(range: &RangeInclusive<u16>) -> String {
    format!("{}-{}", range.start(), range.end())
}

/// The record of these ports of a range.
pub(super) fn encode(ports: &BTreeSet<u16>, range: &RangeInclusive<u16>) -> Value {
    // The bytes of a big number, the highest first and not zero.
    let highest = ports.last().map_or(0, |port| usize::from(port - range.start()) / 8 + 1);
    let mut bytes = vec![0_u8; highest];
    for port in ports {
        let bit = usize::from(port - range.start());
        if let Some(byte) = bytes.get_mut(highest - 1 - bit / 8) {
            *byte |= 1 << (bit % 8);
        }
    }
    object! {
        "kind": "RangeAllocation",
        "apiVersion": "v1",
        "metadata": object! {},
        "range": text(range),
        "data": base64::encode(&bytes),
    }
}

/// The ports of a record; `None` if the record is for another range, or broken.
pub(super) fn decode(record: &Value, range: &RangeInclusive<u16>) -> Option<BTreeSet<u16>> {
    if record.str_at(&["range"]) != text(range) {
        return None;
    }
    let bytes = base64::decode(record.str_at(&["data"]).as_bytes()).ok()?;
    let bits = bytes
        .iter()
        .rev()
        .enumerate()
        .flat_map(|(index, byte)| (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| index * 8 + bit));
    let port = |bit: usize| u16::try_from(usize::from(*range.start()) + bit).ok().filter(|port| range.contains(port));
    Some(bits.filter_map(port).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_bits_of_a_big_number() {
        let range = 30000..=32767;
        for (ports, data) in [
            (&[][..], ""),
            (&[30000], "AQ=="),
            (&[30000, 30001, 30007], "gw=="),
            (&[30008], "AQA="),
            (&[30000, 30017], "AgAB"),
        ] {
            let ports: BTreeSet<u16> = ports.iter().copied().collect();
            let record = encode(&ports, &range);
            assert_eq!((record.str_at(&["range"]), record.str_at(&["data"])), ("30000-32767", data));
            assert_eq!(decode(&record, &range), Some(ports));
        }
        let all: BTreeSet<u16> = range.clone().collect();
        assert_eq!(decode(&encode(&all, &range), &range), Some(all));
        assert_eq!(decode(&encode(&BTreeSet::new(), &range), &(30000..=30001)), None);
        let mut broken = encode(&BTreeSet::new(), &range);
        broken.set("data", "=");
        assert_eq!(decode(&broken, &range), None);
    }
}
