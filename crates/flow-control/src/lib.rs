//! API Priority and Fairness (upstream: `apiserver/pkg/util/flowcontrol`): a noisy client does not slow the others. The
//! [`FlowController`] finds the flow schema of a request and lets the request wait until its priority level has seats for
//! it. This crate knows no HTTP and no storage.
//!
//! - `flow_schema`, `priority_level`: the objects, as far as they decide about requests.
//! - `matching`: the flow schema of a request.
//! - `work_estimate`, `watch_tracker`: the seats of a request.
//! - `queue_set`, `shuffle_sharding`, `seat_seconds`, `moment`: fair queuing at a level, as a state machine without clock.
//! - `demand`, `borrowing`, `allocation`: the limits of the levels.
//! - `level`, `controller`, `admission`: levels, configuration and requests of a server.
//! - `retry_after`, `metrics`, `gauge`, `dump`: answers to rejected clients and to operators.
//!
//! ```
//! use std::time::Duration;
//!
//! use pintle_flow_control::{FlowControlOptions, FlowController, RequestAttributes, WorkEstimate};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() {
//!     let options = FlowControlOptions { server_concurrency_limit: 600, charges_actual_cost: true };
//!     let controller = FlowController::new(options);
//!     let groups = ["system:masters".into()];
//!     let request = RequestAttributes { user: "admin", groups: &groups, verb: "get", ..RequestAttributes::default() };
//!     let class = controller.classify(&request);
//!     assert_eq!((class.flow_schema(), class.is_exempt()), ("exempt", true));
//!     let execution = controller.admit(&class, WorkEstimate::default(), Duration::from_secs(15)).await;
//!     assert!(execution.is_ok());
//!     assert!(controller.dump_requests(false).contains("exempt,"));
//! }
//! ```

mod admission;
mod allocation;
mod borrowing;
mod controller;
mod demand;
mod dump;
mod flow_schema;
mod gauge;
mod level;
mod matching;
mod metrics;
mod moment;
mod priority_level;
mod queue_set;
mod retry_after;
mod seat_seconds;
mod shuffle_sharding;
#[cfg(test)]
mod testing;
mod watch_tracker;
mod work_estimate;

pub use admission::{AdmitError, Class, Execution, Rejection, RequestedFlow, wait_limit};
pub use allocation::{Allocation, AllocationItem, allocate};
pub use borrowing::{BorrowedSeats, LevelDemand, borrow_seats};
pub use controller::{FlowControlOptions, FlowController};
pub use demand::{DemandOfPeriod, SeatDemand};
pub use flow_schema::DanglingCondition;
pub use gauge::RatioGauge;
pub use matching::{RequestAttributes, RequestDetails};
pub use metrics::SchemaSeries;
pub use moment::Moment;
pub use queue_set::{
    Arrival, Details, FlowUse, LimitResponse, MAX_FLOWS, Phase, QueueDump, QueueSet, QueueSetDump, RejectReason,
    RequestDump, RequestId,
};
pub use seat_seconds::SeatSeconds;
pub use shuffle_sharding::{Dealer, flow_hash};
pub use watch_tracker::{TrackedWatch, WatchTarget, WatchTracker};
pub use work_estimate::{
    ListOptions, MAXIMUM_LIST_SEATS, MAXIMUM_MUTATING_SEATS, MINIMUM_SEATS, ObjectStats, WorkEstimate, list_estimate,
    mutating_estimate, watch_estimate,
};
