//! JSONPath for printer columns and selectable fields (upstream: client-go's `util/jsonpath`): fields, items, slices,
//! unions, wildcards, filters and recursive descent.

use std::cell::Cell;

use pintle_value::{Str, Value, print};

/// The maximum number of values that one evaluation visits. Without a limit, each recursive descent of a path would
/// multiply the work by the depth of the object, as it does upstream.
const MAX_VISITS: usize = 1_000_000;

/// The maximum number of fields that [`JsonPath::sources`] names. Each union multiplies their number.
const MAX_SOURCES: usize = 16;

/// A parsed JSONPath.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<PathStep>);

#[derive(Clone, Debug, PartialEq)]
enum PathStep {
    /// The values of these fields, in this order.
    Fields(Vec<Str>),
    /// The items of a slice. Negative indexes count from the end.
    Slice { from: Option<i64>, to: Option<i64>, by: i64 },
    /// One item.
    Item(i64),
    /// All values of an object or all items of an array.
    All,
    /// All values at any depth, starting with the value itself.
    Descend,
    /// The items that satisfy a comparison, or for which the path exists.
    Filter(Operand, Option<(Operator, Operand)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    /// A path relative to the item.
    Path(JsonPath),
    Literal(Value),
}

impl JsonPath {
    /// Parses a path (`.status.conditions[?(@.type=="Ready")].status`). Returns `None` if it is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text };
        let path = parser.path()?;
        parser.rest.is_empty().then_some(path)
    }

    /// Returns the values at the path, in order. Returns no values if a step cannot be taken, or if there are too many
    /// values.
    #[must_use]
    pub fn find<'v>(&self, root: &'v Value) -> Vec<&'v Value> {
        self.walk(root, &Visits(Cell::new(MAX_VISITS))).unwrap_or_default()
    }

    /// The paths of at most `MAX_SOURCES` fields that contain all values at this path. The names in them need no
    /// escapes in JSON and contain no dot. Empty if only the root contains all values.
    #[must_use]
    pub fn sources(&self) -> Vec<String> {
        let mut sources = vec![String::new()];
        for step in &self.0 {
            let PathStep::Fields(names) = step else { break };
            if !names.iter().all(is_plain_name) || sources.len() * names.len() > MAX_SOURCES {
                break;
            }
            let below = |path: &String| names.iter().map(|name| format!("{path}.{name}")).collect::<Vec<_>>();
            sources = sources.iter().flat_map(below).collect();
        }
        sources.into_iter().filter_map(|path| path.strip_prefix('.').map(str::to_owned)).collect()
    }

    fn walk<'v>(&self, root: &'v Value, visits: &Visits) -> Result<Vec<&'v Value>, NotApplicable> {
        let mut found = vec![root];
        for step in &self.0 {
            visits.add(found.len())?;
            found = step.from(&found, visits)?;
        }
        Ok(found)
    }
}

/// True for a name that can stand in the path of a field.
fn is_plain_name(name: &Str) -> bool {
    print::is_plain_text_in_json(name.as_bytes()) && !name.contains('.') && name != "*"
}

/// A step cannot be taken from a value, or values cannot be compared. Then nothing is found.
struct NotApplicable;

/// The number of visits that are left.
struct Visits(Cell<usize>);

impl Visits {
    fn add(&self, count: usize) -> Result<(), NotApplicable> {
        self.0.set(self.0.get().checked_sub(count).ok_or(NotApplicable)?);
        Ok(())
    }
}

impl PathStep {
    fn from<'v>(&self, values: &[&'v Value], visits: &Visits) -> Result<Vec<&'v Value>, NotApplicable> {
        let mut found = Vec::new();
        if let PathStep::Fields(names) = self {
            for name in names {
                visits.add(values.len())?;
                found.extend(values.iter().filter_map(|value| value.as_object()?.get(name)));
            }
            return Ok(found);
        }
        // Only a filter does not skip nulls.
        let is_filter = matches!(self, PathStep::Filter(..));
        for value in values.iter().copied().filter(|value| is_filter || !value.is_null()) {
            match self {
                PathStep::Fields(_) => {}
                PathStep::All => {
                    let children = children(value);
                    visits.add(children.len())?;
                    found.extend(children);
                }
                PathStep::Descend => descend(value, &mut found, visits)?,
                PathStep::Item(index) => {
                    let items = value.as_array().ok_or(NotApplicable)?;
                    let position = position(*index, items.len()).ok_or(NotApplicable)?;
                    found.push(items.get(position).ok_or(NotApplicable)?);
                }
                PathStep::Slice { from, to, by } => {
                    let items = value.as_array().ok_or(NotApplicable)?;
                    let start = position(from.unwrap_or(0), items.len());
                    let end = to.map_or(Some(items.len()), |to| position(to, items.len()));
                    if start.is_some() && start == end {
                        return Ok(found);
                    }
                    let (start, end) = start.zip(end).ok_or(NotApplicable)?;
                    let by = usize::try_from(*by).ok().filter(|by| *by > 0).ok_or(NotApplicable)?;
                    let items = items.get(start..end).ok_or(NotApplicable)?;
                    visits.add(items.len())?;
                    found.extend(items.iter().step_by(by));
                }
                PathStep::Filter(left, operator) => {
                    for item in value.as_array().ok_or(NotApplicable)? {
                        if is_match(left, operator.as_ref(), item, visits)? {
                            found.push(item);
                        }
                    }
                }
            }
        }
        Ok(found)
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(object) => object.values().collect(),
        _ => Vec::new(),
    }
}

