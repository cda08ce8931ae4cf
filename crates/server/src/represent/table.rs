//! Tables, as printed by `kubectl get` (upstream: `registry/rest/table.go` and the printers).

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;

use pintle_catalog::Descriptions;
use pintle_locks::Mutex;
use pintle_registry::Column;
use pintle_schema::Type;
use pintle_value::{Object, Str, Value, object};
use pintle_versions::Minor;

use super::event::INITIAL_EVENTS_END;
use super::{IncludeObject, ListHead, ResponseFormat, partial};
use crate::conversion::to_hub;
use crate::objects::encode::{Shape, encode, json, write_json};
use crate::request::negotiate::{Encoding, MetaVersion};

/// True if an object is the bookmark that ends the initial events of a watch.
fn ends_initial_events(object: &Value) -> bool {
    object.str_at(&["metadata", "annotations", INITIAL_EVENTS_END]) == "true"
}

impl ResponseFormat {
    /// Creates a table. Only the first table of a stream has column definitions.
    pub(crate) fn table(&self, version: MetaVersion, head: &ListHead, rows: Vec<Value>, columns: bool) -> Value {
        object! {
            "kind": "Table",
            "apiVersion": version.api_version(),
            "metadata": head.metadata(),
            "columnDefinitions": if columns { self.columns() } else { Value::Null },
            "rows": rows,
        }
    }

    /// The column definitions.
    pub(crate) fn columns(&self) -> Value {
        let columns = self.hub.table.columns();
        let all = OnceCell::new();
        Value::Array(columns.iter().map(|column| self.column(column, &all)).collect())
    }

    /// A column definition. `all` keeps the published descriptions from the first column that needs them on.
    fn column(&self, column: &Column, all: &OnceCell<Descriptions>) -> Value {
        let description = match &column.description {
            Cow::Borrowed(text) => match text.strip_prefix('=') {
                Some(field_path) => self.published_description(field_path, all),
                None => Str::from(*text),
            },
            // The text of a CRD.
            Cow::Owned(text) => Str::from(text.as_str()),
        };
        object! {
            "name": &*column.name,
            "type": &*column.kind,
            "format": &*column.format,
            "description": description,
            "priority": column.priority,
        }
    }

    /// Returns the published description of a field such as `core/v1.PodSpec.nodeName`. It is kept, because the
    /// descriptions of all types would have to be decompressed for each table.
    fn published_description(&self, field_path: &'static str, all: &OnceCell<Descriptions>) -> Str {
        static KEPT: Mutex<BTreeMap<(&'static str, Minor), Str>> = Mutex::new(BTreeMap::new());
        let minor = self.cluster.served.catalog.minor();
        if let Some(description) = KEPT.lock().get(&(field_path, minor)) {
            return description.clone();
        }
        let all = all.get_or_init(|| pintle_catalog::descriptions(minor));
        let description = self.find_description(field_path, all).unwrap_or_default();
        KEPT.lock().insert((field_path, minor), description.clone());
        description
    }

    fn find_description(&self, field_path: &str, all: &Descriptions) -> Option<Str> {
        let (owner, field) = field_path.rsplit_once('.')?;
        let catalog = &self.cluster.served.catalog;
        let Type::Struct(owner) = catalog.types().get(catalog.struct_type(owner)?) else { return None };
        all.field(&owner.model, field).map(Str::from)
    }

    /// Encodes a table with its rows. In JSON, upstream encodes the object of a row by its Go struct.
    pub(crate) fn encode_table(&self, mut table: Value, encoding: Encoding, pretty: bool) -> Vec<u8> {
        let shape = Shape::named(&self.cluster.served.catalog, "meta/v1.Table");
        if encoding != Encoding::Json {
            return encode(&table, shape, encoding, pretty);
        }
        let rows = table.remove("rows").unwrap_or_default();
        let mut out = json(&table, shape);
        // The rows are the last field of the struct.
        out.pop();
        out.extend_from_slice(b",\"rows\":[");
        for (index, row) in rows.as_array().into_iter().flatten().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            self.write_json_row(row, &mut out);
        }
        out.extend_from_slice(b"]}");
        if pretty {
            return pintle_codec::json::indent(&out);
        }
        out.push(b'\n');
        out
    }

    /// Appends a row as JSON.
    pub(super) fn write_json_row(&self, row: &Value, out: &mut Vec<u8>) {
        let catalog = &self.cluster.served.catalog;
        let object = &row["object"];
        let object_shape = match self.include {
            IncludeObject::Object => self.shape(),
            IncludeObject::None | IncludeObject::Metadata => Shape::partial(&self.resource, catalog),
        };
        out.extend_from_slice(b"{\"cells\":");
        write_json(&row["cells"], Shape::Untyped, out);
        let conditions = row.items_at(&["conditions"]);
        if !conditions.is_empty() {
            out.extend_from_slice(b",\"conditions\":");
            self.write_conditions(conditions, out);
        }
        out.extend_from_slice(b",\"object\":");
        write_json(object, object_shape, out);
        out.push(b'}');
    }

    /// Appends the conditions of a row as JSON.
    pub(super) fn write_conditions(&self, conditions: &[Value], out: &mut Vec<u8>) {
        let shape = Shape::named(&self.cluster.served.catalog, "meta/v1.TableRowCondition");
        for (index, condition) in conditions.iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            write_json(condition, shape, out);
        }
        out.push(b']');
    }

    /// Creates the row of an object's tree at the request's version. Cells are computed at the hub version.
    pub(crate) fn row(&self, version: MetaVersion, object: &Value) -> Value {
        let converted;
        let stored = if self.resource.is_hub() {
            object
        } else {
            converted = to_hub(&self.resource, &self.hub, object.clone());
            &converted
        };
        let cells = self.hub.table.cells(stored, self.now());
        let conditions = self.hub.table.conditions(stored);
        let mut row = Object::new();
        row.insert("cells", cells);
        if !conditions.is_empty() {
            row.insert("conditions", conditions);
        }
        let included = match self.include {
            // The client has to see the annotation that ends the initial events.
            IncludeObject::None if ends_initial_events(object) => partial(object, version),
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial(object, version),
            IncludeObject::Object => object.clone(),
        };
        row.insert("object", included);
        Value::Object(row)
    }
}
