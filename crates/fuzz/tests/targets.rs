//! Runs every fuzz target with a bounded number of deterministic inputs. A failure prints the input.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pintle_fuzz::{FuzzTarget, Inputs, TARGETS};

/// Recursion over deeply nested inputs needs more than a test's default stack.
const STACK: usize = 256 << 20;

/// The total length of the inputs for each target. The length limits the time better than the number of inputs.
const TOTAL_INPUT_BYTES: usize = 3 << 20;

/// The minimum length that an input counts. An input of writes is measured many times, and an input of a spelling is
/// only a seed.
fn min_length(target: &FuzzTarget) -> usize {
    match target.name {
        "quota_writes" => 2_048,
        "stored_spelling" => 512,
        _ => 64,
    }
}

fn run(target: &FuzzTarget) {
    let mut inputs = Inputs::new(target, 7);
    let mut remaining_bytes = TOTAL_INPUT_BYTES;
    while remaining_bytes > 0 {
        let input = inputs.next_input();
        if catch_unwind(AssertUnwindSafe(|| target.run(&input))).is_err() {
            panic!("{}: b\"{}\"", target.name, input.escape_ascii());
        }
        remaining_bytes = remaining_bytes.saturating_sub(input.len().max(min_length(target)));
    }
}

#[track_caller]
fn check_target(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a known target");
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(|| run(target)).expect("a thread");
    thread.join().unwrap_or_else(|_| panic!("fuzz target {name} failed"));
}

macro_rules! targets {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            check_target(stringify!($name));
        })*

        #[test]
        fn every_target_has_a_test() {
            let run = [$(stringify!($name)),*];
            assert_eq!(run.to_vec(), TARGETS.iter().map(|target| target.name).collect::<Vec<_>>());
        }
    };
}

targets!(
    json,
    json_typed,
    json_object,
    yaml,
    protobuf_message,
    protobuf_object,
    protobuf_envelope,
    cbor,
    cbor_typed,
    selector,
    spdy,
    json_patch,
    merge_patch,
    strategic_merge_patch,
    fields_v1,
    apply,
    cel,
    pattern,
    structural_schema,
    crd,
    request_head,
    quantity,
    time,
    name,
    json_path,
    token,
    client_certificate,
    key_set,
    key_file,
    node_object,
    authorization_config,
    policy_file,
    subject_access_review,
    token_review,
    kubeconfig,
    authentication_config,
    token_claims,
    discovery_document,
    issuer_keys,
    token_file,
    websocket_protocols,
    front_proxy_headers,
    impersonation_headers,
    admission_review,
    mutation,
    stored_object,
    stored_spelling,
    encryption_config,
    encrypted_value,
    encrypted_object,
    quota_writes
);
