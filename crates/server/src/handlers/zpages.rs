//! Serves `/statusz` and `/flagz`: facts about this process, and the flags with which it runs (upstream:
//! `k8s.io/apiserver/pkg/server/statusz` and `flagz`, KEP-4827 and KEP-4828).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, WARNING};
use pintle_gates::Feature;
use pintle_registry::ApiError;
use pintle_value::time::Time;
use pintle_value::{Object, Value, object};

use super::version;
use crate::cluster::{Cluster, Metrics};
use crate::context::RequestContext;
use crate::http::{Response, random_share, set_header, text};
use crate::objects::encode::{Shape, encode};
use crate::represent;
use crate::request::negotiate::Encoding;
use crate::request::negotiate::page::{PageFormat, PageKind, negotiate};

/// The path of the facts about this process.
pub(crate) const STATUSZ: &str = "/statusz";
/// The path of the flags of this process.
pub(crate) const FLAGZ: &str = "/flagz";
/// The name under which the server reports itself.
const COMPONENT: &str = "apiserver";
/// The directories of paths that `/statusz` does not list, because they are not for debugging.
const UNLISTED_FOLDERS: [&str; 5] = ["/apis", "/api", "/openid", "/openapi", "/.well-known"];
/// The delimiters between a name and its value. The text has no stable form, so each page uses a random delimiter.
const DELIMITERS: [&str; 4] = [":", ": ", "=", " "];

/// The fields of a page, in the order of the fields in Go's type.
type Page = Vec<(&'static str, Value)>;

/// The served paths of this file.
pub(crate) fn paths(cluster: &Cluster) -> impl Iterator<Item = &'static str> {
    let status = cluster.settings.gates.is_enabled(Feature::COMPONENT_STATUSZ).then_some(STATUSZ);
    let flags = cluster.settings.gates.is_enabled(Feature::COMPONENT_FLAGZ) && cluster.settings.flags.is_some();
    status.into_iter().chain(flags.then_some(FLAGZ))
}

/// Responds if the path belongs to this file. `listed` are the paths of the index.
pub(crate) fn respond(request: &RequestContext, listed: impl Fn() -> Vec<String>) -> Option<Response> {
    let path = paths(&request.cluster).find(|path| *path == request.info.path)?;
    let kind = if path == FLAGZ { PageKind::Flagz } else { PageKind::Statusz };
    let format = match negotiate(&request.headers, &request.query, kind, request.cluster.settings.cbor) {
        Ok(format) => format,
        Err(error) => return Some(not_acceptable(request, &error)),
    };
    let PageFormat::Structured { version, encoding, pretty } = format else {
        return Some(text(
            StatusCode::OK,
            match (kind, &request.cluster.settings.flags) {
                (PageKind::Flagz, Some(flags)) => flags.text(flag_lines).to_owned(),
                _ => Status::now(&request.cluster, listed()).text(),
            },
        ));
    };
    let mut page: Page = vec![
        ("kind", kind.name().into()),
        ("apiVersion", format!("config.k8s.io/{version}").into()),
        ("metadata", object! { "name": COMPONENT }),
    ];
    match (kind, &request.cluster.settings.flags) {
        (PageKind::Flagz, Some(flags)) => {
            let values: Object = flags.values().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            page.push(("flags", Value::Object(values)));
        }
        _ => page.extend(Status::now(&request.cluster, listed()).fields()),
    }
    let body = match encoding {
        Encoding::Json => encode_json(&page, pretty),
        _ => encode(&Value::Object(page.into_iter().collect()), Shape::Untyped, encoding, pretty),
    };
    let mut response = represent::respond(StatusCode::OK, encoding, body);
    let headers = response.headers_mut();
    let media_type = format!("{};g=config.k8s.io;v={version};as={}", encoding.media_type(), kind.name());
    set_header(headers, CONTENT_TYPE, &media_type);
    if version == "v1alpha1" {
        let page = kind.name().to_lowercase();
        let warning =
            format!("299 - \"This version of the {page} endpoint is deprecated. Please use a newer version.\"");
        headers.extend(HeaderValue::try_from(warning).ok().map(|warning| (WARNING, warning)));
    }
    Some(response)
}

