//! Table columns and cells of the built-in kinds (upstream: `pkg/printers/internalversion`). A table consists of its
//! columns and a function that builds the cells of a row. Like in kube-apiserver, rows always include the cells of wide
//! columns.

mod apps;
mod autoscaling;
mod batch;
mod cells;
mod core;
mod flowcontrol;
mod networking;
mod pods;
mod rbac;
mod resource;
mod services;
mod small_groups;
mod storage;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pintle_registry::{Column, TableConvertor};
use pintle_value::time::Time;
use pintle_value::{Value, time};

/// Returns the table convertor of a built-in kind. Kinds without their own columns show the name and the creation time.
pub(crate) fn table(group: &str, plural: &str) -> Arc<dyn TableConvertor> {
    let rows = match (group, plural) {
        ("", "pods") => return Arc::new(pods::PodTable),
        ("", _) => core::table(plural).or_else(|| services::table(plural)),
        // Both API groups of events use the same columns.
        ("events.k8s.io", "events") => core::table("events"),
        ("apps", _) => apps::table(plural),
        ("autoscaling", _) => autoscaling::table(plural),
        ("batch", _) => batch::table(plural),
        ("networking.k8s.io", _) => networking::table(plural),
        ("rbac.authorization.k8s.io", _) => rbac::table(plural),
        ("resource.k8s.io", _) => resource::table(plural),
        ("storage.k8s.io", _) => storage::table(plural),
        ("flowcontrol.apiserver.k8s.io", _) => flowcontrol::table(plural),
        _ => small_groups::table(group, plural),
    };
    Arc::new(rows.unwrap_or(NAME_AND_CREATION))
}

/// A table convertor as data: the columns and the function that builds the cells of a row.
#[derive(Clone, Copy)]
struct StaticTable {
    columns: &'static [Column],
    cells: fn(&Value, Time) -> Vec<Value>,
}

impl TableConvertor for StaticTable {
    fn columns(&self) -> &[Column] {
        self.columns
    }

    fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        (self.cells)(object, now)
    }
}

/// Builds the cells of a row from anything that converts to a [`Value`].
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$(pintle_value::Value::from($cell)),*] };
}
use row;

/// The table of kinds without their own columns (upstream: `rest.NewDefaultTableConvertor`).
const NAME_AND_CREATION: StaticTable = StaticTable {
    columns: &[Column::NAME, Column::new("Created At", "date", "", "=meta/v1.ObjectMeta.creationTimestamp")],
    cells: |o, _| {
        // Without a creation time, Go prints its zero time.
        let created = o.time_at(&["metadata", "creationTimestamp"]).unwrap_or(Time::ZERO);
        row![o.name(), created.rfc3339()]
    },
};

/// The table of kinds for which upstream prints only the name and the age.
const NAME_AND_AGE: StaticTable =
    StaticTable { columns: &[Column::NAME, Column::AGE], cells: |o, now| row![o.name(), time::age(o, now)] };

/// The columns of every kind with a pod template.
const CONTAINERS: Column = Column::string("Containers", "The names of the containers in the template.").wide();
const IMAGES: Column = Column::string("Images", "The images of the containers in the template.").wide();
