//! JSON of built-in kinds: upstream's fixtures round-trip, and bad objects give the errors of Go's decoder.

mod support;

use pintle_codec::json;
use pintle_schema::{Problems, normalise, normalise_changed, static_defaults};
use pintle_value::Value;

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn fixtures_are_normalised_and_encoded_in_gos_field_order() {
    for (types, fixture) in support::fixtures_of_all_versions() {
        let bytes = fixture.bytes("json");
        let read = json::decode_typed(&bytes, types, fixture.type_id).unwrap();
        let name = format!("{}/{} {}", fixture.group, fixture.version, fixture.kind);
        assert_eq!(read.strict_errors, Vec::<String>::new(), "{name}");
        assert_eq!(text(json::encode_typed_pretty(&read.value, types, fixture.type_id)), text(bytes), "{name}");
        let mut again = read.value.clone();
        let mut problems = Problems::default();
        normalise(types, fixture.type_id, &mut again, &mut problems);
        assert_eq!((again, problems), (read.value, Problems::default()), "{name}");
    }
}

/// Removes one member or item of a tree, the n-th in depth-first order. Returns false if there are fewer.
fn remove_nth(value: &mut Value, n: &mut usize) -> bool {
    match value {
        Value::Object(object) => {
            let keys: Vec<String> = object.keys().map(str::to_owned).collect();
            for key in keys {
                if *n == 0 {
                    object.remove(&key);
                    return true;
                }
                *n -= 1;
                // Only the objects around the removed member are changed.
                let size = object.get(&key).map_or(0, size);
                if *n < size {
                    return object.get_mut(&key).is_some_and(|member| remove_nth(member, n));
                }
                *n -= size;
            }
            false
        }
        Value::Array(items) => {
            for i in 0..items.len() {
                if *n == 0 {
                    items.remove(i);
                    return true;
                }
                *n -= 1;
                let size = size(&items[i]);
                if *n < size {
                    return remove_nth(&mut items[i], n);
                }
                *n -= size;
            }
            false
        }
        _ => false,
    }
}

/// The number of members and items of a tree.
fn size(value: &Value) -> usize {
    match value {
        Value::Object(object) => object.values().map(|value| 1 + size(value)).sum(),
        Value::Array(items) => items.iter().map(|value| 1 + size(value)).sum(),
        _ => 0,
    }
}

#[test]
fn changed_copies_of_stored_objects_are_normalised_and_encoded_like_others() {
    const EVERY: usize = 23;
    let catalog = pintle_catalog::complete();
    let types = catalog.types();
    let (mut changes, mut shared, mut kept) = (0, 0, 0);
    for fixture in support::fixtures() {
        let name = format!("{}/{} {}", fixture.group, fixture.version, fixture.kind);
        let read = json::decode_typed(&fixture.bytes("json"), types, fixture.type_id).expect("a fixture");
        let mut stored = Vec::new();
        json::encode_typed(&read.value, types, fixture.type_id, &mut stored);
        let decode = |options| json::decode(&stored, options).expect("JSON").value;
        let in_text = json::DecodeOptions { kept_as_text: &["spec", "status"], ..json::DecodeOptions::STORED };
        let is_text = |value: &Value| value.as_object().is_some_and(|object| object.encoded().is_some());
        kept += decode(in_text).entries_at(&["spec"]).filter(|(_, value)| is_text(value)).count();
        let both = [decode(json::DecodeOptions::STORED), decode(in_text)];
        for (original, n) in
            both.iter().flat_map(|original| (0..size(original)).step_by(EVERY).map(move |n| (original, n)))
        {
            assert_eq!(*original, decode(json::DecodeOptions::default()), "{name}");
            let finish = |mut value: Value, original: Option<&Value>| {
                assert!(remove_nth(&mut value, &mut n.clone()), "{name} {n}");
                let mut problems = Problems::default();
                normalise_changed(types, fixture.type_id, &mut value, original, &mut problems);
                let mut out = Vec::new();
                match original {
                    Some(value_before) => {
                        let original = json::OriginalObject { value: value_before, text: &stored };
                        json::encode_typed_changed(&value, original, types, fixture.type_id, &mut out);
                    }
                    None => json::encode_typed(&value, types, fixture.type_id, &mut out),
                }
                (text(out), problems, value)
            };
            let changed = finish(original.clone(), Some(original));
            let expect = finish(decode(json::DecodeOptions::default()), None);
            assert_eq!(changed, expect, "{name} {n}");
            let is_shared =
                |(key, value): (&str, &Value)| original.get(key).is_some_and(|own| value.shares_members(own));
            shared += changed.2.entries_at(&[]).filter(|entry| is_shared(*entry)).count();
            changes += 1;
        }
    }
    assert!(changes > 1000 && shared > changes, "{changes} changes, {shared} members shared");
    assert!(kept > 50, "{kept} members of specs kept as text");
}

