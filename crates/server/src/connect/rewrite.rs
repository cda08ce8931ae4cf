//! Links of a backend that are changed so that they lead through the proxy (upstream: `util/proxy.Transport`).

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use pintle_outbound::{RequestError, ResponseBody};
use pintle_value::url::parse_reference;

use super::Location;
use super::copy::streamed;
use super::proxies::clean;
use crate::context::RequestContext;
use crate::http::Body;

/// Maximum size of a page whose links are changed, in bytes. A larger one is passed on as it is: upstream has no limit,
/// and holds the whole page in memory.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// Changes links that lead to the backend.
pub(super) struct LinkRewriter {
    /// What precedes the path of the backend in the path of the client.
    prefix: String,
    /// The host of the backend.
    backend: String,
    /// The host that the client has asked for.
    requested: String,
}

impl LinkRewriter {
    /// A rewriter for the path of a request and its location at the backend.
    pub(super) fn new(path: &str, location: &Location, requested: &str) -> Self {
        let prefix = path.strip_suffix(location.path.as_str()).unwrap_or(path).to_owned();
        Self { prefix, backend: location.authority.clone(), requested: requested.to_owned() }
    }

    /// What precedes the path of the backend in the path of the client.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The link that leads through the proxy, if the given one leads to the backend.
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
        // As upstream, whose proxy knows neither its own scheme nor its host.
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
pub(super) struct Page {
    /// True if its length may not be that of the backend.
    pub(super) is_changed: bool,
    content: Bytes,
    /// What follows the content, of a page that is too large.
    rest: Option<ResponseBody>,
}

impl Page {
    /// The body of the response.
    pub(super) fn into_body(self, request: &RequestContext) -> Body {
        let Some(rest) = self.rest else { return Body::from(self.content) };
        let (content, rest) = (self.content, streamed(request, rest));
        Body::from_writer(move |sender| async move {
            sender.send(content.into()).await;
            let mut rest = rest;
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

/// Reads a page.
///
/// # Errors
/// The backend breaks off.
pub(super) async fn rewritten(
    mut body: ResponseBody,
    _encoding: &str,
    _rewriter: &LinkRewriter,
) -> Result<Page, RequestError> {
    let mut content = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame?.into_data() {
            content.extend_from_slice(&bytes);
        }
        if content.len() > MAX_PAGE_BYTES {
            return Ok(Page { is_changed: false, content: content.freeze(), rest: Some(body) });
        }
    }
    Ok(Page { is_changed: false, content: content.freeze(), rest: None })
}
