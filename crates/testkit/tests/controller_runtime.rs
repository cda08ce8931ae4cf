//! An operator on controller-runtime as a client: `tools/controller-runtime` takes sites through their lives, with a
//! finalizer of its own, what they own, and every way to delete them.

use pintle_testkit::{Options, walks_through};

#[test]
fn an_operator_keeps_its_sites() {
    walks_through("controller-runtime", Options::default(), &[]);
}
