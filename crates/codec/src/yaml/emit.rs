//! The YAML emitter: line breaks, indentation, scalar styles, folding and escaping as in libyaml and goyaml. It writes
//! block collections only, and empty ones as `[]` and `{}`.

use std::fmt::Write;

/// The differences between the versions of goyaml.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Collections are indented by this number of columns (`best_indent`).
    indent: usize,
    /// Whether collections are aligned to multiples of the indentation. If not, lists are not indented below their
    /// keys.
    is_aligned: bool,
    /// Lines are folded at the first space after this column (`best_width`).
    width: usize,
    /// Whether literal scalars may contain tabs.
    allows_tabs: bool,
}

impl Layout {
    /// goyaml v2.
    pub(super) const V2: Self = Self { indent: 2, is_aligned: false, width: 80, allows_tabs: false };
    /// goyaml v3.
    pub(super) const V3: Self = Self { indent: 4, is_aligned: true, width: usize::MAX, allows_tabs: true };

    /// The indentation inside a node.
    pub(super) fn indent_inside(self, parent_indent: usize, context: EmitContext) -> usize {
        match self.is_aligned {
            // A collection in a list only skips the dash.
            true if context == EmitContext::SequenceItem => parent_indent + 2,
            true => (parent_indent / self.indent + 1) * self.indent,
            false => parent_indent + self.indent,
        }
    }
}

/// The preferred style of a scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarStyle {
    Plain,
    Quoted,
    Literal,
}

/// The context of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EmitContext {
    Root,
    SequenceItem,
    /// A mapping value, or a complex key after `?`.
    MappingValue,
    /// A simple key, which is followed by a colon on the same line.
    SimpleKey,
}

/// The indentation of the enclosing collection, or `None` at the root.
pub(super) type Indent = Option<usize>;

/// The output so far, and the state at its end.
pub(super) struct Emitter {
    layout: Layout,
    out: String,
    column: usize,
    /// Whether the last character was white space or an indicator that needs no space after it (`whitespace`).
    whitespace: bool,
    /// Whether the line has only indentation and indicators that count as such, for example dashes (`indention`).
    indention: bool,
}

