//! How a kind shows in a table (`kubectl get`): columns, and a row of cells for each object.

use std::borrow::Cow;

use pintle_value::Value;
use pintle_value::time::{Time, age};

/// The table form of a kind.
pub trait TableConvertor: Send + Sync {
    /// The columns.
    fn columns(&self) -> &[Column];

    /// One cell per column, in their order, for an object at the hub version. `now` is for ages. Never panics, whatever
    /// the object.
    fn cells(&self, object: &Value, now: Time) -> Vec<Value>;

    /// The paths of what [`TableConvertor::cells`] and [`TableConvertor::conditions`] look at, which need not be given more of an object than
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
pub struct DefaultTable;

impl TableConvertor for DefaultTable {
    fn columns(&self) -> &[Column] {
        const { &[Column::NAME, Column::AGE] }
    }

    fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        vec![Value::from(object.name()), age(object, now)]
    }
}

/// A table column (`metav1.TableColumnDefinition`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: Cow<'static, str>,
    /// The OpenAPI type of the cells.
    pub kind: Cow<'static, str>,
    /// The OpenAPI format of the cells; `name` marks the column that names the object.
    pub format: Cow<'static, str>,
    /// A text for people: ours, or the place of a published field description as `=core/v1.PodSpec.nodeName`.
    pub description: Cow<'static, str>,
    /// 0 for columns always shown, 1 for those of `-o wide`.
    pub priority: i32,
}

impl Column {
    /// The object's name.
    pub const NAME: Column = Column::of("Name", "string", "name", "=meta/v1.ObjectMeta.name");

    /// The object's age.
    pub const AGE: Column = Column::string("Age", "=meta/v1.ObjectMeta.creationTimestamp");

    /// A column of some type and format, that is always shown.
    #[must_use]
    pub const fn of(name: &'static str, kind: &'static str, format: &'static str, description: &'static str) -> Self {
        let (name, kind) = (Cow::Borrowed(name), Cow::Borrowed(kind));
        Self { name, kind, format: Cow::Borrowed(format), description: Cow::Borrowed(description), priority: 0 }
    }

    /// A column of strings.
    #[must_use]
    pub const fn string(name: &'static str, description: &'static str) -> Self {
        Column::of(name, "string", "", description)
    }

    /// A column of integers.
    #[must_use]
    pub const fn integer(name: &'static str, description: &'static str) -> Self {
        Column::of(name, "integer", "", description)
    }

    /// A column of booleans.
    #[must_use]
    pub const fn boolean(name: &'static str, description: &'static str) -> Self {
        Column::of(name, "boolean", "", description)
    }

    /// The same column, shown only by `-o wide`.
    #[must_use]
    pub const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}
