use std::time::Duration;

use pintle_flow_control::{AdmitError, FlowControlOptions, FlowController, RequestAttributes, WorkEstimate};

use crate::rows;

#[tokio::test(start_paused = true)]
async fn retry_after_follows_the_rejected_requests_as_in_upstream() {
    for row in rows("retry_after.jsonl") {
        // The level catch-all has the only seat, and no queues.
        let controller =
            FlowController::new(FlowControlOptions { server_concurrency_limit: 1, charges_actual_cost: false });
        let attributes = RequestAttributes { user: "jane", verb: "get", path: "/", ..RequestAttributes::default() };
        let class = controller.classify(&attributes);
        let admit = || controller.admit(&class, WorkEstimate::default(), Duration::ZERO);
        let execution = admit().await;
        assert!(execution.is_ok());
        let (mut now, mut retry_after) = (None, 1);
        for step in row.as_array().expect("a list") {
            let [second, dropped, expected] = [0, 1, 2].map(|place| step[place].as_u64().expect("a number"));
            tokio::time::advance(Duration::from_secs(second - now.unwrap_or(second))).await;
            now = Some(second);
            for _ in 0..dropped {
                let Err(AdmitError::Rejected(rejection)) = admit().await else { panic!("a seat is free") };
                retry_after = rejection.retry_after;
            }
            assert_eq!(retry_after, expected, "{step}");
        }
    }
}
