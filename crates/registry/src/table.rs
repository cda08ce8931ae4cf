//! How a kind shows in a table (`kubectl get`): columns, and a row of cells for each object.

use pintle_value::Value;
use pintle_value::time::{Time, age};

/// The table form of a kind.
pub trait Table: Send + Sync {
    /// The columns.
    fn columns(&self) -> &[Column];

    /// One cell per column, in their order, for an object at the hub version. `now` is for ages. Never panics, whatever
    /// the object.
    fn cells(&self, object: &Value, now: Time) -> Vec<Value>;

    /// The paths of what [`Table::cells`] and [`Table::conditions`] look at, which need not be given more of an object than
    /// that (a path through an array goes on in each element). Without any they look at all of it.
    fn sources(&self) -> &[&'static str] {
        &[]
    }

    /// The conditions of an object's row (`metav1.TableRowCondition`), such as the completion of a pod. Mostly none.
    fn conditions(&self, _object: &Value) -> Vec<Value> {
        Vec::new()
    }
}

/// The table of a kind without columns of its own: name and creation time.
#[derive(Clone, Copy, Debug, Default)]
pub struct NameAndAge;

impl Table for NameAndAge {
    fn columns(&self) -> &[Column] {
        &[Column::NAME, Column::AGE]
    }

    fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        vec![Value::from(object.name()), age(object, now)]
    }
}

/// A table column (`metav1.TableColumnDefinition`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// The OpenAPI type of the cells.
    pub kind: &'static str,
    /// The OpenAPI format of the cells; `name` marks the column that names the object.
    pub format: &'static str,
    /// A text for people: ours, or the place of a published field description as `=core/v1.PodSpec.nodeName`.
    pub description: &'static str,
    /// 0 for columns always shown, 1 for those of `-o wide`.
    pub priority: i32,
}

impl Column {
    /// The object's name.
    pub const NAME: Column =
        Column { name: "Name", kind: "string", format: "name", description: "=meta/v1.ObjectMeta.name", priority: 0 };

    /// The object's age.
    pub const AGE: Column = Column::string("Age", "=meta/v1.ObjectMeta.creationTimestamp");

    /// A column of strings.
    #[must_use]
    pub const fn string(name: &'static str, description: &'static str) -> Self {
        Column { name, kind: "string", format: "", description, priority: 0 }
    }

    /// A column of integers.
    #[must_use]
    pub const fn integer(name: &'static str, description: &'static str) -> Self {
        Column { name, kind: "integer", format: "", description, priority: 0 }
    }

    /// A column of booleans.
    #[must_use]
    pub const fn boolean(name: &'static str, description: &'static str) -> Self {
        Column { name, kind: "boolean", format: "", description, priority: 0 }
    }

    /// The same column, shown only by `-o wide`.
    #[must_use]
    pub const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}
