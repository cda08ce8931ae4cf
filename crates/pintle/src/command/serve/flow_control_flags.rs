//! The flags that limit the requests in flight, with kube-apiserver's names.

use clap::ArgAction;
use pintle_server::RequestLimits;

/// The flags that limit the requests in flight.
#[derive(clap::Args)]
pub(crate) struct FlowControlFlags {
    /// Maximum number of requests in flight that only read, such as gets and lists. With priority and fairness, only the
    /// sum of this and the next flag counts. Without it, further requests are rejected; 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 400)]
    max_requests_inflight: usize,
    /// Maximum number of requests in flight that write. See --max-requests-inflight.
    #[arg(long, value_name = "N", default_value_t = 200)]
    max_mutating_requests_inflight: usize,
    /// Whether requests wait in the queues of priority levels, which share the requests in flight. FlowSchemas assign
    /// requests to levels.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = true, action = ArgAction::Set)]
    enable_priority_and_fairness: bool,
    /// Whether the real use of seats and processors limits a flow. Work beyond the estimate of a request delays later
    /// requests of its flow. Bodies take seats by their size, and no flow gets the last free seats. Otherwise, requests
    /// are scheduled as kube-apiserver does it.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = true, action = ArgAction::Set)]
    flow_control_actual_cost: bool,
}

impl FlowControlFlags {
    /// Sets the limits of the flags.
    ///
    /// # Errors
    /// Priority levels would have nothing to share.
    pub(crate) fn set(&self, limits: RequestLimits) -> Result<RequestLimits, String> {
        let (reading, mutating) = (self.max_requests_inflight, self.max_mutating_requests_inflight);
        if self.enable_priority_and_fairness && reading.saturating_add(mutating) == 0 {
            return Err(format!(
                "invalid configuration: MaxRequestsInFlight={reading} and MaxMutatingRequestsInFlight={mutating}; they \
                 must add up to something positive"
            ));
        }
        Ok(RequestLimits {
            max_requests_in_flight: reading,
            max_mutating_requests_in_flight: mutating,
            priority_and_fairness: self.enable_priority_and_fairness,
            charges_actual_cost: self.flow_control_actual_cost,
            ..limits
        })
    }
}
