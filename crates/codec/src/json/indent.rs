//! Indents JSON by two spaces per level, as Go's `json.Indent` does for `?pretty=1`.

use super::decode::plain_run_end;

/// Indents a JSON text. Strings are unchanged.
#[must_use]
pub fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    Indenter::default().write(json, &mut out);
    out
}

/// Indents a JSON text that arrives in chunks. A chunk may end anywhere.
#[derive(Clone, Debug, Default)]
pub struct Indenter {
    depth: usize,
    in_string: bool,
    escaped: bool,
    just_opened: bool,
}

impl Indenter {
    /// Appends the next chunk.
    pub fn write(&mut self, json: &[u8], out: &mut Vec<u8>) {
        let mut offset = 0;
        while let Some(&byte) = json.get(offset) {
            if self.in_string && !self.escaped {
                let end = plain_run_end(json, offset);
                out.extend_from_slice(&json[offset..end]);
                offset = end;
                let Some(&byte) = json.get(offset) else { return };
                self.in_string = byte != b'"';
                self.escaped = byte == b'\\';
                out.push(byte);
            } else if self.in_string {
                self.escaped = false;
                out.push(byte);
            } else {
                self.write_outside_string(byte, out);
            }
            offset += 1;
        }
    }

    /// Appends a byte outside any string.
    fn write_outside_string(&mut self, byte: u8, out: &mut Vec<u8>) {
        if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            return;
        }
        let is_closing = matches!(byte, b']' | b'}');
        if self.just_opened && !is_closing {
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
    fn chunked_input_gives_the_same_output_as_one_chunk() {
        let json = br#"{"a":[],"b":{ },"c":[1,{"d":"\\\"{x\" ,"}],"e":null}"#;
        let whole = indent(json);
        assert_eq!(
            String::from_utf8_lossy(&whole),
            "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": \"\\\\\\\"{x\\\" ,\"\n    }\n  ],\n  \"e\": null\n}"
        );
        for step in 1..=json.len() {
            let (mut indent, mut out) = (Indenter::default(), Vec::new());
            json.chunks(step).for_each(|part| indent.write(part, &mut out));
            assert_eq!(out, whole, "by {step}");
        }
    }
}