/// Decodes a body into a kind and encodes it again, as a Go server without defaulting would.
fn round_trip(kind: &str, body: &str) -> String {
    let (group, version, kind) = match kind.split('/').collect::<Vec<_>>()[..] {
        [group, version, kind] => (group, version, kind),
        _ => ("", "v1", kind),
    };
    let catalog = pintle_catalog::complete();
    let type_id = catalog.kind_type(group, version, kind).expect("a kind");
    match json::decode_typed(body.as_bytes(), catalog.types(), type_id) {
        Err(e) => format!("error: {e}"),
        Ok(read) => {
            let mut out = Vec::new();
            json::encode_typed(&read.value, catalog.types(), type_id, &mut out);
            let mut text = text(out);
            for problem in &read.strict_errors {
                text.push_str("; ");
                text.push_str(problem);
            }
            text
        }
    }
}

#[track_caller]
fn check(kind: &str, body: &str, expect: &str) {
    assert_eq!(round_trip(kind, body), expect, "{kind} {body}");
}

#[test]
fn null_fields_are_dropped_and_value_structs_are_added() {
    check("ConfigMap", "{}", r#"{"metadata":{}}"#);
    check("ConfigMap", r#"{"data":null,"metadata":null,"kind":"ConfigMap"}"#, r#"{"kind":"ConfigMap","metadata":{}}"#);
    check("ConfigMap", r#"{"data":{},"immutable":null}"#, r#"{"metadata":{}}"#);
    check("ConfigMap", r#"{"data":{"a":null,"b":"c"}}"#, r#"{"metadata":{},"data":{"a":"","b":"c"}}"#);
    check("Pod", "{}", r#"{"metadata":{},"spec":{"containers":null},"status":{}}"#);
    check(
        "Pod",
        r#"{"spec":{"containers":[null,{"name":"a","env":[]}],"hostNetwork":false,"terminationGracePeriodSeconds":0}}"#,
        r#"{"metadata":{},"spec":{"containers":[{"name":"","resources":{}},{"name":"a","resources":{}}],"terminationGracePeriodSeconds":0},"status":{}}"#,
    );
    check(
        "Service",
        r#"{"spec":{"ports":[{"port":80}]}}"#,
        r#"{"metadata":{},"spec":{"ports":[{"port":80,"targetPort":0}]},"status":{"loadBalancer":{}}}"#,
    );
    check("apps/v1/ControllerRevision", "{}", r#"{"metadata":{},"data":null,"revision":0}"#);
    check(
        "apps/v1/Deployment",
        "{}",
        r#"{"metadata":{},"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}"#,
    );
}

#[test]
fn leaves_are_canonicalized() {
    check(
        "Pod",
        r#"{"metadata":{"creationTimestamp":"2020-01-01T01:00:00.5+02:00","deletionTimestamp":null}}"#,
        r#"{"metadata":{"creationTimestamp":"2019-12-31T23:00:00Z"},"spec":{"containers":null},"status":{}}"#,
    );
    check(
        "Pod",
        r#"{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":1,"memory":"1024Mi","x":0.1,"y":"1.50","z":null}}}]}}"#,
        r#"{"metadata":{},"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1","memory":"1Gi","x":"100m","y":"1500m","z":"0"}}}]},"status":{}}"#,
    );
    check(
        "Secret",
        r#"{"data":{"a":"aGk=","b":"","c":null,"d":[104,105]}}"#,
        r#"{"metadata":{},"data":{"a":"aGk=","b":"","c":null,"d":"aGk="}}"#,
    );
    check(
        "coordination.k8s.io/v1/Lease",
        r#"{"spec":{"renewTime":"2020-01-01T00:00:00.123456Z"}}"#,
        r#"{"metadata":{},"spec":{"renewTime":"2020-01-01T00:00:00.123456Z"}}"#,
    );
}

#[test]
fn unknown_and_duplicate_fields_are_listed_in_text_order() {
    check(
        "ConfigMap",
        r#"{"metadata":{"nope":1},"data":{"a":"b","a":"c"},"bogus":{"x":1,"x":2},"Data":{}}"#,
        r#"{"metadata":{},"data":{"a":"c"}}; unknown field "metadata.nope"; duplicate field "data.a"; unknown field "bogus"; unknown field "Data""#,
    );
    check(
        "Pod",
        r#"{"spec":{"containers":[{},{"foo":1,"name":"a","name":"b"}],"containers":[]}}"#,
        r#"{"metadata":{},"spec":{"containers":[]},"status":{}}; unknown field "spec.containers[1].foo"; duplicate field "spec.containers[1].name"; duplicate field "spec.containers""#,
    );
}

#[test]
fn wrong_types_are_rejected_with_gos_messages() {
    for (kind, body, expect) in [
        (
            "ConfigMap",
            r#"{"data":{"k":1}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "ConfigMap",
            r#"{"data":"x"}"#,
            "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
        ),
        ("ConfigMap", "[]", "json: cannot unmarshal array into Go value of type v1.ConfigMap"),
        (
            "ConfigMap",
            r#"{"kind":1}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.TypeMeta.kind of type string",
        ),
        (
            "ConfigMap",
            r#"{"immutable":"x"}"#,
            "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
        ),
        ("ConfigMap", r#"{"binaryData":{"a":"?"}}"#, "illegal base64 data at input byte 0"),
        (
            "Pod",
            r#"{"spec":{"containers":{}}}"#,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "Pod",
            r#"{"spec":{"volumes":[{"hostPath":1}]}}"#,
            "json: cannot unmarshal number into Go struct field Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
        ),
        (
            "Pod",
            r#"{"spec":{"restartPolicy":true}}"#,
            "json: cannot unmarshal bool into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            "Pod",
            r#"{"metadata":{"creationTimestamp":1}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            "apps/v1/Deployment",
            r#"{"spec":{"replicas":1.50}}"#,
            "json: cannot unmarshal number 1.50 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1/Deployment",
            r#"{"spec":{"replicas":3000000000}}"#,
            "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1/Deployment",
            r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":true}}}}"#,
            "json: cannot unmarshal bool into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
        ),
        // The first error in the text is reported, but an error from a type's own `UnmarshalJSON` stops decoding and
        // takes precedence over saved errors.
        (
            "ConfigMap",
            r#"{"immutable":1,"data":1}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.immutable of type bool",
        ),
        (
            "Pod",
            r#"{"kind":1,"metadata":{"creationTimestamp":[]}}"#,
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
    ] {
        check(kind, body, &format!("error: {expect}"));
    }
}

#[test]
fn declared_defaults_are_applied() {
    let catalog = pintle_catalog::complete();
    let type_id = catalog.kind_type("", "v1", "Pod").unwrap();
    let body = r#"{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80}]}]}}"#;
    let mut read = json::decode_typed(body.as_bytes(), catalog.types(), type_id).unwrap();
    static_defaults(catalog.types(), type_id, &mut read.value);
    assert_eq!(read.value["spec"]["containers"][0]["ports"][0].str_at(&["protocol"]), "TCP");
}

/// Quantities that are written as numbers are decoded from their text, which a tree does not preserve.
#[test]
fn numeric_quantities_are_decoded_from_their_text() {
    for (number, canonical) in [
        ("1", "1"),
        ("1.5", "1500m"),
        ("-1.5", "-1500m"),
        ("1.10", "1100m"),
        ("100.0", "100"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("1e+3", "1e+3"),
        ("1e-3", "1e-3"),
        ("1.5e3", "1500"),
        ("12e2", "1200"),
        ("2.5e-1", "250e-3"),
        ("1e-10", "1e-9"),
        ("1e21", "1e21"),
        ("0e3", "0"),
        ("0.0000001", "100n"),
        ("123456789012345678901", "123456789012345678901"),
    ] {
        let limits = |quantity: &str| {
            format!(r#"{{"metadata":{{}},"spec":{{"limits":[{{"type":"Pod","max":{{"limits.cpu":{quantity}}}}}]}}}}"#)
        };
        check("LimitRange", &limits(number), &limits(&format!("\"{canonical}\"")));
    }
    check(
        "LimitRange",
        r#"{"metadata":{},"spec":{"limits":[{"type":"Pod","max":{"cpu":1e3},"min":{"cpu":1e3,"cpu":2e3},"more":1}]}}"#,
        concat!(
            r#"{"metadata":{},"spec":{"limits":[{"type":"Pod","max":{"cpu":"1e3"},"min":{"cpu":"2e3"}}]}}"#,
            r#"; duplicate field "spec.limits[0].min.cpu"; unknown field "spec.limits[0].more""#,
        ),
    );
}

#[test]
fn duplicate_fields_are_merged() {
    let twice = |fields: &str| fields.split(' ').map(|f| format!("; duplicate field \"{f}\"")).collect::<String>();
    let is =
        |kind: &str, body: &str, expect: &str, fields: &str| check(kind, body, &(expect.to_owned() + &twice(fields)));
    // Structs and maps keep the members that the second value does not set.
    is(
        "ConfigMap",
        r#"{"metadata":{"name":"a","labels":{"a":"1"}},"data":{"a":"1","b":"1"},"metadata":{"labels":{"b":"2"}},"data":{"b":"2"}}"#,
        r#"{"metadata":{"name":"a","labels":{"a":"1","b":"2"}},"data":{"a":"1","b":"2"}}"#,
        "metadata data",
    );
    // List items are decoded into the existing items. The last list determines the length.
    is(
        "Pod",
        r#"{"spec":{"containers":[{"name":"a","image":"i"},{"name":"b"}],"containers":[{"name":"c"}]}}"#,
        r#"{"metadata":{},"spec":{"containers":[{"name":"c","image":"i","resources":{}}]},"status":{}}"#,
        "spec.containers",
    );
    // Null clears pointers, maps and lists, and nothing else.
    is(
        "ConfigMap",
        r#"{"metadata":{"name":"a","name":null},"immutable":true,"immutable":null,"data":{"a":"1"},"data":null}"#,
        r#"{"metadata":{"name":"a"}}"#,
        "metadata.name immutable data",
    );
    // Types with their own `UnmarshalJSON` start from an empty value.
    is(
        "apps/v1/ControllerRevision",
        r#"{"data":{"a":1},"data":{"b":2}}"#,
        r#"{"metadata":{},"data":{"b":2},"revision":0}"#,
        "data",
    );
}
