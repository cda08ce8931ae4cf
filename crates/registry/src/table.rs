//! Tables (`kubectl get`): the columns of a kind, and a row of cells for each object (upstream: `rest.TableConvertor`).

use std::borrow::Cow;

use pintle_value::Value;
use pintle_value::time::{Time, age};

/// Converts the objects of a kind to the rows of a table.
pub trait TableConvertor: Send + Sync {
    /// The columns.
    fn columns(&self) -> &[Column];

    /// The cells of an object at the hub version, one per column. `now` is the time for ages. Never panics, whatever
    /// the object.
    fn cells(&self, object: &Value, now: Time) -> Vec<Value>;

    /// The paths of the fields that [`TableConvertor::cells`] and [`TableConvertor::conditions`] read. They need only
    /// these fields of an object. A path through an array continues in each element. A path to `*` stands for the names
    /// of an object's members. No paths mean all fields.
    fn sources(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The conditions of an object's row (`metav1.TableRowCondition`), such as the completion of a pod.
    fn conditions(&self, _object: &Value) -> Vec<Value> {
        Vec::new()
    }
}

/// The table of a resource that declares no table: name and age.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultTable;

impl TableConvertor for DefaultTable {
    fn columns(&self) -> &[Column] {
        const { &[Column::NAME, Column::new("Age", "date", "", "=meta/v1.ObjectMeta.creationTimestamp")] }
    }

    fn sources(&self) -> Vec<&str> {
        vec!["metadata.name", "metadata.creationTimestamp"]
    }

    fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        vec![Value::from(object.name()), age(object, now)]
    }
}

/// A table column (`metav1.TableColumnDefinition`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name of the column.
    pub name: Cow<'static, str>,
    /// The OpenAPI type of the cells.
    pub kind: Cow<'static, str>,
    /// The OpenAPI format of the cells; `name` marks the column with the name of the object.
    pub format: Cow<'static, str>,
    /// The description: a text, or a reference to a published field description (`=core/v1.PodSpec.nodeName`).
    pub description: Cow<'static, str>,
    /// 0 for columns that are always shown, 1 for columns that only `-o wide` shows.
    pub priority: i32,
}

impl Column {
    /// The name of the object.
    pub const NAME: Column = Column::new("Name", "string", "name", "=meta/v1.ObjectMeta.name");

    /// The age of the object.
    pub const AGE: Column = Column::string("Age", "=meta/v1.ObjectMeta.creationTimestamp");

    /// A column with this type and format, which is always shown.
    #[must_use]
    pub const fn new(name: &'static str, kind: &'static str, format: &'static str, description: &'static str) -> Self {
        let (name, kind) = (Cow::Borrowed(name), Cow::Borrowed(kind));
        Self { name, kind, format: Cow::Borrowed(format), description: Cow::Borrowed(description), priority: 0 }
    }

    /// A column of strings.
    #[must_use]
    pub const fn string(name: &'static str, description: &'static str) -> Self {
        Column::new(name, "string", "", description)
    }

    /// A column of integers.
    #[must_use]
    pub const fn integer(name: &'static str, description: &'static str) -> Self {
        Column::new(name, "integer", "", description)
    }

    /// A column of booleans.
    #[must_use]
    pub const fn boolean(name: &'static str, description: &'static str) -> Self {
        Column::new(name, "boolean", "", description)
    }

    /// The same column, shown only by `-o wide`.
    #[must_use]
    pub const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}