/// A page as JSON.
fn encode_json(page: &Page, pretty: bool) -> Vec<u8> {
    let mut json = b"{".to_vec();
    for (index, (name, value)) in page.iter().enumerate() {
        json.extend_from_slice(format!("{}\"{name}\":", if index == 0 { "" } else { "," }).as_bytes());
        pintle_codec::json::encode_into(value, &mut json);
    }
    json.push(b'}');
    if !pretty {
        json.push(b'\n');
        return json;
    }
    pintle_codec::json::indent(&json)
}

/// The answer to a client that accepts no format of a page. These pages have no Protobuf encoding, not even for errors.
fn not_acceptable(request: &RequestContext, error: &ApiError) -> Response {
    let mut endpoint = request.endpoint();
    endpoint.has_protobuf = false;
    represent::error_response_of(request, error, endpoint)
}

/// The first lines of a page.
fn header(page: &str) -> String {
    format!(
        "\n{COMPONENT} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting \
         compatibility guarantees and is for debugging purposes only.\n"
    )
}

/// The text of `/flagz`.
fn flag_lines(values: &BTreeMap<String, String>) -> String {
    let delimiter = random_delimiter();
    let lines = values.iter().map(|(name, value)| format!("{name}{delimiter}{value}\n"));
    header("flagz") + &lines.collect::<String>()
}

fn random_delimiter() -> &'static str {
    let index = (random_share() * DELIMITERS.len() as f64) as usize;
    DELIMITERS.get(index).copied().unwrap_or(" ")
}

/// The facts that `/statusz` reports.
struct Status {
    started: Time,
    uptime_seconds: i64,
    /// The answer of `/version`.
    version: Value,
    paths: Vec<String>,
}

impl Status {
    fn now(cluster: &Cluster, listed: Vec<String>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
        let started = Metrics::process_start_time().map_or(now, |started| started as i64);
        Self {
            started: Time::from_seconds(started),
            uptime_seconds: (now - started).max(0),
            version: version(cluster.settings.gates.version()),
            paths: directories(&listed),
        }
    }

    fn fields(self) -> Page {
        let version = &self.version;
        vec![
            ("startTime", self.started.rfc3339().into()),
            ("uptimeSeconds", self.uptime_seconds.into()),
            ("goVersion", version.str_at(&["goVersion"]).into()),
            ("binaryVersion", binary_version(version).into()),
            ("emulationVersion", emulation_version(version).into()),
            ("paths", self.paths.into()),
        ]
    }

    fn text(&self) -> String {
        let (version, delimiter, up) = (&self.version, random_delimiter(), self.uptime_seconds);
        let rows = [
            ("Started", unix_date(self.started)),
            ("Up", format!("{} hr {:02} min {:02} sec", up / 3600, up / 60 % 60, up % 60)),
            ("Go version", version.str_at(&["goVersion"]).to_owned()),
            ("Binary version", binary_version(version).to_owned()),
            ("Emulation version", emulation_version(version)),
            ("Paths", self.paths.join(" ")),
        ];
        let rows = rows.iter().map(|(name, value)| format!("{name}{delimiter} {value}\n"));
        header("statusz") + "\n" + &rows.collect::<String>()
    }
}

/// A time as in `Thu Nov 26 23:32:58 UTC 2026` (upstream: Go's `time.UnixDate`).
fn unix_date(time: Time) -> String {
    let since_epoch = Duration::from_secs(u64::try_from(time.seconds).unwrap_or_default());
    let date = httpdate::fmt_http_date(UNIX_EPOCH + since_epoch);
    match date.split([' ', ',']).filter(|part| !part.is_empty()).collect::<Vec<_>>().as_slice() {
        [weekday, day, month, year, clock, _] => {
            format!("{weekday} {month} {:>2} {clock} UTC {year}", day.trim_start_matches('0'))
        }
        _ => date,
    }
}

/// The version of the binary, without the letter before it.
fn binary_version(version: &Value) -> &str {
    version.str_at(&["gitVersion"]).trim_start_matches('v')
}

fn emulation_version(version: &Value) -> String {
    format!("{}.{}", version.str_at(&["emulationMajor"]), version.str_at(&["emulationMinor"]))
}

/// The first directories of paths, sorted, except the directories that are not for debugging.
fn directories(paths: &[String]) -> Vec<String> {
    let first = paths.iter().filter_map(|path| path.split('/').nth(1)).filter(|first| !first.is_empty());
    let directories: BTreeSet<String> = first.map(|first| format!("/{first}")).collect();
    directories.into_iter().filter(|directory| !UNLISTED_FOLDERS.contains(&directory.as_str())).collect()
}
