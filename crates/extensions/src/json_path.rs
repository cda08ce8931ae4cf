//! JSONPath for printer columns and selectable fields (upstream: client-go's `util/jsonpath`): fields, items, slices,
//! unions, wildcards, filters and recursive descent.

use pintle_value::{Str, Value};

/// A parsed JSONPath.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<PathStep>);

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
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text };
        let path = parser.path()?;
        parser.rest.is_empty().then_some(path)
    }

    /// Returns the values at the path, in order. None if a filter cannot compare what it finds.
    pub(crate) fn find<'v>(&self, root: &'v Value) -> Vec<&'v Value> {
        self.try_find(root).unwrap_or_default()
    }

    /// # Errors
    /// Returns an error if a filter compares values of different types.
    fn try_find<'v>(&self, root: &'v Value) -> Result<Vec<&'v Value>, Incomparable> {
        let mut found = vec![root];
        for step in &self.0 {
            let next: Result<Vec<Vec<&Value>>, Incomparable> =
                found.into_iter().map(|value| step.from(value)).collect();
            found = next?.concat();
        }
        Ok(found)
    }
}

/// Values that Go's templates do not compare (`errBadComparison`). The whole path finds nothing then.
#[derive(Debug)]
struct Incomparable;

impl PathStep {
    fn from<'v>(&self, value: &'v Value) -> Result<Vec<&'v Value>, Incomparable> {
        Ok(match self {
            PathStep::Fields(names) => names.iter().filter_map(|name| value.as_object()?.get(name)).collect(),
            PathStep::All => children(value),
            PathStep::Descend => {
                let mut found = vec![value];
                let mut next = 0;
                while let Some(value) = found.get(next).copied() {
                    found.extend(children(value));
                    next += 1;
                }
                found
            }
            PathStep::Item(index) => {
                let items = items(value);
                position(*index, items.len()).and_then(|index| items.get(index)).into_iter().collect()
            }
            PathStep::Slice { from, to, by } => {
                let items = items(value);
                let end = |index: Option<i64>, other: usize| match index {
                    None => other,
                    Some(index) if index < 0 => items.len().saturating_sub(usize::try_from(-index).unwrap_or(0)),
                    Some(index) => usize::try_from(index).unwrap_or(0).min(items.len()),
                };
                let (from, to) = (end(*from, 0), end(*to, items.len()));
                let by = usize::try_from(*by).unwrap_or(1).max(1);
                items.get(from..to).unwrap_or_default().iter().step_by(by).collect()
            }
            PathStep::Filter(left, operator) => {
                let mut matching = Vec::new();
                for item in items(value) {
                    if is_match(left, operator.as_ref(), item)? {
                        matching.push(item);
                    }
                }
                matching
            }
        })
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(object) => object.values().collect(),
        _ => Vec::new(),
    }
}

fn position(index: i64, length: usize) -> Option<usize> {
    if index >= 0 {
        return usize::try_from(index).ok();
    }
    length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
}

fn is_match(left: &Operand, operator: Option<&(Operator, Operand)>, item: &Value) -> Result<bool, Incomparable> {
    let Some((operator, right)) = operator else { return Ok(left.of(item)?.is_some()) };
    let (Some(left), Some(right)) = (left.of(item)?, right.of(item)?) else { return Ok(false) };
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => a.as_str().partial_cmp(b.as_str()),
        (Value::Bool(a), Value::Bool(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Int(b)) => a.partial_cmp(b),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        _ => return Err(Incomparable),
    };
    Ok(match operator {
        Operator::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
        Operator::NotEqual => order.is_some_and(std::cmp::Ordering::is_ne),
        Operator::Less => order.is_some_and(std::cmp::Ordering::is_lt),
        Operator::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
        Operator::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
        Operator::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
    })
}

impl Operand {
    /// The value for an item, if there is one.
    fn of<'v>(&'v self, item: &'v Value) -> Result<Option<&'v Value>, Incomparable> {
        match self {
            Operand::Path(path) => match path.try_find(item)?.as_slice() {
                [] => Ok(None),
                [found] => Ok(Some(found)),
                _ => Err(Incomparable),
            },
            Operand::Literal(value) => Ok(Some(value)),
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
    use pintle_value::{object, print};

    use super::*;

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
            (".spec.list[*]", "[1,2,3,4]"),
            (".metadata.annotations.a\\.b/c", "[\"x\"]"),
            (".metadata.annotations['a.b/c']", "[\"x\"]"),
            (".spec['n','list']", "[3,[1,2,3,4]]"),
            (".status.conditions[?(@.type==\"Ready\")].status", "[\"True\"]"),
            (".status.conditions[?(@.type!='Ready')].status", "[\"False\"]"),
            (".status.conditions[?(@.n > 1)].type", "[\"Synced\"]"),
            (".status.conditions[?(@.n==\"1\")].type", "[]"),
            (".status.conditions[?(@.n!=\"1\")].type", "[]"),
            (".status.conditions[?(@.nosuch)].type", "[]"),
            ("..type", "[\"Ready\",\"Synced\"]"),
            (".status.conditions[*].type", "[\"Ready\",\"Synced\"]"),
        ] {
            let found = JsonPath::parse(path).map(|path| path.find(&sample).into_iter().cloned().collect::<Vec<_>>());
            assert_eq!(found.map(|found| print::json(&Value::Array(found))).as_deref(), Some(expect), "{path}");
        }
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
