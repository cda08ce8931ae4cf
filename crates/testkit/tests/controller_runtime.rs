//! An operator on controller-runtime as a client: `tools/controller-runtime` takes sites through their lives, with a
//! finalizer of its own, what they own, and every way to delete them.

use pintle_testkit::{Options, run_client_program};

#[test]
fn an_operator_keeps_its_sites() {
    run_client_program("controller-runtime", Options::default(), &[]);
}
