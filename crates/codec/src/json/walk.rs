//! A walk over JSON that is known to be well-formed and compact, as objects are stored: it finds places and parses nothing.
//! On anything else it ends early, never wrongly beyond the text.

/// A position in JSON text.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    /// A walk from the start of a text.
    #[must_use]
    pub fn new(json: &'a [u8]) -> Self {
        Self { json, at: 0 }
    }

    /// How many bytes are behind it.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// The byte that comes next.
    #[must_use]
    pub fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    /// Passes a byte that must be the next one.
    pub fn byte(&mut self, expect: u8) -> Option<()> {
        (self.peek()? == expect).then(|| self.at += 1)
    }

    /// Passes a string and returns the text between its quotes, escapes untouched.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        self.byte(b'"')?;
        let start = self.at;
        loop {
            self.at += memchr::memchr2(b'"', b'\\', self.json.get(self.at..)?)?;
            if self.json[self.at] == b'"' {
                break;
            }
            self.at += 2;
        }
        self.at += 1;
        self.json.get(start..self.at - 1)
    }

    /// Passes a member's name and the colon behind it.
    pub fn name(&mut self) -> Option<&'a [u8]> {
        let name = self.string()?;
        self.byte(b':')?;
        Some(name)
    }

    /// Passes a value and returns its text.
    pub fn value(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
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
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => {
                while !matches!(self.peek()?, b',' | b'}' | b']') {
                    self.at += 1;
                }
            }
        }
        self.json.get(start..self.at)
    }
}