/// Appends the non-empty objects and arrays at any depth.
fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>, visits: &Visits) -> Result<(), NotApplicable> {
    visits.add(1)?;
    let children = children(value);
    if !children.is_empty() {
        found.push(value);
    }
    children.into_iter().try_for_each(|child| descend(child, found, visits))
}

fn position(index: i64, length: usize) -> Option<usize> {
    if index >= 0 {
        return usize::try_from(index).ok();
    }
    length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
}

fn is_match(
    left: &Operand,
    operator: Option<&(Operator, Operand)>,
    item: &Value,
    visits: &Visits,
) -> Result<bool, NotApplicable> {
    visits.add(1)?;
    let Some((operator, right)) = operator else {
        // A path that cannot be followed counts as an existing path.
        return Ok(left.values(item, visits).map_or(true, |found| !found.is_empty()));
    };
    let Some(left) = left.only_value(item, visits)? else { return Ok(false) };
    let Some(right) = right.only_value(item, visits)? else { return Ok(false) };
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => a.as_str().partial_cmp(b.as_str()),
        (Value::Int(a), Value::Int(b)) => a.partial_cmp(b),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Bool(a), Value::Bool(b)) if matches!(operator, Operator::Equal | Operator::NotEqual) => {
            a.partial_cmp(b)
        }
        _ => return Err(NotApplicable),
    };
    Ok(order.is_some_and(|order| match operator {
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
    }))
}

impl Operand {
    fn values<'v>(&'v self, item: &'v Value, visits: &Visits) -> Result<Vec<&'v Value>, NotApplicable> {
        match self {
            Operand::Path(path) => path.walk(item, visits),
            Operand::Literal(value) => Ok(vec![value]),
        }
    }

    /// The value for a comparison.
    fn only_value<'v>(&'v self, item: &'v Value, visits: &Visits) -> Result<Option<&'v Value>, NotApplicable> {
        match *self.values(item, visits)? {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            _ => Err(NotApplicable),
        }
    }
}

