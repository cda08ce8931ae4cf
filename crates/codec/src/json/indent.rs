//! Finished JSON over many lines, two spaces per level, as Go's `json.Indent` writes it for `?pretty=1`.

use super::decode::plain;

/// Spreads a text over many lines. Strings stay as they are.
#[must_use]
pub fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    Indent::default().write(json, &mut out);
    out
}

/// Spreads a text over many lines that comes in parts, which may end anywhere.
#[derive(Clone, Debug, Default)]
pub struct Indent {
    depth: usize,
    in_string: bool,
    escaped: bool,
    just_opened: bool,
}

impl Indent {
    /// Appends the next part.
    pub fn write(&mut self, json: &[u8], out: &mut Vec<u8>) {
        let mut at = 0;
        while let Some(&byte) = json.get(at) {
            if self.in_string && !self.escaped {
                let end = plain(json, at);
                out.extend_from_slice(&json[at..end]);
                at = end;
                let Some(&byte) = json.get(at) else { return };
                self.in_string = byte != b'"';
                self.escaped = byte == b'\\';
                out.push(byte);
            } else if self.in_string {
                self.escaped = false;
                out.push(byte);
            } else {
                self.outside(byte, out);
            }
            at += 1;
        }
    }

    /// Appends a byte that is in no string.
    fn outside(&mut self, byte: u8, out: &mut Vec<u8>) {
        if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            return;
        }
        let closes = matches!(byte, b']' | b'}');
        if self.just_opened && !closes {
            self.depth += 1;
            self.new_line(out);
        }
        match byte {
            b',' => {
                out.push(byte);
                self.new_line(out);
            }
            b':' => out.extend_from_slice(b": "),
            b'}' | b']' => {
                if !self.just_opened {
                    self.depth = self.depth.saturating_sub(1);
                    self.new_line(out);
                }
                out.push(byte);
            }
            _ => {
                self.in_string = byte == b'"';
                out.push(byte);
            }
        }
        self.just_opened = matches!(byte, b'{' | b'[');
    }

    fn new_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_parts_is_the_same_as_in_one() {
        let json = br#"{"a":[],"b":{ },"c":[1,{"d":"\\\"{x\" ,"}],"e":null}"#;
        let whole = indent(json);
        assert_eq!(
            String::from_utf8_lossy(&whole),
            "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": \"\\\\\\\"{x\\\" ,\"\n    }\n  ],\n  \"e\": null\n}"
        );
        for step in 1..=json.len() {
            let (mut indent, mut out) = (Indent::default(), Vec::new());
            json.chunks(step).for_each(|part| indent.write(part, &mut out));
            assert_eq!(out, whole, "by {step}");
        }
    }
}
