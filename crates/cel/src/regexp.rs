//! Compiles regular expressions with the syntax and errors of Go's `regexp` package. The `regex` crate executes them,
//! in linear time like Go's.
//!
//! The two syntaxes differ in details, so a rewriter translates patterns. In Go, `\d`, `\w`, `\s` and `\b` match ASCII
//! only. `\Q…\E` and octal escapes exist. `{` is a literal unless a repeat count follows. Character classes have no set
//! operators.

use std::collections::HashSet;

use pintle_budget as budget;
use regex::{Regex, RegexBuilder};

/// The maximum repeat count.
const MAX_REPEAT: u32 = 1000;
/// The maximum nesting depth of groups.
const MAX_DEPTH: usize = 1000;

/// The maximum cost of a search: the size of the pattern, with its repetitions, times the length of the text. A search
/// of this cost takes seconds. Go has no such limit.
const MAX_SEARCH_COST: usize = 500_000_000;
/// The size of a class, which matches one of several characters. Characters beyond ASCII take several steps.
const CLASS_SIZE: usize = 8;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    /// The number of characters and classes in the pattern, as if each repetition with a count were written out.
    size: usize,
}

impl Pattern {
    /// The expression, for a search in this text.
    ///
    /// # Errors
    /// Pattern and text are so large that the search would take too long.
    pub fn searching(&self, text: &str) -> Result<&Regex, String> {
        match self.size.checked_mul(text.len()) {
            Some(cost) if cost <= MAX_SEARCH_COST => {
                // Most searches take about a nanosecond for each byte.
                budget::spend(text.len() / 16).map_err(|why| why.to_string())?;
                Ok(&self.regex)
            }
            _ => Err("the regular expression and the text are too large for a search".to_owned()),
        }
    }
}

/// Compiles a regular expression.
///
/// # Errors
///
/// Returns the error message of Go's `regexp.Compile`.
pub fn compile(pattern: &str) -> Result<Pattern, String> {
    let mut rewriter = Rewriter {
        rest: pattern,
        pattern,
        out: String::new(),
        open_groups: 0,
        flags: String::new(),
        classes: HashSet::new(),
        sizes: PatternSizes { open: vec![0], last: 0 },
    };
    rewriter.rewrite().map_err(|(what, at)| format!("error parsing regexp: {what}: `{at}`"))?;
    let built = RegexBuilder::new(&rewriter.out).nest_limit(2 * MAX_DEPTH as u32).build();
    let regex = built.map_err(|_| format!("error parsing regexp: expression too large: `{pattern}`"))?;
    Ok(Pattern { regex, size: rewriter.sizes.total() })
}

type RegexpError<'p> = (&'static str, &'p str);
type RegexpResult<'p, T = ()> = Result<T, RegexpError<'p>>;

const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];
const INVALID_CHAR_RANGE: &str = "invalid character class range";
const INVALID_ESCAPE: &str = "invalid escape sequence";
const INVALID_PERL_OP: &str = "invalid or unsupported Perl syntax";
const INVALID_REPEAT_SIZE: &str = "invalid repeat count";
const MISSING_REPEAT_ARGUMENT: &str = "missing argument to repetition operator";
const INVALID_REPEAT_OP: &str = "invalid nested repetition operator";

struct Rewriter<'p> {
    pattern: &'p str,
    rest: &'p str,
    out: String,
    /// The number of open groups.
    open_groups: usize,
    /// Flag groups such as `(?i)` that have been read but not written. In Go, a repetition operator after them applies
    /// to the item before them.
    flags: String,
    /// The Unicode classes that are known to exist. Checking a class takes a millisecond.
    classes: HashSet<String>,
    sizes: PatternSizes,
}

/// The size of the part that has been read, see [`Pattern`].
struct PatternSizes {
    /// The sizes of the open groups, the whole pattern first.
    open: Vec<usize>,
    /// The size of the last item.
    last: usize,
}

impl PatternSizes {
    fn add(&mut self, size: usize) {
        if let Some(open) = self.open.last_mut() {
            *open = open.saturating_add(size);
        }
    }

