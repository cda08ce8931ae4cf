//! The tables of requests in `requests`: a folder for each area, a file for each sequence. A file lists requests as
//! they are sent, each after a line `### NAME`. The method and the path come first, then the headers, then an empty
//! line and the body. Lines that begin with `//` before a request describe its purpose. A body that is not text is
//! written as `@base64 …`. `@repeat N TEXT@` repeats a text. ` HTTP/2` after a path has a meaning for other API servers
//! only: the request is sent over HTTP/2.

use std::path::Path;

use bytes::Bytes;

use crate::sequence::{Request, Sequence, Step};

/// A folder of tables.
pub struct Area {
    /// The name of the folder.
    pub name: &'static str,
    /// The subject of the area's requests.
    pub description: &'static str,
}

/// All areas.
pub const AREAS: &[Area] = &[
    Area { name: "recorded", description: "a request of every sort to a custom resource and to ConfigMaps" },
    Area { name: "definitions", description: "CustomResourceDefinitions: validation, conditions, changes" },
    Area { name: "custom", description: "custom resources: schemas, columns, subresources, versions" },
    Area { name: "patches", description: "the four patch types, what they may not change, limits" },
    Area { name: "malformed", description: "bodies, headers, paths and queries that cannot be read" },
    Area { name: "audit", description: "heads, stages and objects of audit events" },
    Area { name: "aggregation", description: "other API servers behind both servers: conditions, proxying, documents" },
];

impl Area {
    /// Reads the sequences of this area, in the order of their names.
    ///
    /// # Panics
    /// Panics if the folder cannot be read or a file is not a table.
    #[must_use]
    pub(crate) fn sequences(&self) -> Vec<Sequence> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("requests").join(self.name);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        files.sort();
        let read = |file: &Path| {
            let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            parse(&format!("{}/{name}", self.name), &text)
        };
        files.iter().map(|file| read(file)).collect()
    }
}

/// Parses a table. Requests without a name get their number as a name.
fn parse(name: &str, text: &str) -> Sequence {
    let mut steps: Vec<Step> = Vec::new();
    // Only comments may stand before the first request.
    for (number, part) in text.split("\n###").enumerate() {
        let part = if number == 0 { part.strip_prefix("###").unwrap_or(part) } else { part };
        let (step_name, request) = part.split_once('\n').unwrap_or((part, ""));
        let Some(request) = parse_request(request) else { continue };
        let step_name = match step_name.trim() {
            "" => number.to_string(),
            named => named.to_owned(),
        };
        assert!(steps.iter().all(|step| step.name != step_name), "{name}: two requests named {step_name}");
        steps.push(Step { name: step_name, request });
    }
    Sequence { name: name.to_owned(), steps }
}

fn parse_request(text: &str) -> Option<Request> {
    let text = text.trim_start();
    let mut rest = text;
    while rest.starts_with("//") {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    let (head, body) = rest.split_once("\n\n").unwrap_or((rest, ""));
    let mut lines = head.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let (path, over_http2) = path.strip_suffix(" HTTP/2").map_or((path, false), |path| (path, true));
    let headers = lines.filter_map(|line| line.split_once(": ").or_else(|| line.split_once(':')));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Some(Request {
        method: method.to_owned(),
        path: expand(path),
        headers,
        body: parse_body(body),
        over_http2,
        ..Request::default()
    })
}

fn parse_body(text: &str) -> Bytes {
    let text = text.trim_end();
    if let Some(encoded) = text.strip_prefix("@base64 ") {
        return base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).expect("base64").into();
    }
    expand(text).into()
}

/// Replaces each `@repeat N TEXT@` by N times the text.
fn expand(text: &str) -> String {
    let Some((before, rest)) = text.split_once("@repeat ") else { return text.to_owned() };
    let (count, rest) = rest.split_once(' ').expect("@repeat N TEXT@");
    let (repeated, rest) = rest.split_once('@').expect("@repeat N TEXT@");
    format!("{before}{}{}", repeated.repeat(count.parse().expect("a number")), expand(rest))
}

#[cfg(test)]
mod tests {
    use super::{AREAS, parse};

    #[test]
    fn a_table_is_a_list_of_requests() {
        let text = "### first\n// Why.\nPOST /a?b=c\nContent-Type: text/plain\n\nx@repeat 3 y@z\n\n###\nGET /d\n### third\nPUT /e HTTP/2\n\n@base64 AP8=\n";
        let found: Vec<String> = parse("t", text)
            .steps
            .iter()
            .map(|s| format!("{}: {} {:?} {:?}", s.name, s.request.method, s.request.headers, s.request.body))
            .collect();
        assert_eq!(
            found,
            [
                r#"first: POST [("Content-Type", "text/plain")] b"xyyyz""#,
                r#"1: GET [] b"""#,
                r#"third: PUT [] b"\0\xff""#
            ]
        );
    }

    #[test]
    fn every_table_can_be_read() {
        for area in AREAS {
            assert!(area.sequences().iter().all(|sequence| !sequence.steps.is_empty()), "{}", area.name);
        }
    }
}
