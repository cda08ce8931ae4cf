//! The limits of levels. A request of a level has as many seats as the recorded demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pintle_flow_control::{
    AdmitError, Execution, FlowControlOptions, FlowController, ListOptions, ObjectStats, RequestAttributes,
    WorkEstimate,
};
use pintle_metrics::Exposition;
use pintle_value::Value;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::{items, number, object, rows, text};

/// The gauges in the order of a row, with the place of each.
const GAUGES: [(&str, usize); 9] = [
    ("nominal_limit_seats", 0),
    ("lower_limit_seats", 1),
    ("upper_limit_seats", 2),
    ("current_limit_seats", 3),
    ("demand_seats_high_watermark", 6),
    ("demand_seats_average", 7),
    ("demand_seats_stdev", 8),
    ("demand_seats_smoothed", 9),
    ("target_seats", 10),
];
const MAX_SEATS: usize = 5;

struct Scenario {
    controller: Arc<FlowController>,
    requests: BTreeMap<String, JoinHandle<Result<Execution, AdmitError>>>,
    busy: Vec<String>,
    /// The levels with queues.
    with_queues: BTreeSet<String>,
}

impl Scenario {
    /// Ends the request of a level, which may wait.
    async fn end(&mut self, level: &str) {
        if let Some(request) = self.requests.remove(level) {
            request.abort();
            drop(request.await);
        }
    }

    /// Sets the demand of a level.
    async fn demand(&mut self, level: &str, seats: u64) {
        self.end(level).await;
        if seats == 0 {
            return;
        }
        let (controller, user) = (self.controller.clone(), level.to_owned());
        let request = tokio::spawn(async move {
            // The other users are in no group.
            let groups = if user == "exempt" { vec!["system:masters".into()] } else { Vec::new() };
            let attributes = RequestAttributes {
                user: &user,
                groups: &groups,
                verb: "get",
                path: "/",
                ..RequestAttributes::default()
            };
            let class = controller.classify(&attributes);
            assert_eq!(class.priority_level(), user);
            controller.admit(&class, WorkEstimate::seats(seats), Duration::MAX).await
        });
        tokio::task::yield_now().await;
        self.requests.insert(level.to_owned(), request);
    }

    async fn change(&mut self, levels: &[serde_json::Value]) {
        let levels: Vec<Value> = levels.iter().map(object).collect();
        let schemas: Vec<Value> = levels.iter().map(|level| schema(level.name())).collect();
        let is_kept =
            |name: &str| levels.iter().any(|level| level.name() == name) || ["exempt", "catch-all"].contains(&name);
        // A level with requests would stay.
        let gone: Vec<_> =
            self.requests.keys().filter(|name| !is_kept(name) && !self.busy.contains(name)).cloned().collect();
        for level in gone {
            self.end(&level).await;
        }
        let has_queues = |level: &&Value| level.at(&["spec", "limited", "limitResponse", "queuing"]).is_some();
        self.with_queues = levels.iter().filter(has_queues).map(|level| level.name().to_owned()).collect();
        let is_mandatory = |schema: &&Value| ["exempt", "catch-all"].contains(&schema.name());
        self.controller.configure(schemas.iter().filter(|schema| !is_mandatory(schema)), &levels);
    }

    /// The largest list that the level allows, if it has queues.
    fn max_seats(&self, level: &str) -> u64 {
        let attributes = RequestAttributes { user: level, verb: "list", path: "/", ..RequestAttributes::default() };
        let class = self.controller.classify(&attributes);
        let options = ListOptions { resource_version_match: "Exact", ..ListOptions::default() };
        self.controller.estimate(&class, 0, || (Some(options), Some(ObjectStats::STALE))).initial_seats
    }

    fn gauges(&self) -> BTreeMap<String, f64> {
        let mut exposition = Exposition::default();
        self.controller.write_metrics(&mut exposition);
        let text = exposition.into_text();
        let lines = text.lines().filter_map(|line| line.strip_prefix("apiserver_flowcontrol_")?.rsplit_once(' '));
        lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
    }
}

/// A schema for the requests of a user with the name of the level.
fn schema(level: &str) -> Value {
    object(&json!({
        "metadata": {"name": level},
        "spec": {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": 5,
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": level}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        },
    }))
}

async fn check(row: &serde_json::Value) {
    let options =
        FlowControlOptions { server_concurrency_limit: number(row, "Server") as usize, charges_actual_cost: false };
    let mut scenario = Scenario {
        controller: Arc::new(FlowController::new(options)),
        requests: BTreeMap::new(),
        busy: Vec::new(),
        with_queues: BTreeSet::new(),
    };
    for (at, step) in items(row, "Steps").iter().enumerate() {
        let name = format!("{}, step {at}", text(row, "Name"));
        tokio::time::advance(Duration::from_nanos(number(step, "After"))).await;
        if let Some(demands) = step["Demands"].as_object() {
            for (level, seats) in demands {
                scenario.demand(level, seats.as_u64().expect("a number")).await;
            }
        }
        if let Some(busy) = step["Busy"].as_array() {
            scenario.busy = busy.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
        }
        let Some(limits) = step["Limits"].as_object() else { continue };
        if step["Adjust"] == true {
            scenario.controller.adjust_limits();
        } else {
            scenario.change(items(step, "Levels")).await;
        }
        let gauges = scenario.gauges();
        let value = |gauge: &str| gauges.get(gauge).copied();
        let fraction = value("seat_fair_frac").expect("a gauge");
        assert!((fraction - step["FairFrac"].as_f64().unwrap_or_default()).abs() < 1e-5, "{name}: {fraction}");
        let shown = gauges.keys().filter(|gauge| gauge.starts_with("nominal_limit_seats{")).count();
        assert_eq!(shown, limits.len(), "{name}");
        for (level, limits) in limits {
            for (gauge, place) in GAUGES {
                let found = value(&format!("{gauge}{{priority_level=\"{level}\"}}"));
                let (Some(found), Some(expected)) = (found, limits[place].as_f64()) else {
                    assert_eq!((gauge, level.as_str()), ("target_seats", "exempt"), "{name}");
                    continue;
                };
                // Upstream's rounding shows in the square root of a variance that is zero. Later numbers depend on it.
                let tolerance = 1e-5 * expected.abs().max(1.0);
                assert!((found - expected).abs() < tolerance, "{name}: {gauge} of {level} is {found}, not {expected}");
            }
            // Upstream keeps the maximum of a level that has no queues any more.
            let has_queues = scenario.with_queues.contains(level);
            let expected = limits[MAX_SEATS].as_u64().expect("a number");
            if has_queues {
                assert_eq!(scenario.max_seats(level), expected.min(100), "{name}: {level}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn levels_have_the_limits_of_upstream() {
    for row in rows("levels.jsonl") {
        check(&row).await;
    }
}
