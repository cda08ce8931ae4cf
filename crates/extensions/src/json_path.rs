//! JSONPath as definitions use it to say where a column or a selectable field is (upstream: client-go's
//! `util/jsonpath`): fields, items, slices, unions, wildcards, filters and recursive descent.

use pintle_value::{Str, Value};

/// A path into a tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// The values of these fields, in this order.
    Fields(Vec<Str>),
    /// The items from a place on to another one, every so many; negative places count from the end.
    Slice { from: Option<i64>, to: Option<i64>, by: i64 },
    /// One item.
    Item(i64),
    /// All values of an object, or all items of an array.
    All,
    /// All values at any depth, the value itself first.
    Descend,
    /// The items for which a comparison holds.
    Filter(Operand, Option<(Compare, Operand)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    /// A path from the item.
    Path(JsonPath),
    Literal(Value),
}

impl JsonPath {
    /// Reads a path (`.status.conditions[?(@.type=="Ready")].status`); `None` if it is malformed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text };
        let path = parser.path()?;
        parser.rest.is_empty().then_some(path)
    }

    /// What is at the path, in order.
    pub(crate) fn find<'v>(&self, root: &'v Value) -> Vec<&'v Value> {
        let mut found = vec![root];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.from(value)).collect();
        }
        found
    }
}

impl Step {
    fn from<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match self {
            Step::Fields(names) => names.iter().filter_map(|name| value.as_object()?.get(name)).collect(),
            Step::All => children(value),
            Step::Descend => {
                let mut found = vec![value];
                let mut next = 0;
                while let Some(value) = found.get(next).copied() {
                    found.extend(children(value));
                    next += 1;
                }
                found
            }
            Step::Item(place) => {
                let items = items(value);
                position(*place, items.len()).and_then(|place| items.get(place)).into_iter().collect()
            }
            Step::Slice { from, to, by } => {
                let items = items(value);
                let end = |place: Option<i64>, other: usize| match place {
                    None => other,
                    Some(place) if place < 0 => items.len().saturating_sub(usize::try_from(-place).unwrap_or(0)),
                    Some(place) => usize::try_from(place).unwrap_or(0).min(items.len()),
                };
                let (from, to) = (end(*from, 0), end(*to, items.len()));
                let by = usize::try_from(*by).unwrap_or(1).max(1);
                items.get(from..to).unwrap_or_default().iter().step_by(by).collect()
            }
            Step::Filter(left, compare) => {
                items(value).iter().filter(|item| holds(left, compare.as_ref(), item)).collect()
            }
        }
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

fn position(place: i64, length: usize) -> Option<usize> {
    if place >= 0 {
        return usize::try_from(place).ok();
    }
    length.checked_sub(usize::try_from(place.unsigned_abs()).ok()?)
}

fn holds(left: &Operand, compare: Option<&(Compare, Operand)>, item: &Value) -> bool {
    let Some((compare, right)) = compare else { return left.of(item).is_some() };
    let (Some(left), Some(right)) = (left.of(item), right.of(item)) else { return false };
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => a.as_str().partial_cmp(b.as_str()),
        (Value::Bool(a), Value::Bool(b)) => a.partial_cmp(b),
        (a, b) => a.as_float().zip(b.as_float()).and_then(|(a, b)| a.partial_cmp(&b)),
    };
    match compare {
        Compare::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
        Compare::NotEqual => order.is_some_and(std::cmp::Ordering::is_ne),
        Compare::Less => order.is_some_and(std::cmp::Ordering::is_lt),
        Compare::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
        Compare::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
        Compare::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
    }
}

impl Operand {
    fn of<'v>(&'v self, item: &'v Value) -> Option<&'v Value> {
        match self {
            Operand::Path(path) => path.find(item).into_iter().next(),
            Operand::Literal(value) => Some(value),
        }
    }
}

