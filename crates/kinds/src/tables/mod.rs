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
        ("", "pods") => return Arc::new(pods::Pods),
        ("", _) => core::rows(plural).or_else(|| services::rows(plural)),
        // Both API groups of events use the same columns.
        ("events.k8s.io", "events") => core::rows("events"),
        ("apps", _) => apps::rows(plural),
        ("autoscaling", _) => autoscaling::rows(plural),
        ("batch", _) => batch::rows(plural),
        ("networking.k8s.io", _) => networking::rows(plural),
        ("rbac.authorization.k8s.io", _) => rbac::rows(plural),
        ("resource.k8s.io", _) => resource::rows(plural),
        ("storage.k8s.io", _) => storage::rows(plural),
        ("flowcontrol.apiserver.k8s.io", _) => flowcontrol::rows(plural),
        _ => small_groups::rows(group, plural),
    };
    Arc::new(rows.unwrap_or(NAME_AND_CREATION))
}

/// A table convertor as data: the columns and the function that builds the cells of a row.
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

/// Builds the cells of a row from anything that converts to a [`Value`].
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$(pintle_value::Value::from($cell)),*] };
}
use row;

/// The table of kinds without their own columns (upstream: `rest.NewDefaultTableConvertor`).
const NAME_AND_CREATION: Rows = Rows {
    columns: &[Column::NAME, Column::of("Created At", "date", "", "=meta/v1.ObjectMeta.creationTimestamp")],
    cells: |o, _| {
        // Without a creation time, Go prints its zero time.
        let created = o.time_at(&["metadata", "creationTimestamp"]).unwrap_or(Time::ZERO);
        row![o.name(), created.rfc3339()]
    },
};

/// The table of kinds for which upstream prints only the name and the age.
const NAME_AND_AGE: Rows =
    Rows { columns: &[Column::NAME, Column::AGE], cells: |o, now| row![o.name(), time::age(o, now)] };

/// The columns of every kind with a pod template.
const CONTAINERS: Column = Column::string("Containers", "The names of the containers in the template.").wide();
const IMAGES: Column = Column::string("Images", "The images of the containers in the template.").wide();
