//! Changes the links of a backend so that they lead through the proxy (upstream: `util/proxy.Transport`).

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::read::{DeflateDecoder, GzDecoder};
use flate2::write::{DeflateEncoder, GzEncoder};
use http_body_util::BodyExt;
use pintle_outbound::ResponseBody;
use pintle_value::url::parse_reference;

use super::Location;
use super::copy::streamed;
use super::proxies::clean;
use crate::context::RequestContext;
use crate::http::{Body, CpuPermits};
use crate::request::body_budget::{BodyBudget, HeldBody};

/// Maximum size of a page whose links are changed, in bytes. A larger page is passed on unchanged. Upstream has no
/// limit, and holds the whole page in memory.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// Maximum size of a page that is changed at once, in bytes, if it is not compressed. Larger or compressed pages would
/// delay other requests.
const SMALL_PAGE_BYTES: usize = 64 << 10;
/// Maximum number of bytes of a page that are sent at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Changes links that lead to the backend.
pub(super) struct LinkRewriter {
    /// The start of the client's path, before the backend's path.
    prefix: String,
    /// The host of the backend.
    backend: String,
    /// The host to which the client sent its request.
    requested: String,
}

impl LinkRewriter {
    /// A rewriter for the path of a request and its location at the backend.
    pub(super) fn new(path: &str, location: &Location, requested: &str) -> Self {
        let prefix = path.strip_suffix(location.path.as_str()).unwrap_or(path).to_owned();
        Self { prefix, backend: location.authority.clone(), requested: requested.to_owned() }
    }

    /// The start of the client's path, before the backend's path.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The link that leads through the proxy, if `link` leads to the backend. Other links stay the same.
    ///
    /// # Errors
    /// Go's message for a link that is no URL.
    pub(super) fn rewrite(&self, link: &str) -> Result<String, String> {
        let (url, fragment) = parse_reference(link)?;
        let is_foreign = !url.host.is_empty() && url.host != self.backend && url.host != self.requested;
        if is_foreign || !url.escaped_path.starts_with('/') {
            return Ok(link.to_owned());
        }
        let mut path = url.escaped_path.clone();
        if !path.starts_with(&self.prefix) {
            path = clean(&format!("{}/{path}", self.prefix));
            if url.escaped_path.ends_with('/') && !path.ends_with('/') {
                path.push('/');
            }
        }
        let mut rewritten = String::new();
        // Like upstream's proxy, this one knows neither its own scheme nor its host.
        if url.host == self.requested && !url.host.is_empty() {
            if !url.scheme.is_empty() {
                rewritten = format!("{}:", url.scheme);
            }
            rewritten += &format!("//{}", url.host);
        }
        rewritten += &path;
        if !url.query.is_empty() {
            rewritten += &format!("?{}", url.query);
        }
        if !fragment.is_empty() {
            rewritten += &format!("#{fragment}");
        }
        Ok(rewritten)
    }
}

/// A page of a backend.
pub(super) struct Page<B> {
    /// The length of the page, if it may differ from the length at the backend.
    pub(super) changed_length: Option<usize>,
    content: Bytes,
    /// The rest of the body after `content`, for a page that is not changed.
    rest: Option<B>,
    /// Counts the content for as long as it is in memory.
    held: HeldBody,
}

impl Page<ResponseBody> {
    /// The body of the response.
    pub(super) fn into_body(self, request: &RequestContext) -> Body {
        let Self { mut content, rest, held, .. } = self;
        let rest = rest.map(|rest| streamed(request, rest));
        Body::from_writer(move |sender| async move {
            while !content.is_empty() {
                let chunk = content.split_to(content.len().min(CHUNK_BYTES));
                sender.send(chunk.into()).await;
            }
            drop(held);
            let Some(mut rest) = rest else { return };
            while let Some(frame) = rest.frame().await {
                match frame.map(http_body::Frame::into_data) {
                    Ok(Ok(chunk)) => sender.send(chunk).await,
                    Ok(Err(_)) => {}
                    Err(_) => return sender.break_off(),
                }
            }
        })
    }
}

