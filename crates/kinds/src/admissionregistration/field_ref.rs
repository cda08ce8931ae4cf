//! The syntax of JSONPath in references to fields in the status of a policy (upstream: client-go's
//! `util/jsonpath/parser.go`). Paths are only checked, never evaluated.

/// The nesting beyond which a path is refused. Upstream has no limit.
const MAX_DEPTH: usize = 32;

/// Checks the path inside an action, that is between `{` and `}`.
///
/// # Errors
/// Returns upstream's message if it is malformed.
pub(super) fn check(path: &str) -> Result<(), String> {
    parse_action(path, 0).map(drop)
}

/// The last node of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastNode {
    None,
    RecursiveDescent,
    Other,
}

/// Parses a text as an action, perhaps with more text and actions after it. Returns the last node of the first action.
fn parse_action(text: &str, depth: usize) -> Result<LastNode, String> {
    if depth > MAX_DEPTH {
        return Err("too many levels".to_owned());
    }
    let text = format!("{{{text}}}");
    let mut parser = Parser { text: &text, position: 0, start: 0, depth };
    let mut first = None;
    while let Some(brace) = parser.rest().find('{') {
        parser.position += brace + 1;
        parser.consume();
        let last = parser.action()?;
        first.get_or_insert(last);
    }
    Ok(first.unwrap_or(LastNode::None))
}

struct Parser<'t> {
    text: &'t str,
    position: usize,
    /// The start of the text that is not consumed yet.
    start: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.position..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.position += next.map_or(0, char::len_utf8);
        next
    }

    fn skip_while(&mut self, is_skipped: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.position += rest.find(|c| !is_skipped(c)).unwrap_or(rest.len());
    }

    /// The text since the last call.
    fn consume(&mut self) -> &'t str {
        let text = &self.text[self.start..self.position];
        self.start = self.position;
        text
    }

    /// True if a backslash precedes the byte that was read last.
    fn is_escaped(&self) -> bool {
        self.position >= 2 && self.text.as_bytes()[self.position - 2] == b'\\'
    }

    /// Parses the rest of an action, with the brace at its end.
    fn action(&mut self) -> Result<LastNode, String> {
        let mut last = LastNode::None;
        loop {
            let rest = self.rest();
            if rest.starts_with('}') {
                self.position += 1;
                self.consume();
                return Ok(last);
            }
            if rest.starts_with("[?(") {
                self.filter()?;
                last = LastNode::Other;
                continue;
            }
            if rest.starts_with("..") {
                if last == LastNode::RecursiveDescent {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                self.position += 2;
                self.consume();
                last = LastNode::RecursiveDescent;
                if self.peek().is_some_and(is_alphanumeric) {
                    self.field();
                    last = LastNode::Other;
                }
                continue;
            }
            match self.next() {
                None | Some('\r' | '\n') => return Err("unclosed action".to_owned()),
                Some(' ' | '@' | '$') => {
                    self.consume();
                    continue;
                }
                Some('[') => {
                    let inner = self.array()?;
                    if inner != LastNode::None {
                        last = inner;
                    }
                    continue;
                }
                Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
                Some('.') => self.field(),
                Some(c) if matches!(c, '+' | '-') || is_digit(c) => {
                    self.position -= c.len_utf8();
                    self.number()?;
                }
                Some(c) if is_alphanumeric(c) => {
                    self.skip_while(|c| !is_terminator(c));
                    self.consume();
                }
                Some(c) => return Err(format!("unrecognized character in action: {}", describe(c))),
            }
            last = LastNode::Other;
        }
    }

    fn field(&mut self) {
        self.consume();
        while let Some(c) = self.peek().filter(|c| !is_terminator(*c)) {
            self.next();
            if c == '\\' {
                self.next();
            }
        }
        self.consume();
    }

    fn number(&mut self) -> Result<(), String> {
        if matches!(self.peek(), Some('+' | '-')) {
            self.next();
        }
        self.skip_while(|c| c == '.' || is_digit(c));
        let text = self.consume();
        let number: Option<f64> = text.parse().ok();
        match number.is_some_and(f64::is_finite) {
            true => Ok(()),
            false => Err(format!("cannot parse number {text}")),
        }
    }

    /// Parses an index, a slice, a union or the name of a field, and the rest of the action. Returns the last node of
    /// the action, or nothing if the brackets have no nodes.
    fn array(&mut self) -> Result<LastNode, String> {
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated array".to_owned()),
                Some(']') => break,
                Some(_) => {}
            }
        }
        let text = self.consume();
        let text = &text[1..text.len() - 1];
        if text.contains(',') {
            for item in text.split(',') {
                parse_action(&format!("[{}]", item.trim_matches(' ')), self.depth + 1)?;
            }
            return Ok(LastNode::Other);
        }
        let name = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).filter(|name| !name.contains('\''));
        match name {
            Some(name) => parse_action(&format!(".{name}"), self.depth + 1),
            None if text == "*" => Ok(LastNode::Other),
            None => check_slice(text).map(|()| LastNode::Other),
        }
    }

    fn filter(&mut self) -> Result<(), String> {
        self.position += "[?(".len();
        self.consume();
        let (mut quote, mut is_closed) = (None, false);
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated filter".to_owned()),
                Some(c @ ('"' | '\'')) => match quote {
                    None => quote = Some(c),
                    Some(quote) => is_closed |= quote == c && !self.is_escaped(),
                },
                // As upstream, there is one text in quotes, and it begins before the parenthesis.
                Some(')') if quote.is_some() == is_closed => break,
                Some(_) => {}
            }
        }
        if self.next() != Some(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        let text = self.consume();
        match comparison(&text[..text.len() - 2]) {
            Some((left, right)) => {
                parse_action(left, self.depth + 1)?;
                parse_action(right, self.depth + 1)?;
            }
            None => drop(parse_action(&text[..text.len() - 2], self.depth + 1)?),
        }
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<(), String> {
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated quoted string".to_owned()),
                Some(c) if c == quote && !self.is_escaped() => break,
                Some(_) => {}
            }
        }
        let text = self.consume();
        match text.len() >= 2 && can_unquote(&text[1..text.len() - 1], quote) {
            true => Ok(()),
            false => Err(format!("unquote string {text} error invalid syntax")),
        }
    }
}

