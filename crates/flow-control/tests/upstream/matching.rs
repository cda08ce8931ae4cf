use std::time::Duration;

use pintle_flow_control::{DanglingCondition, FlowControlOptions, FlowController, RequestAttributes, WorkEstimate};
use pintle_value::Str;
use serde_json::Value;

use crate::{items, object, rows, text};

/// The groups of a recorded request.
pub(crate) fn groups(row: &Value) -> Vec<Str> {
    items(row, "Groups").iter().filter_map(Value::as_str).map(Str::from).collect()
}

/// The attributes of a recorded request.
pub(crate) fn attributes<'r>(row: &'r Value, groups: &'r [Str]) -> RequestAttributes<'r> {
    RequestAttributes {
        user: text(row, "User"),
        groups,
        verb: text(row, "Verb"),
        is_resource: !text(row, "Resource").is_empty(),
        group: text(row, "Group"),
        version: "v1",
        resource: text(row, "Resource"),
        subresource: text(row, "Subresource"),
        namespace: text(row, "Namespace"),
        name: text(row, "Name"),
        path: text(row, "Path"),
    }
}

/// The schema, the level and the distinguisher of a request.
async fn found(controller: &FlowController, row: &Value) -> [String; 3] {
    let groups = groups(row);
    let attributes = attributes(row, &groups);
    let class = controller.classify(&attributes);
    let execution = controller.admit(&class, WorkEstimate::default(), Duration::ZERO).await.expect("free seats");
    let dump = controller.dump_requests(false);
    let line = dump.lines().nth(1).expect("a request");
    let cells: Vec<_> = line.split(',').map(str::trim).collect();
    drop(execution);
    assert_eq!([cells[1], cells[0]], [class.flow_schema(), class.priority_level()]);
    [cells[1], cells[0], cells[4]].map(str::to_owned)
}

#[tokio::test]
async fn requests_match_the_schemas_of_upstream() {
    for row in rows("matching.jsonl") {
        let controller =
            FlowController::new(FlowControlOptions { server_concurrency_limit: 600, charges_actual_cost: false });
        let [schemas, levels] =
            ["Schemas", "Levels"].map(|name| items(&row, name).iter().map(object).collect::<Vec<_>>());
        let mut conditions = controller.configure(&schemas, &levels);
        conditions.sort_by(|one, other| one.flow_schema.cmp(&other.flow_schema));
        let condition = |(name, condition): (&String, &Value)| {
            assert_eq!(text(condition, "Type"), "Dangling");
            [name.as_str(), text(condition, "Status"), text(condition, "Reason"), text(condition, "Message")]
                .map(str::to_owned)
        };
        let expected: Vec<_> = row["Conditions"].as_object().expect("an object").iter().map(condition).collect();
        let fields = |condition: &DanglingCondition| {
            let DanglingCondition { flow_schema, status, reason, message } = condition;
            [flow_schema.as_str(), status, reason, message].map(str::to_owned)
        };
        assert_eq!(conditions.iter().map(fields).collect::<Vec<_>>(), expected, "{}", row["Name"]);
        for request in items(&row, "Requests") {
            let expected = ["Schema", "Level", "Distinguisher"].map(|name| text(request, name).to_owned());
            assert_eq!(found(&controller, request).await, expected, "{} {request}", row["Name"]);
        }
    }
}