/// Reads a page and changes its links. A page stays the same if it is too large, if `bodies` has no room for it, or if
/// its encoding is unknown.
///
/// # Errors
/// The backend breaks off.
pub(super) async fn rewritten<B>(
    mut body: B,
    encoding: &str,
    rewrite: impl Fn(&str) -> Result<String, String> + Send + 'static,
    bodies: &Arc<BodyBudget>,
    cpu_permits: &CpuPermits,
) -> Result<Page<B>, B::Error>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let mut held = bodies.begin();
    let mut content = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame?.into_data() else { continue };
        content.extend_from_slice(&bytes);
        if held.add(bytes.len()).is_err() || content.len() > MAX_PAGE_BYTES {
            return Ok(Page { changed_length: None, content: content.freeze(), rest: Some(body), held });
        }
    }
    let content = content.freeze();
    let changed = if encoding.is_empty() && content.len() <= SMALL_PAGE_BYTES {
        change(&content, encoding, rewrite)
    } else {
        let permit = cpu_permits.acquire().await;
        let (content, encoding) = (content.clone(), encoding.to_owned());
        let changing = tokio::task::spawn_blocking(move || {
            // The work continues if the client disconnects.
            let _permit = permit;
            change(&content, &encoding, rewrite)
        });
        changing.await.ok().flatten()
    };
    let changed = changed.filter(|changed| held.add(changed.len()).is_ok());
    let (changed_length, content) = match changed {
        Some(changed) => (Some(changed.len()), changed.into()),
        None => (None, content),
    };
    Ok(Page { changed_length, content, rest: None, held })
}

/// The page with changed links. `None` if the page cannot be read.
fn change(content: &Bytes, encoding: &str, rewrite: impl Fn(&str) -> Result<String, String>) -> Option<Vec<u8>> {
    // The answer may have a `Content-Length` although it has no body.
    let page = decoded(content, encoding).filter(|page| !page.is_empty())?;
    encoded(rewrite_page(&page, rewrite), encoding)
}

/// The text of a page. `None` if the page cannot be read, or is too large.
fn decoded(content: &Bytes, encoding: &str) -> Option<Vec<u8>> {
    let limit = MAX_PAGE_BYTES as u64 + 1;
    let mut page = Vec::new();
    let read = match encoding {
        "" => return Some(content.to_vec()),
        "gzip" => GzDecoder::new(&content[..]).take(limit).read_to_end(&mut page),
        "deflate" => DeflateDecoder::new(&content[..]).take(limit).read_to_end(&mut page),
        _ => return None,
    };
    (read.is_ok() && page.len() <= MAX_PAGE_BYTES).then_some(page)
}

/// The page in its original encoding.
fn encoded(page: Vec<u8>, encoding: &str) -> Option<Vec<u8>> {
    match encoding {
        "" => Some(page),
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&page).and_then(|()| encoder.finish()).ok()
        }
        _ => {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(&page).and_then(|()| encoder.finish()).ok()
        }
    }
}

