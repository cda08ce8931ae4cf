//! Table columns and cells of the built-in kinds (upstream: `pkg/printers/internalversion`). A kind is a list of columns
//! and a function that makes a row; rows always hold the wide cells too, as kube-apiserver sends them.

mod apps;
mod autoscaling;
mod batch;
mod cells;
mod core;
mod extension;
mod flowcontrol;
mod networking;
mod pods;
mod rbac;
mod resource;
mod services;
mod storage;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pintle_registry::{Column, TableConvertor};
use pintle_value::time::Time;
use pintle_value::{Value, time};

/// The table of a built-in kind. Kinds without columns of their own show name and creation time.
pub(crate) fn table(group: &str, plural: &str) -> Arc<dyn TableConvertor> {
    let rows = match (group, plural) {
        ("", "pods") => return Arc::new(pods::Pods),
        ("", _) => core::rows(plural).or_else(|| services::rows(plural)),
        // Both views of an event show the same columns.
        ("events.k8s.io", "events") => core::rows("events"),
        ("apps", _) => apps::rows(plural),
        ("autoscaling", _) => autoscaling::rows(plural),
        ("batch", _) => batch::rows(plural),
        ("networking.k8s.io", _) => networking::rows(plural),
        ("rbac.authorization.k8s.io", _) => rbac::rows(plural),
        ("resource.k8s.io", _) => resource::rows(plural),
        ("storage.k8s.io", _) => storage::rows(plural),
        ("flowcontrol.apiserver.k8s.io", _) => flowcontrol::rows(plural),
        _ => extension::rows(group, plural),
    };
    Arc::new(rows.unwrap_or(NAME_AND_CREATION))
}

/// A table as data: columns, and the function that makes the cells.
#[derive(Clone, Copy)]
struct Rows {
    columns: &'static [Column],
    cells: fn(&Value, Time) -> Vec<Value>,
}

impl TableConvertor for Rows {
    fn columns(&self) -> &[Column] {
        self.columns
    }

    fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        (self.cells)(object, now)
    }
}

/// A row of cells: anything that becomes a value.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$(pintle_value::Value::from($cell)),*] };
}
use row;

/// What kinds without columns of their own show (upstream: `rest.NewDefaultTableConvertor`).
const NAME_AND_CREATION: Rows = Rows {
    columns: &[Column::NAME, Column::of("Created At", "date", "", "=meta/v1.ObjectMeta.creationTimestamp")],
    cells: |o, _| {
        // Without a creation time, Go prints its zero time.
        let created = o.time_at(&["metadata", "creationTimestamp"]).unwrap_or(Time::ZERO);
        row![o.name(), created.rfc3339()]
    },
};

/// What kinds show whose printer has a name and an age alone.
const NAME_AND_AGE: Rows =
    Rows { columns: &[Column::NAME, Column::AGE], cells: |o, now| row![o.name(), time::age(o, now)] };

/// Columns that every kind with a pod template has.
const CONTAINERS: Column = Column::string("Containers", "The names of the containers in the template.").wide();
const IMAGES: Column = Column::string("Images", "The images of the containers in the template.").wide();
