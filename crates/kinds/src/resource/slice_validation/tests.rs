use super::*;
use crate::testing::{context_of, messages, object};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
     must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const POOL: &str = r#""driver":"d.example.com","pool":{"name":"p","generation":1,"resourceSliceCount":1}"#;
const ONE_NODE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
const ONE_NODE_OF_DEVICE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
     `perDeviceNodeSelection` is set to true in the ResourceSlice spec";

#[track_caller]
fn check(spec: &str, old: Option<&str>, expect: &[&str]) {
    assert_eq!(messages(&validate_slice_spec(&Gates::default(), &object(spec), old.map(object).as_ref())), expect);
}

/// Compares the errors of a slice for all nodes with these fields.
#[track_caller]
fn check_fields(fields: &str, expect: &[&str]) {
    check(&format!(r#"{{{POOL},"allNodes":true{fields}}}"#), None, expect);
}

/// Compares the errors of a device with these fields.
#[track_caller]
fn check_device(fields: &str, expect: &[&str]) {
    check_fields(&format!(r#","devices":[{{"name":"a"{fields}}}]"#), expect);
}

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    format!("[{}]", (0..count).map(item).collect::<Vec<_>>().join(","))
}

fn map(count: usize, entry: impl Fn(usize) -> String) -> String {
    format!("{{{}}}", (0..count).map(entry).collect::<Vec<_>>().join(","))
}

#[test]
fn pools_and_drivers() {
    check_fields("", &[]);
    check(
        r#"{"driver":"D_","pool":{"generation":-1,"resourceSliceCount":0},"allNodes":true}"#,
        None,
        &[
            &format!("spec.driver: Invalid value: \"D_\": {SUBDOMAIN}"),
            "spec.pool.name: Required value",
            "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
            "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
        ],
    );
    check(
        r#"{"driver":"e.example.com","pool":{"name":"q","generation":2,"resourceSliceCount":3},"nodeName":"m"}"#,
        Some(&format!(r#"{{{POOL},"nodeName":"n"}}"#)),
        &[
            "spec.pool.name: Invalid value: \"q\": field is immutable",
            "spec.driver: Invalid value: \"e.example.com\": field is immutable",
            "spec.nodeName: Invalid value: \"m\": field is immutable",
        ],
    );
    check(
        &format!(r#"{{{POOL},"allNodes":true}}"#),
        Some(&format!(r#"{{{POOL},"nodeName":"n"}}"#)),
        &["spec.nodeName: Invalid value: null: field is immutable"],
    );
}

#[test]
fn nodes() {
    let of = |fields: &str| format!(r#"{{{POOL}{fields}}}"#);
    let term = r#"{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}"#;
    check(&of(r#","nodeName":"n""#), None, &[]);
    check(&of(&format!(r#","nodeSelector":{{"nodeSelectorTerms":[{term}]}}"#)), None, &[]);
    check(&of(r#","perDeviceNodeSelection":true"#), None, &[]);
    check(&of(""), None, &[&format!("spec: Required value: {ONE_NODE}")]);
    check(
        &of(r#","nodeName":"","allNodes":false,"perDeviceNodeSelection":false"#),
        None,
        &[
            "spec.nodeName: Invalid value: \"\": must be either unset or set to a non-empty string",
            "spec.allNodes: Invalid value: false: must be either unset or set to true",
            "spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true",
            &format!("spec: Required value: {ONE_NODE}"),
        ],
    );
    check(
        &of(&format!(
            r#","nodeName":"N","nodeSelector":{{"nodeSelectorTerms":[{term},{{}}]}},"allNodes":true,"perDeviceNodeSelection":true"#
        )),
        None,
        &[
            &format!("spec.nodeName: Invalid value: \"N\": {SUBDOMAIN}"),
            "spec.nodeSelector.nodeSelectorTerms: Invalid value: [{\"MatchExpressions\":[{\"Key\":\"a\",\"Operator\":\"In\",\
             \"Values\":[\"b\"]}],\"MatchFields\":null},{\"MatchExpressions\":null,\"MatchFields\":null}]: must have exactly one \
             node selector term",
            &format!(
                "spec: Invalid value: \"{{`nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`}}\": {ONE_NODE}, but \
                 multiple fields are set"
            ),
        ],
    );
    check(
        &of(r#","nodeSelector":{}"#),
        None,
        &[
            "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
            "spec.nodeSelector.nodeSelectorTerms: Invalid value: null: must have exactly one node selector term",
        ],
    );
}

#[test]
fn nodes_of_devices() {
    let of = |device: &str| format!(r#"{{{POOL},"perDeviceNodeSelection":true,"devices":[{{"name":"a"{device}}}]}}"#);
    check(&of(r#","nodeName":"n""#), None, &[]);
    check(&of(r#","allNodes":true"#), None, &[]);
    check(&of(""), None, &[&format!("spec.devices[0]: Required value: {ONE_NODE_OF_DEVICE}")]);
    check(
        &of(r#","nodeName":"","nodeSelector":{},"allNodes":false"#),
        None,
        &[
            "spec.devices[0].nodeName: Invalid value: \"\": must not be empty",
            "spec.devices[0].nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
            "spec.devices[0].allNodes: Invalid value: false: must be either unset or set to true",
        ],
    );
    check(
        &of(r#","nodeName":"n","allNodes":true"#),
        None,
        &[&format!("spec.devices[0]: Invalid value: \"{{`nodeName`, `allNodes`}}\": {ONE_NODE_OF_DEVICE}")],
    );
    check_device(
        r#","nodeName":"n""#,
        &["spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if \
           `perDeviceNodeSelection` is set to true in the ResourceSlice spec"],
    );
}

#[test]
fn devices_are_limited() {
    let devices = |n: usize, fields: &str| list(n, |i| format!(r#"{{"name":"d{i}"{fields}}}"#));
    let of = |n: usize, fields: &str| format!(r#","devices":{}"#, devices(n, fields));
    check_fields(&of(128, ""), &[]);
    check_fields(&of(129, ""), &["spec.devices: Too many: 129: must have at most 128 items"]);
    for fields in [
        r#","taints":[{"key":"k","effect":"None"}]"#,
        r#","consumesCounters":[{"counterSet":"s","counters":{"c":{"value":"1"}}}]"#,
        r#","attributes":{"a":{"ints":[1]}}"#,
    ] {
        check_fields(&of(64, fields), &[]);
        check_fields(&of(65, fields), &["spec.devices: Too many: 65: must have at most 64 items"]);
    }
    check_fields(
        r#","devices":[{"name":"a"},{"name":"A"},{"name":"a"}]"#,
        &[&format!("spec.devices[1].name: Invalid value: \"A\": {LABEL}"), "spec.devices[2]: Duplicate value: \"a\""],
    );
}

#[test]
fn attributes() {
    check_device(
        r#","attributes":{"a":{"int":1},"d.example.com/b":{"bool":false},"c":{"string":""},"d":{"version":"1.0.0"},
            "e":{"strings":["x","y"]}}"#,
        &[],
    );
    let long = "x".repeat(65);
    check_device(
        &format!(
            r#","attributes":{{"a b":{{"int":1}},"b":{{}},"c":{{"int":1,"string":"{long}"}},"d":{{"version":"1"}},
                "e":{{"strings":["{long}"]}},"f":{{"versions":["x"]}},"g":{{"ints":[]}},"a/b/c":{{"bool":true}}}}"#
        ),
        &[
            "spec.devices[0].attributes: Invalid value: \"a b\": a valid C identifier must start with alphabetic character or \
             '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex \
             used for validation is '[A-Za-z_][A-Za-z0-9_]*')",
            "spec.devices[0].attributes[b]: Invalid value: \"\": exactly one value must be specified",
            "spec.devices[0].attributes[c].string: Too long: may not be more than 64 bytes",
            &format!(
                "spec.devices[0].attributes[c]: Invalid value: {{\"IntValue\":1,\"BoolValue\":null,\"StringValue\":\"{long}\",\
                 \"VersionValue\":null,\"IntValues\":null,\"BoolValues\":null,\"StringValues\":null,\"VersionValues\":null}}: \
                 exactly one value must be specified"
            ),
            "spec.devices[0].attributes[d].version: Invalid value: \"1\": must be a string compatible with semver.org spec \
             2.0.0",
            "spec.devices[0].attributes[e].strings[0]: Too long: may not be more than 64 bytes",
            "spec.devices[0].attributes[f].versions[0]: Invalid value: \"x\": must be a string compatible with semver.org spec \
             2.0.0",
            "spec.devices[0].attributes[g].ints: Invalid value: []: must not be empty if specified",
        ],
    );
    let attributes = |n: usize| map(n, |i| format!(r#""a{i}":{{"int":1}}"#));
    check_device(&format!(r#","attributes":{},"capacity":{{"c":{{"value":"1"}}}}"#, attributes(31)), &[]);
    check_device(
        &format!(r#","attributes":{},"capacity":{{"c":{{"value":"1"}}}}"#, attributes(32)),
        &["spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32"],
    );
    let values = |n: usize| list(n, |i| i.to_string());
    check_device(&format!(r#","attributes":{{"a":{{"ints":{}}},"b":{{"int":1}}}}"#, values(47)), &[]);
    check_device(
        &format!(r#","attributes":{{"a":{{"ints":{}}},"b":{{"int":1}}}}"#, values(48)),
        &["spec.devices[0]: Invalid value: 49: the total number of attribute values must not exceed 48"],
    );
}

#[test]
fn capacities() {
    check_device(r#","capacity":{"m":{"value":"1"}}"#, &[]);
    let policy = r#"{"m":{"value":"1","requestPolicy":{}}}"#;
    check_device(
        &format!(r#","capacity":{policy}"#),
        &["spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true"],
    );
    check_device(&format!(r#","capacity":{policy},"allowMultipleAllocations":true"#), &[]);
}

#[test]
fn taints() {
    let valid = |n: usize| list(n, |i| format!(r#"{{"key":"k{i}","value":"v","effect":"NoExecute"}}"#));
    check_device(&format!(r#","taints":{}"#, valid(16)), &[]);
    check_device(
        &format!(r#","taints":{}"#, valid(17)),
        &["spec.devices[0].taints: Too many: 17: must have at most 16 items"],
    );
    let invalid = r#"[{"key":"a b","value":"-"},{"key":"k","effect":"Never"}]"#;
    let device = |name: &str, taints: &str| {
        format!(r#"{{{POOL},"allNodes":true,"devices":[{{"name":"{name}","taints":{taints}}}]}}"#)
    };
    let errors = [
        &*format!("spec.devices[0].taints[0].key: Invalid value: \"a b\": {LABEL_NAME}"),
        "spec.devices[0].taints[0].value: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric \
         characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  \
         or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        "spec.devices[0].taints[0].effect: Required value",
        "spec.devices[0].taints[1].effect: Unsupported value: \"Never\": supported values: \"NoExecute\", \"NoSchedule\", \
         \"None\"",
    ];
    check(&device("a", invalid), None, &errors);
    check(&device("a", invalid), Some(&device("b", invalid)), &errors);
    check(&device("a", invalid), Some(&device("a", &valid(1))), &errors);
    check(&device("a", invalid), Some(&device("a", invalid)), &[]);
}

#[test]
fn counters() {
    let counters = |n: usize| map(n, |i| format!(r#""c{i}":{{"value":"1"}}"#));
    let sets = |n: usize, name: &str| list(n, |i| format!(r#"{{"{name}":"s{i}","counters":{}}}"#, counters(32)));
    check_fields(&format!(r#","sharedCounters":{}"#, sets(8, "name")), &[]);
    check_device(&format!(r#","consumesCounters":{}"#, sets(2, "counterSet")), &[]);
    check_fields(
        &format!(r#","sharedCounters":{}"#, sets(9, "name")),
        &["spec.sharedCounters: Too many: 9: must have at most 8 items"],
    );
    check_device(
        &format!(r#","consumesCounters":{}"#, sets(3, "counterSet")),
        &["spec.devices[0].consumesCounters: Too many: 3: must have at most 2 items"],
    );
    let invalid = |name: &str| {
        format!(r#"[{{"{name}":"A","counters":{{"C":{{"value":"1"}}}}}},{{"{name}":"A","counters":{}}}]"#, counters(33))
    };
    let errors = |list: &str, name: &str| {
        vec![
            format!("{list}[0].{name}: Invalid value: \"A\": {LABEL}"),
            format!("{list}[0].counters: Invalid value: \"C\": {LABEL}"),
            format!("{list}[1].{name}: Invalid value: \"A\": {LABEL}"),
            format!("{list}[1].counters: Too many: 33: must have at most 32 items"),
            format!("{list}[1]: Duplicate value: \"A\""),
        ]
    };
    let expect = errors("spec.sharedCounters", "name");
    check_fields(
        &format!(r#","sharedCounters":{}"#, invalid("name")),
        &expect.iter().map(|e| &**e).collect::<Vec<_>>(),
    );
    let expect = errors("spec.devices[0].consumesCounters", "counterSet");
    check_device(
        &format!(r#","consumesCounters":{}"#, invalid("counterSet")),
        &expect.iter().map(|e| &**e).collect::<Vec<_>>(),
    );
    check_fields(
        r#","sharedCounters":[{}],"devices":[{"name":"a","consumesCounters":[{}]}]"#,
        &[
            "spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed",
            "spec.devices[0].consumesCounters[0].counterSet: Required value",
            "spec.devices[0].consumesCounters[0].counters: Required value",
            "spec.sharedCounters[0].name: Required value",
            "spec.sharedCounters[0].counters: Required value",
        ],
    );
}

#[test]
fn binding_conditions() {
    check_device(r#","bindingConditions":["a","b"],"bindingFailureConditions":["c"]"#, &[]);
    let path = "spec.devices[0]";
    check_device(
        r#","bindingConditions":["a","a","b c"],"bindingFailureConditions":["a","d","d"]"#,
        &[
            &format!("{path}.bindingConditions[2]: Invalid value: \"b c\": {LABEL_NAME}"),
            &format!("{path}.bindingConditions[1]: Duplicate value: \"a\""),
            &format!(
                "{path}.bindingFailureConditions[0]: Invalid value: \"a\": bindingFailureConditions must not overlap with \
                 bindingConditions"
            ),
            &format!("{path}.bindingFailureConditions[2]: Duplicate value: \"d\""),
        ],
    );
    check_device(
        r#","bindingFailureConditions":["a"]"#,
        &[&format!(
            "{path}.bindingConditions: Invalid value: null: bindingConditions are required to use bindingFailureConditions"
        )],
    );
    check_device(
        r#","bindingConditions":["a"]"#,
        &[&format!(
            "{path}.bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use \
             bindingConditions"
        )],
    );
    check_device(
        r#","bindingConditions":["a","b","c","d","e"],"bindingFailureConditions":["f","g","h","i","j"]"#,
        &[
            &format!("{path}.bindingConditions: Too many: 5: must have at most 4 items"),
            &format!("{path}.bindingFailureConditions: Too many: 5: must have at most 4 items"),
        ],
    );
}

#[test]
fn mappings_to_resources_of_nodes() {
    check_device(
        r#","capacity":{"m":{"value":"1"}},"nodeAllocatableResourceMappings":{"cpu":{"allocationMultiplier":"2"},
            "memory":{"capacityKey":"m"}}"#,
        &[],
    );
    let path = "spec.devices[0].nodeAllocatableResourceMappings";
    check_device(
        r#","nodeAllocatableResourceMappings":{"a":{},"b":{"allocationMultiplier":"0","capacityKey":""},
            "c":{"allocationMultiplier":"-1","capacityKey":"m"},"example.com/x":{"allocationMultiplier":"1"}}"#,
        &[
            &format!("{path}[a]: Invalid value: \"\": at least one of allocationMultiplier or capacityKey must be set"),
            &format!("{path}[b].allocationMultiplier: Invalid value: \"0\": must be positive"),
            &format!("{path}[b].capacityKey: Invalid value: \"\": capacityKey must not be an empty string"),
            &format!("{path}[c].allocationMultiplier: Invalid value: \"-1\": must be positive"),
            &format!("{path}[c].capacityKey: Not found: \"m\""),
            &format!(
                "{path}[example.com/x]: Invalid value: \"example.com/x\": must be a node allocatable resource name"
            ),
        ],
    );
}

#[test]
fn capacity_is_validated_when_it_changes() {
    let slice = |generation: u8, key: &str| {
        object(&format!(
            r#"{{"driver":"d.example.com","pool":{{"name":"p","generation":{generation},"resourceSliceCount":1}},"allNodes":true,
                "devices":[{{"name":"a","capacity":{{"{key}":{{"value":"1"}}}}}}]}}"#
        ))
    };
    let count = |minor: u8, key: &str| {
        validate_slice_spec(&context_of(minor, &[]).gates, &slice(2, key), Some(&slice(1, "1"))).count()
    };
    let all = count(36, "1");
    assert!(all > 0);
    assert_eq!(count(37, "1"), 0);
    assert_eq!(count(37, "2"), all);
}
