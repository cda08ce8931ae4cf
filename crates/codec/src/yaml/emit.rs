//! Lays out YAML as libyaml and goyaml do: where lines break and are indented, which style a text needs, how it is folded
//! and escaped. Only block collections are written, and empty ones as `[]` and `{}`.

use std::fmt::Write;

/// Lines are folded at the first space after this column.
const WIDTH: usize = 80;

/// How a text is to be written if it allows that.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Quoted,
    Literal,
}

/// What stands around a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    Item,
    /// A value, or a key with a question mark.
    Member,
    /// A key that a colon follows on the same line.
    Key,
}

/// How far a collection's lines are indented; nothing is open before the root.
pub(super) type Indent = Option<usize>;

/// The text so far and where its end is.
pub(super) struct Layout {
    out: String,
    column: usize,
    /// The last character was white space, or will do for it.
    spaced: bool,
    /// Nothing but indentation (and dashes) is on the line.
    indented: bool,
}

impl Layout {
    pub(super) fn new() -> Self {
        Self { out: String::with_capacity(1024), column: 0, spaced: true, indented: true }
    }

    pub(super) fn finish(mut self) -> String {
        self.start_line(0);
        self.out
    }

    /// The indentation of a list's items, which below a key stand as far left as the key.
    pub(super) fn list_indent(&self, outer: Indent, place: Place) -> usize {
        match outer {
            None => 0,
            Some(outer) if place == Place::Member && !self.indented => outer,
            Some(outer) => outer + 2,
        }
    }

    pub(super) fn dash(&mut self, indent: usize) {
        self.start_line(indent);
        self.indicate("-", true, false, true);
    }

    pub(super) fn empty(&mut self, open: &str, close: &str) {
        self.indicate(open, true, true, false);
        self.indicate(close, false, false, false);
    }

    /// Writes a key and the colon. A long key or one of several lines has a question mark.
    pub(super) fn key(&mut self, text: &str, style: Style, indent: usize) {
        self.start_line(indent);
        if text.len() <= 128 && !text.contains(is_break) {
            self.scalar(text, style, Some(indent), Place::Key);
            self.indicate(":", false, false, false);
            return;
        }
        self.indicate("?", true, false, true);
        self.scalar(text, style, Some(indent), Place::Member);
        self.start_line(indent);
        self.indicate(":", true, false, true);
    }

    /// Writes a text in a style, or in the nearest one that can hold it.
    pub(super) fn scalar(&mut self, text: &str, style: Style, outer: Indent, place: Place) {
        let indent = outer.map_or(2, |outer| outer + 2);
        let fits = Fits::of(text);
        let folds = place != Place::Key;
        match style {
            Style::Plain if fits.plain && (folds || !text.is_empty()) => self.plain(text, indent, folds),
            Style::Plain if fits.single => self.single_quoted(text, indent, folds),
            Style::Literal if fits.literal && folds => self.literal(text, indent),
            _ => self.double_quoted(text, indent, folds),
        }
    }

    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn line_feed(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    /// Writes a line break of a text as it is.
    fn put_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
        self.indented = true;
    }

