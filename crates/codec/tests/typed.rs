//! Built-in kinds in JSON: upstream's fixtures come out as they went in, and what Go's decoder says of bad ones is said.

mod support;

use pintle_codec::json::{self, Options};
use pintle_schema::{Problems, normalise};
use pintle_value::Value;

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn read(bytes: &[u8]) -> Value {
    json::decode(bytes, Options::default()).unwrap().value
}

#[test]
fn fixtures_are_normal_and_come_out_in_gos_order() {
    let types = pintle_catalog::shared().types();
    for fixture in support::fixtures() {
        let bytes = fixture.bytes("json");
        let mut value = read(&bytes);
        let mut problems = Problems::default();
        normalise(types, fixture.type_id, &mut value, &mut problems);
        let name = format!("{}/{} {}", fixture.group, fixture.version, fixture.kind);
        assert_eq!(problems, Problems::default(), "{name}");
        assert_eq!(text(json::encode_typed_pretty(&value, types, fixture.type_id)), text(bytes), "{name}");
    }
}
