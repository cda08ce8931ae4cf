//! Tables of the group `flowcontrol.apiserver.k8s.io`.

use pintle_registry::Column;
use pintle_value::Value;
use pintle_value::time::{Time, age};

use super::{StaticTable, cells, row};

pub(super) fn table(plural: &str) -> Option<StaticTable> {
    Some(match plural {
        "flowschemas" => FLOW_SCHEMAS,
        "prioritylevelconfigurations" => PRIORITY_LEVELS,
        _ => return None,
    })
}

const FLOW_SCHEMAS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("PriorityLevel", "=flowcontrol/v1.PriorityLevelConfigurationReference.name"),
        Column::string("MatchingPrecedence", "=flowcontrol/v1.FlowSchemaSpec.matchingPrecedence"),
        Column::string("DistinguisherMethod", "=flowcontrol/v1.FlowSchemaSpec.distinguisherMethod"),
        Column::AGE,
        Column::string("MissingPL", "Whether the priority level that it names is missing or broken."),
    ],
    cells: |o, now| {
        let dangling = cells::find_condition(o.items_at(&["status", "conditions"]), "Dangling");
        row![
            o.name(),
            o.str_at(&["spec", "priorityLevelConfiguration", "name"]),
            cells::int(o, &["spec", "matchingPrecedence"]),
            o.at(&["spec", "distinguisherMethod"]).map_or("<none>", |method| method.str_at(&["type"])),
            age(o, now),
            dangling.map_or("?", |condition| condition.str_at(&["status"])),
        ]
    },
};

const PRIORITY_LEVELS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Type", "=flowcontrol/v1.PriorityLevelConfigurationSpec.type"),
        Column::string(
            "NominalConcurrencyShares",
            "=flowcontrol/v1.LimitedPriorityLevelConfiguration.nominalConcurrencyShares",
        ),
        Column::string("Queues", "=flowcontrol/v1.QueuingConfiguration.queues"),
        Column::string("HandSize", "=flowcontrol/v1.QueuingConfiguration.handSize"),
        Column::string("QueueLengthLimit", "=flowcontrol/v1.QueuingConfiguration.queueLengthLimit"),
        Column::AGE,
    ],
    cells: priority_level,
};

fn priority_level(o: &Value, now: Time) -> Vec<Value> {
    let limited = o.at(&["spec", "limited"]);
    let queuing = limited.and_then(|l| l.at(&["limitResponse", "queuing"]));
    // A number if the field is set, a text otherwise.
    let number = |limits: Option<&Value>, field: &str| match limits {
        Some(limits) => Value::from(cells::int(limits, &[field])),
        None => Value::from("<none>"),
    };
    row![
        o.name(),
        o.str_at(&["spec", "type"]),
        number(limited, "nominalConcurrencyShares"),
        number(queuing, "queues"),
        number(queuing, "handSize"),
        number(queuing, "queueLengthLimit"),
        age(o, now),
    ]
}
