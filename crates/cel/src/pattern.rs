//! Regular expressions: Go's syntax and Go's errors, run by the `regex` crate, which guarantees linear time as well.
//!
//! The two differ in details: Go's `\d`, `\w`, `\s` and `\b` know ASCII only, it has `\Q…\E` and octal escapes, takes
//! `{` as it stands where no count follows, and knows no operators within `[…]`. So patterns are rewritten.

use regex::{Regex, RegexBuilder};

/// The highest count of a repetition.
const MOST_REPEATS: u32 = 1000;
/// How deep groups may nest.
const DEEPEST: usize = 1000;

/// Compiles a pattern.
///
/// # Errors
///
/// What Go's `regexp.Compile` says.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    let mut rewriter = Rewriter { rest: pattern, whole: pattern, out: String::new(), open: 0, flags: String::new() };
    rewriter.rewrite().map_err(|(what, at)| format!("error parsing regexp: {what}: `{at}`"))?;
    let built = RegexBuilder::new(&rewriter.out).nest_limit(2 * DEEPEST as u32).build();
    built.map_err(|_| format!("error parsing regexp: expression too large: `{pattern}`"))
}

type Fault<'p> = (&'static str, &'p str);
type Res<'p, T = ()> = Result<T, Fault<'p>>;

const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];
const BAD_RANGE: &str = "invalid character class range";
const BAD_ESCAPE: &str = "invalid escape sequence";
const BAD_PERL: &str = "invalid or unsupported Perl syntax";
const BAD_COUNT: &str = "invalid repeat count";
const NO_ARGUMENT: &str = "missing argument to repetition operator";
const NESTED: &str = "invalid nested repetition operator";

struct Rewriter<'p> {
    whole: &'p str,
    rest: &'p str,
    out: String,
    /// How many groups are open.
    open: usize,
    /// Flags such as `(?i)` that were read and not written yet, since in Go a repetition behind them is of what is in
    /// front of them.
    flags: String,
}

/// The largest product of counts within a group, to refuse `(a{1000}){1000}`.
#[derive(Clone, Copy)]
struct Largest(u32);

/// What was read last, as far as repetitions care.
#[derive(Clone, Copy)]
enum Last<'p> {
    /// Nothing that could be repeated.
    Nothing,
    /// Something with a product of counts inside.
    Atom(Largest),
    /// A repetition, which began here.
    Repetition(&'p str),
}