    fn item(&mut self, size: usize) {
        self.add(size);
        self.last = size;
    }

    fn open_group(&mut self) {
        self.open.push(0);
    }

    fn close_group(&mut self) {
        let size = self.open.pop().unwrap_or_default();
        self.item(size);
    }

    /// Repeats the last item this many times.
    fn repeat(&mut self, count: u32) {
        let size = self.last.saturating_mul(count.max(1) as usize);
        self.add(size - self.last);
        self.last = size;
    }

    fn total(&self) -> usize {
        self.open.iter().sum()
    }
}

/// The largest product of nested repeat counts within a group. By this product, Go rejects `(a{1000}){1000}`.
#[derive(Clone, Copy)]
struct RepeatProduct(u32);

/// The previous item, to which a repetition operator applies.
#[derive(Clone, Copy)]
enum PreviousItem<'p> {
    /// Nothing that can be repeated.
    None,
    /// An item and its repeat product.
    Atom(RepeatProduct),
    /// A repetition, with the pattern from its operator on.
    Repetition(&'p str),
}

impl<'p> Rewriter<'p> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn consume(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// The pattern from `from` up to the current position.
    fn text_since(&self, from: &'p str) -> &'p str {
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

    fn rewrite(&mut self) -> RegexpResult<'p> {
        let mut previous = PreviousItem::None;
        // The repeat products of the open groups, the whole pattern first.
        let mut products = vec![RepeatProduct(1)];
        while let Some(c) = self.rest.chars().next() {
            let from = self.rest;
            if !matches!(c, '*' | '+' | '?' | '{') {
                self.write_flags();
            }
            previous = match c {
                '(' => {
                    if self.group()? {
                        self.open_groups += 1;
                        products.push(RepeatProduct(1));
                        self.sizes.open_group();
                        if products.len() > MAX_DEPTH {
                            return Err(("expression nests too deeply", self.pattern));
                        }
                        PreviousItem::None
                    } else {
                        previous
                    }
                }
                ')' => {
                    self.next();
                    if self.open_groups == 0 {
                        return Err(("unexpected )", self.pattern));
                    }
                    self.open_groups -= 1;
                    self.out.push(')');
                    self.sizes.close_group();
                    let product = products.pop().unwrap_or(RepeatProduct(1));
                    if let Some(outer) = products.last_mut() {
                        outer.0 = outer.0.max(product.0);
                    }
                    PreviousItem::Atom(product)
                }
                '|' => {
                    self.next();
                    self.out.push('|');
                    PreviousItem::None
                }
                '*' | '+' | '?' => {
                    self.next();
                    self.out.push(c);
                    self.finish_repetition(from, previous)?
                }
                '{' => match self.repeat_count()? {
                    Some((low, high)) => {
                        let operator = self.text_since(from);
                        let max = high.unwrap_or(low).max(low);
                        if high.is_some_and(|high| low > high) || max > MAX_REPEAT {
                            return Err((INVALID_REPEAT_SIZE, operator));
                        }
                        self.out.push_str(operator);
                        self.sizes.repeat(max);
                        let product = match previous {
                            PreviousItem::Atom(product) => product.0.saturating_mul(max.max(1)),
                            _ => max,
                        };
                        let after = self.finish_repetition(from, previous)?;
                        if product > MAX_REPEAT {
                            return Err((INVALID_REPEAT_SIZE, operator));
                        }
                        if let Some(outer) = products.last_mut() {
                            outer.0 = outer.0.max(product);
                        }
                        after
                    }
                    None => {
                        self.next();
                        self.write_flags();
                        self.literal('{');
                        self.sizes.item(1);
                        PreviousItem::Atom(RepeatProduct(1))
                    }
                },
                '[' => {
                    self.class()?;
                    self.sizes.item(CLASS_SIZE);
                    PreviousItem::Atom(RepeatProduct(1))
                }
                '\\' => {
                    let before = self.rest.len();
                    let item = self.escape()?;
                    // `\Q…\E` is a text, of which only the last character is repeated. Counting the whole text as
                    // repeated overestimates the size.
                    self.sizes.item((before - self.rest.len()).max(CLASS_SIZE));
                    item
                }
                '^' | '$' | '.' => {
                    self.next();
                    self.out.push(c);
                    self.sizes.item(if c == '.' { CLASS_SIZE } else { 1 });
                    PreviousItem::Atom(RepeatProduct(1))
                }
                c => {
                    self.next();
                    self.literal(c);
                    self.sizes.item(1);
                    PreviousItem::Atom(RepeatProduct(1))
                }
            };
        }
        if self.open_groups == 0 { Ok(()) } else { Err(("missing closing )", self.pattern)) }
    }

    /// Finishes a repetition whose operator starts at `from`.
    fn finish_repetition(&mut self, from: &'p str, previous: PreviousItem<'p>) -> RegexpResult<'p, PreviousItem<'p>> {
        if self.consume("?") {
            self.out.push('?');
        }
        match previous {
            PreviousItem::None => Err((MISSING_REPEAT_ARGUMENT, self.text_since(from))),
            PreviousItem::Repetition(before) => Err((INVALID_REPEAT_OP, &before[..before.len() - self.rest.len()])),
            PreviousItem::Atom(_) => Ok(PreviousItem::Repetition(from)),
        }
    }

    /// Parses `{n}`, `{n,}` or `{n,m}`. Returns `None` if the brace is a literal.
    fn repeat_count(&mut self) -> RegexpResult<'p, Option<(u32, Option<u32>)>> {
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

    /// Parses the start of a group, or flags. Returns true if a group was opened.
    fn group(&mut self) -> RegexpResult<'p, bool> {
        let from = self.rest;
        self.next();
        if !self.consume("?") {
            self.out.push('(');
            return Ok(true);
        }
        if self.consume("P<") || self.consume("<") {
            let Some(end) = self.rest.find('>') else { return Err(("invalid named capture", from)) };
            let name = &self.rest[..end];
            self.rest = &self.rest[end + 1..];
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_alphanumeric()) {
                return Err(("invalid named capture", self.text_since(from)));
            }
            // Capture names are not used, and Go allows names that start with a digit.
            self.out.push('(');
            return Ok(true);
        }
        let mut flags = String::new();
        loop {
            match self.next() {
                Some(c @ ('i' | 'm' | 's' | 'U')) => flags.push(c),
                Some('-') if !flags.contains('-') => flags.push('-'),
                Some(c @ (':' | ')')) if !flags.ends_with('-') => {
                    let group = format!("(?{flags}{c}");
                    if c == ':' {
                        self.out.push_str(&group);
                    } else if !flags.is_empty() {
                        self.flags.push_str(&group);
                    }
                    return Ok(c == ':');
                }
                _ => return Err((INVALID_PERL_OP, self.text_since(from))),
            }
        }
    }

    fn escape(&mut self) -> RegexpResult<'p, PreviousItem<'p>> {
        let from = self.rest;
        self.next();
        let atom = PreviousItem::Atom(RepeatProduct(1));
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
                return Ok(if text.is_empty() { PreviousItem::None } else { atom });
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

    /// Parses the escape sequence of a single character. `from` is the position of the backslash, which has been
    /// consumed.
    fn escaped_char(&mut self, from: &'p str) -> RegexpResult<'p, char> {
        let Some(c) = self.next() else { return Err(("trailing backslash at end of expression", "")) };
        let code = match c {
            'a' => 0x07,
            'f' => 0x0c,
            'n' => 0x0a,
            'r' => 0x0d,
            't' => 0x09,
            'v' => 0x0b,
            '1'..='7' if !self.rest.starts_with(|c| matches!(c, '0'..='7')) => {
                return Err((INVALID_ESCAPE, self.text_since(from)));
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
                let digits = if self.consume("{") {
                    let end = self.rest.find('}').ok_or((INVALID_ESCAPE, from))?;
                    let digits = &self.rest[..end];
                    self.rest = &self.rest[end + 1..];
                    digits
                } else {
                    let digits = self.rest.get(..2).ok_or((INVALID_ESCAPE, from))?;
                    self.rest = &self.rest[2..];
                    digits
                };
                let valid = digits.bytes().all(|b| b.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| valid);
                code.ok_or((INVALID_ESCAPE, self.text_since(from)))?
            }
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => c as u32,
            _ => return Err((INVALID_ESCAPE, self.text_since(from))),
        };
        char::from_u32(code).ok_or((INVALID_ESCAPE, self.text_since(from)))
    }

    /// Parses `\pL`, `\p{Greek}` or `\P{^Greek}` after the backslash.
    fn unicode_class(&mut self, from: &'p str) -> RegexpResult<'p> {
        let mut negated = self.next() == Some('P');
        let name = if self.consume("{") {
            let Some(end) = self.rest.find('}') else { return Err((INVALID_CHAR_RANGE, from)) };
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
        if !self.classes.contains(&class) {
            // Go's class names start with an uppercase letter.
            if !name.starts_with(|c: char| c.is_ascii_uppercase()) || Regex::new(&class).is_err() {
                return Err((INVALID_CHAR_RANGE, self.text_since(from)));
            }
            self.classes.insert(class.clone());
        }
        self.out.push_str(&class);
        Ok(())
    }

    /// Parses a character class, `[…]`.
    fn class(&mut self) -> RegexpResult<'p> {
        let from = self.rest;
        self.next();
        self.out.push('[');
        if self.consume("^") {
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

    fn class_item(&mut self, class: &'p str) -> RegexpResult<'p> {
        let item = self.rest;
        if let Some((class, rest)) = item.strip_prefix("[:").and_then(|named| named.split_once(":]")) {
            let name = &item[..item.len() - rest.len()];
            if !POSIX_CLASSES.contains(&class.strip_prefix('^').unwrap_or(class)) {
                return Err((INVALID_CHAR_RANGE, name));
            }
            self.rest = rest;
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
                return Err((INVALID_CHAR_RANGE, self.text_since(item)));
            }
            self.out.push('-');
            self.literal(high);
        }
        Ok(())
    }

    fn class_char(&mut self, class: &'p str) -> RegexpResult<'p, char> {
        let from = self.rest;
        match self.next() {
            None => Err(("missing closing ]", class)),
            Some('\\') => self.escaped_char(from),
            Some(c) => Ok(c),
        }
    }
}

/// The ASCII ranges of a Perl character class.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_pattern_counts_its_repetitions() {
        let check =
            |pattern: &str, expect: usize| assert_eq!(compile(pattern).map(|p| p.size), Ok(expect), "{pattern}");
        check("", 0);
        check("abc", 3);
        check("a{2,5}b", 6);
        check("(a{10}|b){100}c*", 1101);
        check("((ab){3}){4}", 24);
        check(r"[a-z]\pL.", 3 * CLASS_SIZE);
        check(&r"(.?){1000}".repeat(3), 3000 * CLASS_SIZE);
    }

    #[test]
    fn a_search_that_would_take_too_long_is_an_error() {
        let text = "a".repeat(3 << 20);
        // The pattern of a label, which occurs in many schemas, may search a text of any length.
        let label = compile("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$").expect("a pattern");
        assert!(label.searching(&text).is_ok_and(|regex| regex.is_match(&text)));
        let costly = compile(&format!("^{}$", "(.?){1000}".repeat(5))).expect("a pattern");
        assert!(costly.searching(&text[..10_000]).is_ok() && costly.searching(&text[..20_000]).is_err());
    }

    #[test]
    fn a_class_is_looked_up_once_per_pattern() {
        // Each look-up compiles the class, which would take minutes here.
        let pattern = format!("[{}]", r"\p{Greek}\pL".repeat(20_000));
        let classes = compile(&pattern).map_err(|error| error.chars().take(60).collect::<String>());
        assert!(classes.is_ok() || classes.is_err_and(|error| error.contains("too large")));
    }
}