impl Emitter {
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, out: String::with_capacity(1024), column: 0, whitespace: true, indention: true }
    }

    pub(super) fn finish(mut self) -> String {
        self.write_indent(0);
        self.out
    }

    /// The indentation of a sequence's items.
    pub(super) fn list_indent(&self, parent_indent: Indent, context: EmitContext) -> usize {
        match parent_indent {
            Some(parent_indent)
                if !self.layout.is_aligned && context == EmitContext::MappingValue && !self.indention =>
            {
                parent_indent
            }
            _ => self.map_indent(parent_indent, context),
        }
    }

    /// The indentation of a mapping's keys.
    pub(super) fn map_indent(&self, parent_indent: Indent, context: EmitContext) -> usize {
        parent_indent.map_or(0, |parent_indent| self.layout.indent_inside(parent_indent, context))
    }

    pub(super) fn write_dash(&mut self, indent: usize) {
        self.write_indent(indent);
        self.write_indicator("-", true, false, true);
    }

    pub(super) fn write_empty_collection(&mut self, open: &str, close: &str) {
        self.write_indicator(open, true, true, false);
        self.write_indicator(close, false, false, false);
    }

    /// Writes a key and the colon. A long or multi-line key is written as a complex key, with a question mark.
    pub(super) fn write_key(&mut self, text: &str, style: ScalarStyle, indent: usize) {
        self.write_indent(indent);
        if text.len() <= 128 && !text.contains(is_break) {
            self.write_scalar(text, style, Some(indent), EmitContext::SimpleKey);
            self.write_indicator(":", false, false, false);
            return;
        }
        self.write_indicator("?", true, false, true);
        self.write_scalar(text, style, Some(indent), EmitContext::MappingValue);
        self.write_indent(indent);
        self.write_indicator(":", true, false, true);
    }

    /// Writes a scalar in the given style, or in the nearest style that can represent it.
    pub(super) fn write_scalar(&mut self, text: &str, style: ScalarStyle, parent_indent: Indent, context: EmitContext) {
        let Layout { indent, allows_tabs, .. } = self.layout;
        let indent = parent_indent.map_or(indent, |parent_indent| self.layout.indent_inside(parent_indent, context));
        let allowed = AllowedStyles::analyze(text, allows_tabs);
        let allow_breaks = context != EmitContext::SimpleKey;
        match style {
            ScalarStyle::Plain if allowed.plain && (allow_breaks || !text.is_empty()) => {
                self.write_plain(text, indent, allow_breaks)
            }
            ScalarStyle::Plain if allowed.single_quoted => self.write_single_quoted(text, indent, allow_breaks),
            ScalarStyle::Literal if allowed.literal && allow_breaks => self.write_literal(text, indent),
            _ => self.write_double_quoted(text, indent, allow_breaks),
        }
    }

    fn write_char(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn write_line_feed(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    /// Writes a line break of a scalar unchanged.
    fn write_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
        self.indention = true;
    }

    fn write_indent(&mut self, indent: usize) {
        if !self.indention || self.column > indent || self.column == indent && !self.whitespace {
            self.write_line_feed();
        }
        while self.column < indent {
            self.write_char(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    fn write_indicator(&mut self, indicator: &str, needs_space: bool, whitespace_after: bool, indention_after: bool) {
        if needs_space && !self.whitespace {
            self.write_char(' ');
        }
        indicator.chars().for_each(|c| self.write_char(c));
        self.whitespace = whitespace_after;
        self.indention &= indention_after;
    }

    fn write_plain(&mut self, text: &str, indent: usize, allow_breaks: bool) {
        if !self.whitespace {
            self.write_char(' ');
        }
        self.write_folded(text, indent, allow_breaks, 0..text.len());
        self.whitespace = false;
        self.indention = false;
    }

    fn write_single_quoted(&mut self, text: &str, indent: usize, allow_breaks: bool) {
        self.write_indicator("'", true, false, false);
        self.write_folded(text, indent, allow_breaks, 1..text.len().saturating_sub(1));
        self.write_indicator("'", false, false, false);
    }

    /// Writes a scalar that needs no escapes except doubled single quotes. In long lines, single spaces within
    /// `foldable` become line breaks. (A plain scalar contains no quotes that would have to be doubled, and no line
    /// breaks.)
    fn write_folded(&mut self, text: &str, indent: usize, allow_breaks: bool, foldable: std::ops::Range<usize>) {
        let quoted = self.out.ends_with('\'');
        let (mut after_space, mut after_break) = (false, false);
        for (i, c) in text.char_indices() {
            if c == ' ' {
                let single = !after_space && !text[i + 1..].starts_with(' ');
                if allow_breaks && single && self.column > self.layout.width && foldable.contains(&i) {
                    self.write_indent(indent);
                } else {
                    self.write_char(c);
                }
                after_space = true;
                continue;
            }
            if is_break(c) {
                if !after_break && c == '\n' {
                    self.write_line_feed();
                }
                self.write_break(c);
                after_break = true;
                continue;
            }
            if after_break {
                self.write_indent(indent);
            }
            if c == '\'' && quoted {
                self.write_char(c);
            }
            self.write_char(c);
            self.indention = false;
            (after_space, after_break) = (false, false);
        }
    }

    fn write_double_quoted(&mut self, text: &str, indent: usize, allow_breaks: bool) {
        self.write_indicator("\"", true, false, false);
        // If a scalar starts with a byte order mark, goyaml escapes the rest of it too.
        let bom = text.starts_with('\u{feff}');
        let mut after_space = false;
        for (i, c) in text.char_indices() {
            let inner = i > 0 && i + 1 < text.len();
            if bom || !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                self.write_escape(c);
                after_space = false;
            } else if c == ' ' && allow_breaks && !after_space && self.column > self.layout.width && inner {
                self.write_indent(indent);
                if text[i + 1..].starts_with(' ') {
                    self.write_char('\\');
                }
                after_space = true;
            } else {
                self.write_char(c);
                after_space = c == ' ';
            }
        }
        self.write_indicator("\"", false, false, false);
    }

    fn write_escape(&mut self, c: char) {
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
        self.write_char('\\');
        self.write_char(short);
    }

    fn write_literal(&mut self, text: &str, indent: usize) {
        self.write_indicator("|", true, false, false);
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.write_indicator(&self.layout.indent.to_string(), false, false, false);
        }
        let mut from_end = text.chars().rev();
        match (from_end.next().is_some_and(is_break), from_end.next().is_none_or(is_break)) {
            (false, _) => self.write_indicator("-", false, false, false),
            (true, true) => self.write_indicator("+", false, false, false),
            (true, false) => {}
        }
        self.write_line_feed();
        self.indention = true;
        self.whitespace = true;
        let mut after_break = true;
        for c in text.chars() {
            if is_break(c) {
                self.write_break(c);
                after_break = true;
                continue;
            }
            if after_break {
                self.write_indent(indent);
            }
            self.write_char(c);
            self.indention = false;
            after_break = false;
        }
    }
}

/// The styles that can represent a scalar. The double-quoted style can represent every scalar.
struct AllowedStyles {
    plain: bool,
    single_quoted: bool,
    literal: bool,
}

impl AllowedStyles {
    fn analyze(text: &str, allows_tabs: bool) -> Self {
        let (Some(first), Some(last)) = (text.chars().next(), text.chars().next_back()) else {
            return Self { plain: true, single_quoted: true, literal: false };
        };
        let (mut special, mut breaks, mut space_then_break, mut break_then_space) = (false, false, false, false);
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let mut before: Option<char> = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            // The start of the scalar counts as following a space, but not a line break.
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
            special |= !(is_printable(c) || allows_tabs && c == '\t');
            breaks |= is_break(c);
            space_then_break |= is_break(c) && before == Some(' ');
            break_then_space |= c == ' ' && before.is_some_and(is_break);
            before = Some(c);
        }
        let special = special || space_then_break;
        let edge = |c: char| c == ' ' || is_break(c);
        let tabs = text.contains('\t');
        Self {
            plain: !special && !tabs && !breaks && !indicators && !edge(first) && !edge(last),
            single_quoted: !special && !tabs && !break_then_space,
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

/// Whether goyaml writes the character without an escape. It escapes every character outside the basic multilingual
/// plane.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}