/// The operands of a comparison in a filter (upstream: `^([^!<>=]+)([!<>=]+)(.+?)$`).
fn comparison(text: &str) -> Option<(&str, &str)> {
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let from = text.find(is_operator).filter(|from| *from > 0)?;
    let to = text[from..].find(|c| !is_operator(c)).map(|length| from + length);
    // In a text of operators alone, the last one is the right operand.
    let to = to.or_else(|| (text.len() - from > 1).then(|| text.len() - 1))?;
    // The text has no line break, which the expression would not match.
    Some((&text[..from], &text[to..]))
}

/// Checks an index or a slice: up to three numbers, separated by colons.
fn check_slice(text: &str) -> Result<(), String> {
    let parts: Vec<&str> = text.split(':').collect();
    let is_number = |part: &&str| part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit());
    if parts.len() > 3 || !parts.iter().all(is_number) {
        return Err(format!("invalid array index {text}"));
    }
    match parts.iter().find(|part| !part.is_empty() && part.parse::<i64>().is_err()) {
        Some(part) => Err(format!("array index {part} is not a number")),
        None => Ok(()),
    }
}

/// True if a text has only escape sequences of Go (upstream: `UnquoteExtend`).
fn can_unquote(text: &str, quote: char) -> bool {
    if !text.contains(['\\', quote]) {
        return true;
    }
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let is_valid = match c {
            '\\' => match rest.next() {
                Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\') => true,
                Some(escaped @ ('"' | '\'')) => escaped == quote,
                Some('x') => number(&mut rest, 2, 16).is_some(),
                Some('u') => number(&mut rest, 4, 16).and_then(char::from_u32).is_some(),
                Some('U') => number(&mut rest, 8, 16).and_then(char::from_u32).is_some(),
                Some(first @ '0'..='7') => {
                    let first = u32::from(first) - u32::from('0');
                    number(&mut rest, 2, 8).is_some_and(|number| first * 64 + number <= 255)
                }
                _ => false,
            },
            c => c != quote,
        };
        if !is_valid {
            return false;
        }
    }
    true
}