/// The attributes with links, by the names of elements (upstream: `atomsToAttrs`).
const LINKS: [(&str, &[&str]); 25] = [
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements whose content is not markup.
const RAW_TEXT: [&str; 10] =
    ["iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "textarea", "title", "xmp"];

/// Changes the links in the start tags of a page. Everything else stays as it is, byte for byte.
fn rewrite_page(page: &[u8], rewrite: impl Fn(&str) -> Result<String, String>) -> Vec<u8> {
    let mut out = Vec::with_capacity(page.len() + page.len() / 8);
    let mut rest = page;
    while let Some(start) = memchr::memchr(b'<', rest) {
        let (text, markup) = rest.split_at(start);
        out.extend_from_slice(text);
        let length = match markup {
            [b'<', b'!', b'-', b'-', ..] => memchr::memmem::find(markup, b"-->").map(|end| end + 3),
            [b'<', first, ..] if first.is_ascii_alphabetic() => tag_length(markup),
            [b'<', b'!' | b'?' | b'/', ..] => memchr::memchr(b'>', markup).map(|end| end + 1),
            _ => Some(1),
        };
        // A start tag without an end is not markup.
        let Some(length) = length else {
            rest = markup;
            break;
        };
        let (tag, after) = markup.split_at(length);
        rest = after;
        if !tag.get(1).is_some_and(u8::is_ascii_alphabetic) {
            out.extend_from_slice(tag);
            continue;
        }
        let name_end = tag.iter().position(|b| b.is_ascii_whitespace() || matches!(b, b'/' | b'>')).unwrap_or(length);
        let name = String::from_utf8_lossy(&tag[1..name_end]).to_ascii_lowercase();
        let links = LINKS.iter().find(|(element, _)| *element == name).map_or(&[][..], |(_, attributes)| attributes);
        match links {
            [] => out.extend_from_slice(tag),
            links => rewrite_tag(tag, name_end, links, &rewrite, &mut out),
        }
        if RAW_TEXT.contains(&name.as_str()) {
            let end = raw_text_end(rest, &name);
            let (text, after) = rest.split_at(end);
            out.extend_from_slice(text);
            rest = after;
        }
    }
    out.extend_from_slice(rest);
    out
}

/// The length of a start tag, whose attributes may have quoted values.
fn tag_length(markup: &[u8]) -> Option<usize> {
    let mut quote = None;
    let mut before = b' ';
    for (at, byte) in markup.iter().enumerate() {
        match (quote, byte) {
            (Some(open), byte) if open == *byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') if before == b'=' => quote = Some(*byte),
            (None, b'>') => return Some(at + 1),
            (None, _) => {}
        }
        if !byte.is_ascii_whitespace() {
            before = *byte;
        }
    }
    None
}

/// The end of the content of an element without markup.
fn raw_text_end(text: &[u8], name: &str) -> usize {
    let is_end = |at: &usize| {
        let after = text.get(at + 2..).unwrap_or_default();
        after.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
    };
    memchr::memmem::find_iter(text, b"</").find(is_end).unwrap_or(text.len())
}

/// Writes a tag with changed links.
fn rewrite_tag(
    tag: &[u8],
    name_end: usize,
    links: &[&str],
    rewrite: &impl Fn(&str) -> Result<String, String>,
    out: &mut Vec<u8>,
) {
    let mut written = 0;
    let mut at = name_end;
    let skip = |mut at: usize, is_skipped: fn(u8) -> bool| {
        while tag.get(at).is_some_and(|byte| is_skipped(*byte)) {
            at += 1;
        }
        at
    };
    loop {
        at = skip(at, |byte| byte.is_ascii_whitespace() || byte == b'/');
        let key_start = at;
        at = skip(at, |byte| !byte.is_ascii_whitespace() && !matches!(byte, b'/' | b'>' | b'='));
        let key = String::from_utf8_lossy(&tag[key_start..at]).to_ascii_lowercase();
        let after_key = skip(at, |byte| byte.is_ascii_whitespace());
        if tag.get(after_key) != Some(&b'=') {
            match tag.get(at) {
                None | Some(b'>') => break,
                _ => continue,
            }
        }
        at = skip(after_key + 1, |byte| byte.is_ascii_whitespace());
        let (start, end, after) = match tag.get(at) {
            Some(quote @ (b'"' | b'\'')) => {
                let end = memchr::memchr(*quote, &tag[at + 1..]).map_or(tag.len() - 1, |end| at + 1 + end);
                (at + 1, end, end + 1)
            }
            _ => {
                let end = skip(at, |byte| !byte.is_ascii_whitespace() && byte != b'>');
                (at, end, end)
            }
        };
        let value = std::str::from_utf8(&tag[start..end]).ok().filter(|_| links.contains(&key.as_str()));
        if let Some(link) = value.map(unescape)
            && let Ok(changed) = rewrite(&link)
            && changed != link
        {
            out.extend_from_slice(&tag[written..at]);
            out.push(b'"');
            out.extend_from_slice(escape(&changed).as_bytes());
            out.push(b'"');
            written = after;
        }
        at = after;
        if at >= tag.len() {
            break;
        }
    }
    out.extend_from_slice(&tag[written.min(tag.len())..]);
}

/// The characters for which links contain references.
const REFERENCES: [(&str, &str); 6] =
    [("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&#39;", "'")];

fn unescape(value: &str) -> String {
    // The ampersand comes last, because an ampersand from a reference does not start another reference.
    let (ampersand, others) = REFERENCES.split_at(1);
    let unescaped = others.iter().fold(value.to_owned(), |value, (reference, text)| value.replace(reference, text));
    ampersand.iter().fold(unescaped, |value, (reference, text)| value.replace(reference, text))
}

fn escape(value: &str) -> String {
    let escaped = value.replace('&', "&amp;").replace('\'', "&#39;").replace('<', "&lt;");
    escaped.replace('>', "&gt;").replace('"', "&#34;").replace('\r', "&#13;")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    /// Frames of a backend.
    type Frames = StreamBody<stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

    fn frames(frames: &[&[u8]]) -> Frames {
        let frames: Vec<_> = frames.iter().map(|bytes| Ok(Frame::data(Bytes::copy_from_slice(bytes)))).collect();
        StreamBody::new(stream::iter(frames))
    }

    #[tokio::test]
    async fn pages_count_while_they_are_in_memory() {
        let rewrite = |_: &str| Ok("/longer".to_owned());
        let (bodies, permits) = (BodyBudget::new(1 << 20), CpuPermits::default());
        let page = rewritten(frames(&[b"<a href", b"=/x>"]), "", rewrite, &bodies, &permits);
        let page = page.await.expect("a page");
        assert_eq!((page.changed_length, &page.content[..]), (Some(18), &b"<a href=\"/longer\">"[..]));
        assert_eq!(bodies.held(), 11 + 18);
        drop(page);
        assert_eq!(bodies.held(), 0);
        // Without room, a page stays unchanged.
        let piece = &[b'x'; 60 << 10][..];
        for (limit, pieces) in [(100 << 10, 2), (1 << 20, 3), (0, 1)] {
            let bodies = BodyBudget::new(limit);
            let page = rewritten(frames(&[piece; 3]), "", rewrite, &bodies, &permits);
            let mut page = page.await.expect("a page");
            assert_eq!(page.content.len(), pieces * piece.len());
            let is_complete = page.rest.is_none();
            assert_eq!((is_complete, page.changed_length.is_some()), (pieces == 3, pieces == 3));
            let mut received = page.content.len();
            while let Some(frame) = match &mut page.rest {
                Some(rest) => rest.frame().await,
                None => None,
            } {
                received += frame.expect("no error").into_data().expect("data").len();
            }
            assert_eq!(received, 3 * piece.len());
        }
    }

    #[tokio::test]
    async fn large_and_compressed_pages_are_changed_beside_the_requests() {
        let large = [b"<a href=/x>".to_vec(), vec![b'x'; SMALL_PAGE_BYTES]].concat();
        let compressed = encoded(b"<a href=/x>".to_vec(), "gzip").expect("compressed");
        for (page, encoding, is_beside) in
            [(&b"<a href=/x>"[..], "", false), (&large[..], "", true), (&compressed[..], "gzip", true)]
        {
            let own = std::thread::current().id();
            let rewrite = move |link: &str| {
                assert_eq!(link, "/x");
                assert_eq!(std::thread::current().id() != own, is_beside);
                Ok("/y".to_owned())
            };
            let bodies = BodyBudget::new(1 << 20);
            let page = rewritten(frames(&[page]), encoding, rewrite, &bodies, &CpuPermits::default()).await;
            let content = decoded(&page.expect("a page").content, encoding).expect("readable");
            assert!(content.starts_with(b"<a href=\"/y\">"));
        }
    }

    fn rewriter() -> LinkRewriter {
        let location = Location { authority: "10.0.0.1:80".to_owned(), path: "/a/".to_owned(), ..Location::default() };
        LinkRewriter::new("/api/proxy/a/", &location, "h:6443")
    }

    #[test]
    fn links_to_the_backend_lead_through_the_proxy() {
        for (link, expect) in [
            ("/x", "/api/proxy/x"),
            ("/x/", "/api/proxy/x/"),
            ("/", "/api/proxy/"),
            ("/x/../y?q=%2F#f", "/api/proxy/y?q=%2F#f"),
            ("/api/proxy/x", "/api/proxy/x"),
            ("x", "x"),
            ("?q", "?q"),
            ("#f", "#f"),
            ("http://10.0.0.1:80/x", "/api/proxy/x"),
            ("https://h:6443/x", "https://h:6443/api/proxy/x"),
            ("http://example.com/x", "http://example.com/x"),
            ("mailto:x@example.com", "mailto:x@example.com"),
        ] {
            assert_eq!(rewriter().rewrite(link).as_deref(), Ok(expect), "{link}");
        }
        assert!(rewriter().rewrite("http://[x/").is_err());
    }

    #[test]
    fn pages_get_other_links() {
        let check = |page: &str, expect: &str| {
            let changed = rewrite_page(page.as_bytes(), |link| rewriter().rewrite(link));
            assert_eq!(String::from_utf8_lossy(&changed), expect);
        };
        check("<a href=\"/x\">/x</a>", "<a href=\"/api/proxy/x\">/x</a>");
        check("<A HREF=/x?a=1&amp;b='2' class=k>", "<A HREF=\"/api/proxy/x?a=1&amp;b=&#39;2&#39;\" class=k>");
        check("<a  href = '/x' >", "<a  href = \"/api/proxy/x\" >");
        check("<img alt=\"a>b\" src=/x/>", "<img alt=\"a>b\" src=\"/api/proxy/x/\">");
        check("<a data-href=/x title=/y>", "<a data-href=/x title=/y>");
        for same in [
            "",
            "<",
            "< a href=/x>",
            "a < b <",
            "<a href=\"/x",
            "<!-- <a href=/x> -->",
            "<!-- <a href=/x>",
            "<!DOCTYPE html><p class=\"/x\">&copy; <a href='x'>",
            "<script>\"<a href='/x'>\"</script>",
            "<style><a href=/x></STYLE>",
            "<textarea><a href=/x>",
            "<a href>",
            "<a href=>",
            "<a =/x>",
            "<a href=\"http://[x/\">",
        ] {
            check(same, same);
        }
        check(
            "<script src=/x>'<a href=/y>'</script><a href=/z>",
            "<script src=\"/api/proxy/x\">'<a href=/y>'</script><a href=\"/api/proxy/z\">",
        );
    }

    #[test]
    fn any_bytes_are_a_page() {
        let pieces = ["<", "a ", "href", "=", "\"", "'", "/x", ">", "/", "<!--", "-->", "<script", "</", " ", "\u{e9}"];
        let mut state = 1_u32;
        for _ in 0..20_000 {
            let mut page = String::new();
            for _ in 0..8 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                page.push_str(pieces[(state >> 16) as usize % pieces.len()]);
            }
            // If no link changes, the page stays the same.
            let same = rewrite_page(page.as_bytes(), |link| Ok(link.to_owned()));
            assert_eq!(String::from_utf8_lossy(&same), page);
            let _ = rewrite_page(page.as_bytes(), |link| rewriter().rewrite(link));
        }
    }

    #[test]
    fn compressed_pages_stay_compressed() {
        let page = Bytes::from_static(b"<a href=/x>");
        for encoding in ["", "gzip", "deflate"] {
            let compressed = encoded(page.to_vec(), encoding).expect("an encoding");
            assert_eq!(decoded(&compressed.into(), encoding).as_deref(), Some(&page[..]), "{encoding}");
        }
        assert_eq!(decoded(&page, "br"), None);
        assert_eq!(decoded(&page, "gzip"), None);
        let large = encoded(vec![b'x'; MAX_PAGE_BYTES + 1], "gzip").expect("an encoding");
        assert_eq!(decoded(&large.into(), "gzip"), None);
    }
}
