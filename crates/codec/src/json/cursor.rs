//! A cursor over well-formed, compact JSON, as objects are stored: it finds offsets and decodes nothing. On other input
//! it stops early and never reads beyond the text.

/// A position in JSON text.
#[derive(Clone, Debug)]
pub struct JsonCursor<'a> {
    json: &'a [u8],
    offset: usize,
}

impl<'a> JsonCursor<'a> {
    /// Creates a cursor at the start of a text.
    #[must_use]
    pub fn new(json: &'a [u8]) -> Self {
        Self { json, offset: 0 }
    }

    /// The number of bytes that have been read.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The next byte.
    #[must_use]
    pub fn peek(&self) -> Option<u8> {
        self.json.get(self.offset).copied()
    }

    /// Reads a byte that must be the given one.
    pub fn byte(&mut self, expect: u8) -> Option<()> {
        (self.peek()? == expect).then(|| self.offset += 1)
    }

    /// Reads a string and returns the text between its quotes, with escapes unchanged.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        self.byte(b'"')?;
        let start = self.offset;
        loop {
            self.offset += memchr::memchr2(b'"', b'\\', self.json.get(self.offset..)?)?;
            if self.json[self.offset] == b'"' {
                break;
            }
            self.offset += 2;
        }
        self.offset += 1;
        self.json.get(start..self.offset - 1)
    }

    /// Reads a member's name and the colon after it.
    pub fn name(&mut self) -> Option<&'a [u8]> {
        let name = self.string()?;
        self.byte(b':')?;
        Some(name)
    }

    /// Reads a value and returns its text.
    pub fn value(&mut self) -> Option<&'a [u8]> {
        let start = self.offset;
        match self.peek()? {
            b'"' => {
                self.string()?;
            }
            b'{' | b'[' => {
                let mut depth = 0usize;
                loop {
                    match self.peek()? {
                        b'"' => {
                            self.string()?;
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth -= 1,
                        _ => {}
                    }
                    self.offset += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => {
                while !matches!(self.peek()?, b',' | b'}' | b']') {
                    self.offset += 1;
                }
            }
        }
        self.json.get(start..self.offset)
    }
}
