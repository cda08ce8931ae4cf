//! An operator based on controller-runtime as a client: `tools/controller-runtime` creates, changes and deletes sites
//! with a finalizer, owned objects and every deletion propagation policy. It also serves admission webhooks. It has a
//! service account, and only the roles that it needs.

use pintle_integration::{bootstrapped, run_client_program};

#[test]
fn an_operator_reconciles_its_custom_resources() {
    run_client_program("controller-runtime", bootstrapped(), &[]);
}
