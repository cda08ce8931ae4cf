//! Table columns and cells of the built-in kinds (upstream: `pkg/printers/internalversion`). The tables are data:
//! `data/tables.txt` has a line per column with the form of its cells. Like in kube-apiserver, rows always include the
//! cells of wide columns.

mod apps;
mod autoscaling;
mod batch;
mod cells;
mod core;
mod forms;
mod networking;
mod pods;
mod resource;
mod services;
mod small_groups;
mod storage;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use pintle_registry::{Column, TableConvertor};
use pintle_value::Value;
use pintle_value::time::Time;
use pintle_versions::{Minor, PerVersion, lines_of, split_range};

use self::forms::{Cell, Form};

const TABLES: &str = include_str!("../../data/tables.txt");

/// Returns the table convertor of a built-in kind in a version. Kinds without their own columns show the name and the creation time
/// (upstream: `rest.NewDefaultTableConvertor`).
pub(crate) fn table_in(group: &str, plural: &str, minor: Minor) -> Arc<dyn TableConvertor> {
    static DEFAULT: OnceLock<Arc<Table>> = OnceLock::new();
    if (group, plural) == ("", "pods") {
        return Arc::new(pods::PodTable);
    }
    let name = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    let default = || {
        let created = Column::new("Created At", "date", "", "=meta/v1.ObjectMeta.creationTimestamp");
        let [name, created] = [(Column::NAME, forms::name as Form), (created, forms::created)]
            .map(|(column, form)| (Some(column), CellForm { form, path: Vec::new(), words: Vec::new() }));
        Arc::new([name, created].into_iter().collect())
    };
    Arc::clone(tables(minor).get(name.as_str()).unwrap_or_else(|| DEFAULT.get_or_init(default)))
        as Arc<dyn TableConvertor>
}

/// The columns and the forms of their cells.
#[derive(Default)]
struct Table {
    columns: Vec<Column>,
    cells: Vec<CellForm>,
    /// The paths of the fields that the cells need.
    sources: Vec<&'static str>,
}

/// The paths of the fields that nearly all tables need.
const COMMON_SOURCES: [&str; 2] = ["metadata.name", "metadata.creationTimestamp"];

/// The form of the cells of a column, with its words.
struct CellForm {
    form: Form,
    /// The first word, as a path.
    path: Vec<&'static str>,
    words: Vec<&'static str>,
}

impl FromIterator<(Option<Column>, CellForm)> for Table {
    fn from_iter<T: IntoIterator<Item = (Option<Column>, CellForm)>>(columns: T) -> Self {
        let (columns, cells): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        Table { columns: columns.into_iter().flatten().collect(), cells, sources: COMMON_SOURCES.into() }
    }
}

impl TableConvertor for Table {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn sources(&self) -> Vec<&str> {
        self.sources.clone()
    }

    fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        let cell = |cell: &CellForm| (cell.form)(Cell { object, now, path: &cell.path, words: &cell.words });
        self.cells.iter().map(cell).collect()
    }
}

/// The tables of a version by the names of their resources.
fn tables(minor: Minor) -> &'static HashMap<&'static str, Arc<Table>> {
    static PARSED: PerVersion<HashMap<&'static str, Arc<Table>>> = PerVersion::new();
    PARSED.get_or_init(minor, |minor| {
        let sections = TABLES.split("\n\n").filter_map(|section| section.strip_prefix("table ")?.split_once('\n'));
        let tables = sections.filter_map(|(names, lines)| {
            let (names, range) = split_range(names);
            let lines = || lines_of(lines, minor).map(|line| line.text);
            // Malformed lines are skipped; a test detects them.
            let mut table: Table = lines().filter_map(parse_column).collect();
            let paths = lines().find_map(|line| line.trim_start().strip_prefix(READS));
            table.sources.extend(paths.into_iter().flat_map(|paths| paths.split(' ')));
            range.contains(minor).then(|| (names, Arc::new(table)))
        });
        tables.flat_map(|(names, table)| names.split(' ').map(move |name| (name, Arc::clone(&table)))).collect()
    })
}

/// The start of the line with the sources of a table.
const READS: &str = "reads ";

/// Parses the line of a column.
fn parse_column(line: &'static str) -> Option<(Option<Column>, CellForm)> {
    let mut parts = line.split('|').map(str::trim);
    let (head, cell, description) = (parts.next()?, parts.next(), parts.next().unwrap_or_default());
    let mut words = cell.unwrap_or(head).split(' ').map(|word| word.trim_end_matches(":wide"));
    let form = forms::form(words.next()?)?;
    let words: Vec<&'static str> = words.collect();
    let path = words.first().map(|path| path.split('.').collect()).unwrap_or_default();
    let (head, is_wide) = head.strip_suffix(":wide").map_or((head, false), |head| (head, true));
    let column = match head.split(' ').next().filter(|_| cell.is_none()) {
        Some("name") => Column::NAME,
        Some("age") => Column::AGE,
        Some("containers") => Column::string("Containers", "The names of the containers in the template.").wide(),
        Some("images") => Column::string("Images", "The images of the containers in the template.").wide(),
        Some(_) => return None,
        None => {
            let mut parts = head.split(':');
            let (name, kind) = (parts.next()?, parts.next().filter(|kind| !kind.is_empty()).unwrap_or("string"));
            Column::new(name, kind, parts.next().unwrap_or_default(), description)
        }
    };
    let column = if is_wide { column.wide() } else { column };
    Some(((!column.name.is_empty()).then_some(column), CellForm { form, path, words }))
}