/// How deep filters may stand in filters.
const DEEPEST: usize = 8;

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

    /// What comes before the first character for which `ends` says so.
    fn until(&mut self, ends: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        text
    }

    fn path(&mut self) -> Option<JsonPath> {
        let mut steps = Vec::new();
        loop {
            if self.eat("..") {
                steps.push(Step::Descend);
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

    fn field(&mut self) -> Option<Step> {
        if self.eat("*") {
            return Some(Step::All);
        }
        let mut name = String::new();
        loop {
            name.push_str(self.until(|c| matches!(c, '.' | '[' | ']' | ' ' | '=' | '!' | '<' | '>' | ')' | '\\')));
            if !self.eat("\\") {
                break;
            }
            let escaped = self.rest.chars().next()?;
            name.push(escaped);
            self.rest = &self.rest[escaped.len_utf8()..];
        }
        (!name.is_empty()).then(|| Step::Fields(vec![name.into()]))
    }

    fn brackets(&mut self) -> Option<Step> {
        self.space();
        let step = if self.eat("*") {
            Step::All
        } else if self.eat("?(") {
            let filter = self.filter()?;
            self.eat(")").then_some(filter)?
        } else if self.rest.starts_with(['\'', '"']) {
            let mut names = vec![self.quoted()?];
            while self.eat(",") {
                self.space();
                names.push(self.quoted()?);
            }
            Step::Fields(names)
        } else {
            self.places()?
        };
        self.space();
        self.eat("]").then_some(step)
    }

    fn quoted(&mut self) -> Option<Str> {
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        self.rest = &self.rest[1..];
        let text = self.until(|c| c == quote);
        self.eat(if quote == '"' { "\"" } else { "'" }).then(|| text.into())
    }

    fn places(&mut self) -> Option<Step> {
        let text = self.until(|c| c == ']').trim();
        let place = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            [only] => only.parse().ok().map(Step::Item),
            [from, to] => Some(Step::Slice { from: place(from)?, to: place(to)?, by: 1 }),
            [from, to, by] => Some(Step::Slice { from: place(from)?, to: place(to)?, by: place(by)?.unwrap_or(1) }),
            _ => None,
        }
    }

    fn filter(&mut self) -> Option<Step> {
        if self.rest.matches("?(").count() > DEEPEST {
            return None;
        }
        let left = self.operand()?;
        self.space();
        let compares = [
            ("==", Compare::Equal),
            ("!=", Compare::NotEqual),
            ("<=", Compare::LessOrEqual),
            (">=", Compare::GreaterOrEqual),
            ("<", Compare::Less),
            (">", Compare::Greater),
        ];
        let Some((_, compare)) = compares.into_iter().find(|(text, _)| self.eat(text)) else {
            return Some(Step::Filter(left, None));
        };
        let right = self.operand()?;
        self.space();
        Some(Step::Filter(left, Some((compare, right))))
    }

    fn operand(&mut self) -> Option<Operand> {
        self.space();
        if self.eat("@") {
            return self.path().map(Operand::Path);
        }
        if self.rest.starts_with(['\'', '"']) {
            return self.quoted().map(|text| Operand::Literal(Value::String(text)));
        }
        let text = self.until(|c| matches!(c, ')' | ' ' | '=' | '!' | '<' | '>'));
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

    fn tree() -> Value {
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
    fn paths() {
        let tree = tree();
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
            (".status.conditions[?(@.nosuch)].type", "[]"),
            ("..type", "[\"Ready\",\"Synced\"]"),
            (".status.conditions[*].type", "[\"Ready\",\"Synced\"]"),
        ] {
            let found = JsonPath::parse(path).map(|path| path.find(&tree).into_iter().cloned().collect::<Vec<_>>());
            assert_eq!(found.map(|found| print::json(&Value::Array(found))).as_deref(), Some(expect), "{path}");
        }
    }

    #[test]
    fn malformed() {
        for path in
            [".a[", ".a[x]", ".a[?(@.b==)]", ".a[?(@.b=='x']", ".a]", ".a['b'", ".a[1:2:3:4]", "..", ".a..", "a b"]
        {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}