impl<'p> Rewriter<'p> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn take(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// What was read since `from`.
    fn since(&self, from: &'p str) -> &'p str {
        &from[..from.len() - self.rest.len()]
    }

    fn write_flags(&mut self) {
        let flags = std::mem::take(&mut self.flags);
        self.out.push_str(&flags);
    }

    fn literal(&mut self, c: char) {
        let mut buffer = [0; 4];
        self.out.push_str(&regex::escape(c.encode_utf8(&mut buffer)));
    }

    fn rewrite(&mut self) -> Res<'p> {
        let mut last = Last::Nothing;
        // The largest product of counts in each group that is open, and outside of them.
        let mut inner = vec![Largest(1)];
        while let Some(c) = self.rest.chars().next() {
            let from = self.rest;
            if !matches!(c, '*' | '+' | '?' | '{') {
                self.write_flags();
            }
            last = match c {
                '(' => {
                    if self.group()? {
                        self.open += 1;
                        inner.push(Largest(1));
                        if inner.len() > DEEPEST {
                            return Err(("expression nests too deeply", self.whole));
                        }
                        Last::Nothing
                    } else {
                        last
                    }
                }
                ')' => {
                    self.next();
                    if self.open == 0 {
                        return Err(("unexpected )", self.whole));
                    }
                    self.open -= 1;
                    self.out.push(')');
                    let within = inner.pop().unwrap_or(Largest(1));
                    if let Some(around) = inner.last_mut() {
                        around.0 = around.0.max(within.0);
                    }
                    Last::Atom(within)
                }
                '|' => {
                    self.next();
                    self.out.push('|');
                    Last::Nothing
                }
                '*' | '+' | '?' => {
                    self.next();
                    self.out.push(c);
                    self.repeated(from, last)?
                }
                '{' => match self.count()? {
                    Some((low, high)) => {
                        let shown = self.since(from);
                        let most = high.unwrap_or(low).max(low);
                        if high.is_some_and(|high| low > high) || most > MOST_REPEATS {
                            return Err((BAD_COUNT, shown));
                        }
                        self.out.push_str(shown);
                        let product = match last {
                            Last::Atom(within) => within.0.saturating_mul(most.max(1)),
                            _ => most,
                        };
                        let after = self.repeated(from, last)?;
                        if product > MOST_REPEATS {
                            return Err((BAD_COUNT, shown));
                        }
                        if let Some(around) = inner.last_mut() {
                            around.0 = around.0.max(product);
                        }
                        after
                    }
                    None => {
                        self.next();
                        self.write_flags();
                        self.literal('{');
                        Last::Atom(Largest(1))
                    }
                },
                '[' => {
                    self.class()?;
                    Last::Atom(Largest(1))
                }
                '\\' => self.escape()?,
                '^' | '$' | '.' => {
                    self.next();
                    self.out.push(c);
                    Last::Atom(Largest(1))
                }
                c => {
                    self.next();
                    self.literal(c);
                    Last::Atom(Largest(1))
                }
            };
        }
        if self.open == 0 { Ok(()) } else { Err(("missing closing )", self.whole)) }
    }

    /// After a repetition operator that began at `from`.
    fn repeated(&mut self, from: &'p str, last: Last<'p>) -> Res<'p, Last<'p>> {
        if self.take("?") {
            self.out.push('?');
        }
        match last {
            Last::Nothing => Err((NO_ARGUMENT, self.since(from))),
            Last::Repetition(before) => Err((NESTED, &before[..before.len() - self.rest.len()])),
            Last::Atom(_) => Ok(Last::Repetition(from)),
        }
    }

    /// `{n}`, `{n,}` or `{n,m}`; anything else is a brace as it stands.
    fn count(&mut self) -> Res<'p, Option<(u32, Option<u32>)>> {
        let Some(end) = self.rest.find('}') else { return Ok(None) };
        let (low, high) = match self.rest[1..end].split_once(',') {
            Some((low, "")) => (low, None),
            Some((low, high)) => (low, Some(high)),
            None => (&self.rest[1..end], Some(&self.rest[1..end])),
        };
        let number = |text: &str| {
            let valid = !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_digit())
                && !(text.len() > 1 && text.starts_with('0'));
            valid.then(|| text.parse().unwrap_or(u32::MAX))
        };
        let (Some(low), high) = (number(low), high.map(number)) else { return Ok(None) };
        let high = match high {
            None => None,
            Some(Some(high)) => Some(high),
            Some(None) => return Ok(None),
        };
        self.rest = &self.rest[end + 1..];
        Ok(Some((low, high)))
    }

    /// The beginning of a group, or flags. True if a group was opened.
    fn group(&mut self) -> Res<'p, bool> {
        let from = self.rest;
        self.next();
        if !self.take("?") {
            self.out.push('(');
            return Ok(true);
        }
        if self.take("P<") || self.take("<") {
            let Some(end) = self.rest.find('>') else { return Err(("invalid named capture", from)) };
            let name = &self.rest[..end];
            self.rest = &self.rest[end + 1..];
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_alphanumeric()) {
                return Err(("invalid named capture", self.since(from)));
            }
            // Names are not asked for, and Go's may begin with a digit.
            self.out.push('(');
            return Ok(true);
        }
        let mut flags = String::new();
        loop {
            match self.next() {
                Some(c @ ('i' | 'm' | 's' | 'U')) => flags.push(c),
                Some('-') if !flags.contains('-') => flags.push('-'),
                Some(c @ (':' | ')')) if !flags.ends_with('-') => {
                    let written = format!("(?{flags}{c}");
                    if c == ':' {
                        self.out.push_str(&written);
                    } else if !flags.is_empty() {
                        self.flags.push_str(&written);
                    }
                    return Ok(c == ':');
                }
                _ => return Err((BAD_PERL, self.since(from))),
            }
        }
    }

    fn escape(&mut self) -> Res<'p, Last<'p>> {
        let from = self.rest;
        self.next();
        let atom = Last::Atom(Largest(1));
        match self.rest.chars().next() {
            None => return Err(("trailing backslash at end of expression", "")),
            Some('A') => self.out.push_str("\\A"),
            Some('z') => self.out.push_str("\\z"),
            Some('b') => self.out.push_str("(?-u:\\b)"),
            Some('B') => self.out.push_str("\\B"),
            Some('Q') => {
                self.next();
                let (text, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
                self.rest = rest;
                self.out.push_str(&regex::escape(text));
                return Ok(if text.is_empty() { Last::Nothing } else { atom });
            }
            Some(c) => {
                if let Some(class) = perl_class(c) {
                    self.next();
                    self.out.push('[');
                    self.out.push_str(class);
                    self.out.push(']');
                    return Ok(atom);
                }
                if matches!(c, 'p' | 'P') {
                    self.unicode_class(from)?;
                    return Ok(atom);
                }
                let c = self.escaped_char(from)?;
                self.literal(c);
                return Ok(atom);
            }
        }
        self.next();
        Ok(atom)
    }

    /// The character that the escape sequence at `from` stands for; the backslash is read already.
    fn escaped_char(&mut self, from: &'p str) -> Res<'p, char> {
        let Some(c) = self.next() else { return Err(("trailing backslash at end of expression", "")) };
        let code = match c {
            'a' => 0x07,
            'f' => 0x0c,
            'n' => 0x0a,
            'r' => 0x0d,
            't' => 0x09,
            'v' => 0x0b,
            '1'..='7' if !self.rest.starts_with(|c| matches!(c, '0'..='7')) => {
                return Err((BAD_ESCAPE, self.since(from)));
            }
            '0'..='7' => {
                let mut code = c.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else { break };
                    code = code * 8 + digit;
                    self.next();
                }
                code
            }
            'x' => {
                let digits = if self.take("{") {
                    let end = self.rest.find('}').ok_or((BAD_ESCAPE, from))?;
                    let digits = &self.rest[..end];
                    self.rest = &self.rest[end + 1..];
                    digits
                } else {
                    let digits = self.rest.get(..2).ok_or((BAD_ESCAPE, from))?;
                    self.rest = &self.rest[2..];
                    digits
                };
                let valid = digits.bytes().all(|b| b.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| valid);
                code.ok_or((BAD_ESCAPE, self.since(from)))?
            }
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => c as u32,
            _ => return Err((BAD_ESCAPE, self.since(from))),
        };
        char::from_u32(code).ok_or((BAD_ESCAPE, self.since(from)))
    }

    /// `\pL`, `\p{Greek}`, `\P{^Greek}`; the backslash is read already.
    fn unicode_class(&mut self, from: &'p str) -> Res<'p> {
        let mut negated = self.next() == Some('P');
        let name = if self.take("{") {
            let Some(end) = self.rest.find('}') else { return Err((BAD_RANGE, from)) };
            let name = &self.rest[..end];
            self.rest = &self.rest[end + 1..];
            name
        } else {
            let length = self.rest.chars().next().map_or(0, char::len_utf8);
            let (name, rest) = self.rest.split_at(length);
            self.rest = rest;
            name
        };
        let name = match name.strip_prefix('^') {
            Some(name) => {
                negated = !negated;
                name
            }
            None => name,
        };
        let class = match name {
            "Any" => if negated { "[^\\x{0}-\\x{10FFFF}]" } else { "[\\x{0}-\\x{10FFFF}]" }.to_owned(),
            name => format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' }),
        };
        // Go's names begin with a capital letter.
        if !name.starts_with(|c: char| c.is_ascii_uppercase()) || Regex::new(&class).is_err() {
            return Err((BAD_RANGE, self.since(from)));
        }
        self.out.push_str(&class);
        Ok(())
    }

    /// `[…]`
    fn class(&mut self) -> Res<'p> {
        let from = self.rest;
        self.next();
        self.out.push('[');
        if self.take("^") {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            match self.rest.chars().next() {
                None => return Err(("missing closing ]", from)),
                Some(']') if !first => break,
                _ => {}
            }
            first = false;
            self.class_item(from)?;
        }
        self.next();
        self.out.push(']');
        Ok(())
    }

    fn class_item(&mut self, class: &'p str) -> Res<'p> {
        let item = self.rest;
        if item.starts_with("[:")
            && let Some(end) = item.find(":]")
        {
            let name = &item[..end + 2];
            if !POSIX_CLASSES.contains(&item[2..end].trim_start_matches('^')) {
                return Err((BAD_RANGE, name));
            }
            self.rest = &item[end + 2..];
            self.out.push_str(name);
            return Ok(());
        }
        if let Some(escaped) = item.strip_prefix('\\')
            && let Some(c) = escaped.chars().next()
        {
            if let Some(ranges) = perl_class(c) {
                self.rest = &escaped[1..];
                self.out.push('[');
                self.out.push_str(ranges);
                self.out.push(']');
                return Ok(());
            }
            if matches!(c, 'p' | 'P') {
                self.next();
                return self.unicode_class(item);
            }
        }
        let low = self.class_char(class)?;
        self.literal(low);
        if self.rest.starts_with('-') && self.rest.len() > 1 && !self.rest[1..].starts_with(']') {
            self.next();
            let high = self.class_char(class)?;
            if high < low {
                return Err((BAD_RANGE, self.since(item)));
            }
            self.out.push('-');
            self.literal(high);
        }
        Ok(())
    }

    fn class_char(&mut self, class: &'p str) -> Res<'p, char> {
        let from = self.rest;
        match self.next() {
            None => Err(("missing closing ]", class)),
            Some('\\') => self.escaped_char(from),
            Some(c) => Ok(c),
        }
    }
}

/// The ranges of `\d` and its like, in ASCII.
fn perl_class(c: char) -> Option<&'static str> {
    Some(match c {
        'd' => "0-9",
        'D' => "^0-9",
        's' => r"\t\n\x0C\r ",
        'S' => r"^\t\n\x0C\r ",
        'w' => "0-9A-Za-z_",
        'W' => "^0-9A-Za-z_",
        _ => return None,
    })
}