/// A number of some digits.
fn number(rest: &mut std::str::Chars<'_>, digits: usize, radix: u32) -> Option<u32> {
    (0..digits).try_fold(0_u32, |number, _| Some(number.wrapping_mul(radix) + rest.next()?.to_digit(radix)?))
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// A character as Go's `%#U` prints it.
fn describe(c: char) -> String {
    let code = format!("U+{:04X}", u32::from(c));
    let is_printed = !c.is_control() && (!c.is_whitespace() || c == ' ');
    if is_printed { format!("{code} '{c}'") } else { code }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected errors come from client-go's parser.
    #[test]
    fn references_are_paths() {
        let check = |path: &str, expect: Result<(), &str>| {
            assert_eq!(super::check(path), expect.map_err(str::to_owned), "{path}");
        };
        for path in PATHS {
            check(path, Ok(()));
        }
        for (path, why) in FAULTS {
            check(path, Err(why));
        }
    }

    #[test]
    fn repeated_brackets_are_errors() {
        for brackets in ["[?(", "['", "{", "[?(\"", "[?(\\\"[?('", "[?(@.a=="] {
            let path = format!("a{}", brackets.repeat(20_000));
            assert!(check(&path).is_err(), "{brackets}");
        }
    }

    const PATHS: &[&str] = &[
        "spec.validations[0].expression",
        "spec.validations[*].messageExpression",
        ".spec",
        "$.spec..a",
        "..",
        "@.a['b.c']",
        "a[1:2:3]",
        "a[-1:]",
        "a[::]",
        "a[]",
        "a['b','c']",
        "a[0, 1]",
        "a\\.b",
        "a}b{c",
        "range .a",
        "true",
        "1.5",
        "+1",
        "-1e",
        "'a\\'b'",
        "\"\\u00e9\\x41\\101\"",
        "[?(@.a==\"b)\")]",
        "[?(@.a)]",
        "[?(a>=1)]",
        "é.ü",
        "['}x']",
        "",
        "...",
        "[?(@.a==\"x\"y\"z\")]",
        "a b",
        "a-b",
        " a ",
        "a}{b",
    ];
    const FAULTS: &[(&str, &str)] = &[
        ("[?(==)]", "unrecognized character in action: U+003D '='"),
        ("....", "invalid multiple recursive descent"),
        ("a....b", "invalid multiple recursive descent"),
        ("['.']..a", "invalid multiple recursive descent"),
        ("a[x]", "invalid array index x"),
        ("a[1:2:3:4]", "invalid array index 1:2:3:4"),
        ("a[--1]", "invalid array index --1"),
        ("a[99999999999999999999]", "array index 99999999999999999999 is not a number"),
        ("a[-]", "array index - is not a number"),
        ("a['b'c']", "invalid array index 'b'c'"),
        ("a[\"b\"]", "invalid array index \"b\""),
        ("a['b'", "unterminated array"),
        ("a[0,x]", "invalid array index x"),
        ("[?(@.a", "unterminated filter"),
        ("[?(@.a)", "unclosed array expect ]"),
        ("[?(@.a)x]", "unclosed array expect ]"),
        ("[?(@.a==)]", "unrecognized character in action: U+003D '='"),
        ("[?(=a)]", "unrecognized character in action: U+003D '='"),
        ("[?(\"a)]", "unterminated filter"),
        ("'a", "unterminated quoted string"),
        ("\"a\\", "unterminated quoted string"),
        ("'\\q'", "unquote string '\\q' error invalid syntax"),
        ("\"\\'\"", "unquote string \"\\'\" error invalid syntax"),
        ("\"\\777\"", "unquote string \"\\777\" error invalid syntax"),
        ("\"\\ud800\"", "unquote string \"\\ud800\" error invalid syntax"),
        ("1.2.3", "cannot parse number 1.2.3"),
        ("+", "cannot parse number +"),
        ("*", "unrecognized character in action: U+002A '*'"),
        ("(a)", "unrecognized character in action: U+0028 '('"),
        ("a{b", "unrecognized character in action: U+007B '{'"),
        ("a\nb", "unclosed action"),
        ("a\\\nb", "unclosed action"),
        (":", "unrecognized character in action: U+003A ':'"),
        ("/", "unrecognized character in action: U+002F '/'"),
        ("~", "unrecognized character in action: U+007E '~'"),
        ("[ 0 ]", "invalid array index  0 "),
        ("😀", "unrecognized character in action: U+1F600 '😀'"),
        ("{.a}", "unrecognized character in action: U+007B '{'"),
        ("a}{b[x]}", "invalid array index x"),
    ];
}