/// The maximum number of filters in the rest of a path, which limits their nesting.
const MAX_FILTERS: usize = 8;

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    /// Takes the text before the first character that satisfies `ends`.
    fn take_until(&mut self, ends: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        text
    }

    fn path(&mut self) -> Option<JsonPath> {
        let mut steps = Vec::new();
        loop {
            if self.eat("..") {
                steps.push(PathStep::Descend);
                if !self.rest.starts_with('[') {
                    steps.push(self.field()?);
                }
            } else if self.rest == "." {
                self.rest = "";
            } else if self.eat(".") {
                if !self.rest.starts_with('[') {
                    steps.push(self.field()?);
                }
            } else if self.eat("[") {
                steps.push(self.brackets()?);
            } else {
                return Some(JsonPath(steps));
            }
        }
    }

    fn field(&mut self) -> Option<PathStep> {
        if self.eat("*") {
            return Some(PathStep::All);
        }
        let mut name = String::new();
        loop {
            name.push_str(self.take_until(|c| matches!(c, '.' | '[' | ']' | ' ' | '=' | '!' | '<' | '>' | ')' | '\\')));
            if !self.eat("\\") {
                break;
            }
            let escaped = self.rest.chars().next()?;
            name.push(escaped);
            self.rest = &self.rest[escaped.len_utf8()..];
        }
        (!name.is_empty()).then(|| PathStep::Fields(vec![name.into()]))
    }

    fn brackets(&mut self) -> Option<PathStep> {
        self.space();
        let step = if self.eat("*") {
            PathStep::All
        } else if self.eat("?(") {
            let filter = self.filter()?;
            self.eat(")").then_some(filter)?
        } else if self.rest.starts_with(['\'', '"']) {
            let mut names = vec![self.quoted()?];
            while self.eat(",") {
                self.space();
                names.push(self.quoted()?);
            }
            PathStep::Fields(names)
        } else {
            self.index_or_slice()?
        };
        self.space();
        self.eat("]").then_some(step)
    }

    fn quoted(&mut self) -> Option<Str> {
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        self.rest = &self.rest[1..];
        let text = self.take_until(|c| c == quote);
        self.eat(if quote == '"' { "\"" } else { "'" }).then(|| text.into())
    }

    fn index_or_slice(&mut self) -> Option<PathStep> {
        let text = self.take_until(|c| c == ']').trim();
        let index = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            [only] => only.parse().ok().map(PathStep::Item),
            [from, to] => Some(PathStep::Slice { from: index(from)?, to: index(to)?, by: 1 }),
            [from, to, by] => Some(PathStep::Slice { from: index(from)?, to: index(to)?, by: index(by)?.unwrap_or(1) }),
            _ => None,
        }
    }

    fn filter(&mut self) -> Option<PathStep> {
        if self.rest.matches("?(").count() > MAX_FILTERS {
            return None;
        }
        let left = self.operand()?;
        self.space();
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let Some((_, operator)) = operators.into_iter().find(|(text, _)| self.eat(text)) else {
            return Some(PathStep::Filter(left, None));
        };
        let right = self.operand()?;
        self.space();
        Some(PathStep::Filter(left, Some((operator, right))))
    }

    fn operand(&mut self) -> Option<Operand> {
        self.space();
        if self.eat("@") {
            return self.path().map(Operand::Path);
        }
        if self.rest.starts_with(['\'', '"']) {
            return self.quoted().map(|text| Operand::Literal(Value::String(text)));
        }
        let text = self.take_until(|c| matches!(c, ')' | ' ' | '=' | '!' | '<' | '>'));
        let literal = match text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            number => match number.parse() {
                Ok(integer) => Value::Int(integer),
                Err(_) => Value::Float(number.parse().ok()?),
            },
        };
        Some(Operand::Literal(literal))
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    #[test]
    fn the_sources_of_a_path_contain_its_values() {
        for (path, expect) in [
            (".spec.n", &["spec.n"][..]),
            (".spec['n','list']", &["spec.n", "spec.list"]),
            (".spec.list[1].a", &["spec.list"]),
            (".status.conditions[?(@.type==\"Ready\")].status", &["status.conditions"]),
            (".metadata.annotations.a\\.b/c", &["metadata.annotations"]),
            (".spec['a<b'].c", &["spec"]),
            (".spec['*'].c", &["spec"]),
            (".spec[*].c", &["spec"]),
            ("..c", &[]),
            ("['a.b']", &[]),
        ] {
            assert_eq!(JsonPath::parse(path).expect(path).sources(), expect, "{path}");
        }
        let unions = "['a','b']".repeat(40);
        let sources = JsonPath::parse(&unions).expect("a path").sources();
        assert_eq!(sources.len(), MAX_SOURCES);
        assert_eq!(sources.first().map(String::as_str), Some("a.a.a.a"));
    }

    fn sample() -> Value {
        object! {
            "metadata": object! { "annotations": object! { "a.b/c": "x" } },
            "spec": object! { "n": 3, "list": vec![1, 2, 3, 4] },
            "status": object! { "conditions": vec![
                object! { "type": "Ready", "status": "True", "n": 1 },
                object! { "type": "Synced", "status": "False", "n": 2 },
            ] },
        }
    }

    #[test]
    fn paths_select_values() {
        let sample = sample();
        for (path, expect) in [
            (".spec.n", "[3]"),
            (".spec.nosuch", "[]"),
            (".spec.list[1]", "[2]"),
            (".spec.list[-1]", "[4]"),
            (".spec.list[9]", "[]"),
            (".spec.list[1:3]", "[2,3]"),
            (".spec.list[:-1]", "[1,2,3]"),
            (".spec.list[::2]", "[1,3]"),
            (".spec.list[1:9]", "[]"),
            (".spec.n[0]", "[]"),
            (".spec[?(@.n==1)]", "[]"),
            (".spec.list[?(@>\"1\")]", "[]"),
            (".spec.list[?(@>2.5)]", "[]"),
            (".spec.list[?(@>2)]", "[3,4]"),
            (".spec.list[*]", "[1,2,3,4]"),
            (".metadata.annotations.a\\.b/c", "[\"x\"]"),
            (".metadata.annotations['a.b/c']", "[\"x\"]"),
            (".spec['n','list']", "[3,[1,2,3,4]]"),
            (".status.conditions[?(@.type==\"Ready\")].status", "[\"True\"]"),
            (".status.conditions[?(@.type!='Ready')].status", "[\"False\"]"),
            (".status.conditions[?(@.n > 1)].type", "[\"Synced\"]"),
            (".status.conditions[?(@.nosuch)].type", "[]"),
            ("..type", "[\"Ready\",\"Synced\"]"),
            (".status.conditions[*].type", "[\"Ready\",\"Synced\"]"),
        ] {
            let found = JsonPath::parse(path).map(|path| path.find(&sample).into_iter().cloned().collect::<Vec<_>>());
            assert_eq!(found.map(|found| print::json(&Value::Array(found))).as_deref(), Some(expect), "{path}");
        }
    }

    #[test]
    fn repeated_descents_are_bounded() {
        let deep = (0..500).fold(Value::Int(1), |value, _| object! { "a": value });
        let find = |path: &str| JsonPath::parse(path).map(|path| path.find(&deep).len());
        assert_eq!(find("..a"), Some(500));
        // Each further descent multiplies the number of found values.
        assert_eq!(find(&"..a".repeat(2)), Some(500 * 499 / 2));
        assert_eq!(find(&"..a".repeat(40)), Some(0));
    }

    #[test]
    fn malformed_paths_are_rejected() {
        for path in
            [".a[", ".a[x]", ".a[?(@.b==)]", ".a[?(@.b=='x']", ".a]", ".a['b'", ".a[1:2:3:4]", "..", ".a..", "a b"]
        {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}