    fn start_line(&mut self, indent: usize) {
        if !self.indented || self.column > indent || self.column == indent && !self.spaced {
            self.line_feed();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.spaced = true;
        self.indented = true;
    }

    fn indicate(&mut self, indicator: &str, needs_space: bool, is_space: bool, indents: bool) {
        if needs_space && !self.spaced {
            self.put(' ');
        }
        indicator.chars().for_each(|c| self.put(c));
        self.spaced = is_space;
        self.indented &= indents;
    }

    fn plain(&mut self, text: &str, indent: usize, folds: bool) {
        if !self.spaced {
            self.put(' ');
        }
        self.folded_at_spaces(text, indent, folds, 0..text.len());
        self.spaced = false;
        self.indented = false;
    }

    fn single_quoted(&mut self, text: &str, indent: usize, folds: bool) {
        self.indicate("'", true, false, false);
        self.folded_at_spaces(text, indent, folds, 1..text.len().saturating_sub(1));
        self.indicate("'", false, false, false);
    }

    /// Writes a text that needs no escapes but doubled quotes. Single spaces within `foldable` become line breaks in long
    /// lines. (A plain text has no quotes where they would have to be doubled, and no line breaks.)
    fn folded_at_spaces(&mut self, text: &str, indent: usize, folds: bool, foldable: std::ops::Range<usize>) {
        let quoted = self.out.ends_with('\'');
        let (mut after_space, mut after_break) = (false, false);
        for (i, c) in text.char_indices() {
            if c == ' ' {
                let single = !after_space && !text[i + 1..].starts_with(' ');
                if folds && single && self.column > WIDTH && foldable.contains(&i) {
                    self.start_line(indent);
                } else {
                    self.put(c);
                }
                after_space = true;
                continue;
            }
            if is_break(c) {
                if !after_break && c == '\n' {
                    self.line_feed();
                }
                self.put_break(c);
                after_break = true;
                continue;
            }
            if after_break {
                self.start_line(indent);
            }
            if c == '\'' && quoted {
                self.put(c);
            }
            self.put(c);
            self.indented = false;
            (after_space, after_break) = (false, false);
        }
    }

    fn double_quoted(&mut self, text: &str, indent: usize, folds: bool) {
        self.indicate("\"", true, false, false);
        // After a byte order mark at its beginning goyaml escapes the rest of a text too.
        let bom = text.starts_with('\u{feff}');
        let mut after_space = false;
        for (i, c) in text.char_indices() {
            let inner = i > 0 && i + 1 < text.len();
            if bom || !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                self.escape(c);
                after_space = false;
            } else if c == ' ' && folds && !after_space && self.column > WIDTH && inner {
                self.start_line(indent);
                if text[i + 1..].starts_with(' ') {
                    self.put('\\');
                }
                after_space = true;
            } else {
                self.put(c);
                after_space = c == ' ';
            }
        }
        self.indicate("\"", false, false, false);
    }

    fn escape(&mut self, c: char) {
        let short = match c {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' | '\\' => c,
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                let before = self.out.len();
                let code = u32::from(c);
                // Writing to a string cannot fail.
                let _ = match code {
                    0..=0xff => write!(self.out, "\\x{code:02X}"),
                    0x100..=0xffff => write!(self.out, "\\u{code:04X}"),
                    _ => write!(self.out, "\\U{code:08X}"),
                };
                self.column += self.out.len() - before;
                return;
            }
        };
        self.put('\\');
        self.put(short);
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.indicate("|", true, false, false);
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.indicate("2", false, false, false);
        }
        let mut from_end = text.chars().rev();
        match (from_end.next().is_some_and(is_break), from_end.next().is_none_or(is_break)) {
            (false, _) => self.indicate("-", false, false, false),
            (true, true) => self.indicate("+", false, false, false),
            (true, false) => {}
        }
        self.line_feed();
        self.indented = true;
        self.spaced = true;
        let mut after_break = true;
        for c in text.chars() {
            if is_break(c) {
                self.put_break(c);
                after_break = true;
                continue;
            }
            if after_break {
                self.start_line(indent);
            }
            self.put(c);
            self.indented = false;
            after_break = false;
        }
    }
}

/// The styles that a text can be written in. Double quotes hold everything.
struct Fits {
    plain: bool,
    single: bool,
    literal: bool,
}

impl Fits {
    fn of(text: &str) -> Self {
        let (Some(first), Some(last)) = (text.chars().next(), text.chars().next_back()) else {
            return Self { plain: true, single: true, literal: false };
        };
        let (mut special, mut breaks, mut space_then_break, mut break_then_space) = (false, false, false, false);
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let mut before: Option<char> = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            // In front of the text there is space, but no line break.
            let after_blank = before.is_none_or(|b| is_blank(b) || is_break(b));
            let blank_follows = chars.peek().copied().is_none_or(is_blank);
            indicators |= match (before, c) {
                (
                    None,
                    '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`',
                ) => true,
                (None, '?' | '-') | (_, ':') => blank_follows,
                (_, '#') => after_blank,
                _ => false,
            };
            special |= !is_printable(c);
            breaks |= is_break(c);
            space_then_break |= is_break(c) && before == Some(' ');
            break_then_space |= c == ' ' && before.is_some_and(is_break);
            before = Some(c);
        }
        let special = special || space_then_break;
        let edge = |c: char| c == ' ' || is_break(c);
        Self {
            plain: !special && !breaks && !indicators && !edge(first) && !edge(last),
            single: !special && !break_then_space,
            literal: !special && last != ' ',
        }
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What goyaml writes without an escape; nothing beyond the basic plane is.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}
