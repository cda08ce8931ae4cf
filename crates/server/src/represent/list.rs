//! Lists. JSON (and tables in JSON) are written piece by piece while the connection takes them, at one revision, so that
//! memory does not grow with the list; the other encodings are made whole.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use pintle_cache::{Key, KeyRange, Log, Object, Pin};
use pintle_registry::{ApiError, BoxFuture, GroupVersionKind};
use pintle_value::{Value, object};

use super::encode::{Shape, encode, json, write_json};
use super::items::Items;
use super::{Form, partial};
use crate::http::Produce;
use crate::negotiate::{Encoding, Transform};
use crate::read::Selection;
use crate::versions::View;

/// A piece of a body is sent when it has grown to this.
const PIECE: usize = 128 * 1024;
/// Keys looked at under one hold of the log's lock.
const STRIDE: usize = 512;

/// `metadata` of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListHead {
    pub(crate) revision: String,
    pub(crate) continue_token: String,
    pub(crate) remaining: Option<usize>,
}

impl ListHead {
    pub(crate) fn metadata(&self) -> Value {
        let mut metadata = Value::object();
        if !self.revision.is_empty() {
            metadata.set("resourceVersion", self.revision.as_str());
        }
        if !self.continue_token.is_empty() {
            metadata.set("continue", self.continue_token.as_str());
        }
        if let Some(remaining) = self.remaining {
            metadata.set("remainingItemCount", remaining as i64);
        }
        metadata
    }
}

/// Where a list's objects come from.
pub(crate) enum Source {
    /// Objects at hand.
    Objects(std::vec::IntoIter<Arc<Object>>),
    /// A walk over a log at a revision, which is pinned meanwhile.
    Walk { log: Arc<Log>, range: KeyRange, selection: Selection, at: u64, after: Option<Key>, done: bool, _pin: Pin },
}

impl Source {
    /// What is selected only once it is shown.
    fn late(&self, view: &View) -> Option<Selection> {
        match self {
            Source::Walk { selection, .. } if selection.is_late(view) => Some(selection.clone()),
            _ => None,
        }
    }

    /// The next objects; empty at the end. Those that are selected `late`, when they are shown, are not selected yet.
    fn next(&mut self, late: bool) -> Result<Vec<Arc<Object>>, io::Error> {
        match self {
            Source::Objects(objects) => Ok(objects.by_ref().take(STRIDE).collect()),
            Source::Walk { log, range, selection, at, after, done, .. } => {
                while !*done {
                    let page = log
                        .page(range, after.as_deref(), *at, STRIDE)
                        .map_err(|_| io::Error::other("the list took longer than history is kept"))?;
                    *done = page.last.is_none();
                    *after = page.last;
                    let mut objects = page.objects;
                    if !late {
                        objects.retain(|object| selection.matches(object));
                    }
                    if !objects.is_empty() {
                        return Ok(objects);
                    }
                }
                Ok(Vec::new())
            }
        }
    }
}

/// The objects of a list as it shows them.
struct Shown {
    view: View,
    source: Source,
    /// Selects what is shown, where that is known only then.
    late: Option<Selection>,
    /// Objects that were shown before anything was said.
    ahead: VecDeque<Vec<Arc<Object>>>,
    /// Objects that are being converted.
    showing: Option<BoxFuture<'static, Result<Vec<Arc<Object>>, ApiError>>>,
}

/// A list is not begun before so many bytes of it are known to be convertible.
const AHEAD: usize = 4 << 20;

impl Shown {
    /// Shows the first objects, so that who asks hears why that does not work.
    async fn begin(form: &Form, source: Source) -> Result<Self, ApiError> {
        let (view, late) = (form.view.clone(), source.late(&form.view));
        let mut shown = Self { view, source, late, ahead: VecDeque::new(), showing: None };
        let (mut ahead, mut bytes) = (VecDeque::new(), 0);
        while bytes < AHEAD && !shown.view.is_plain() {
            let objects = std::future::poll_fn(|cx| shown.poll_next(cx)).await?;
            if objects.is_empty() {
                break;
            }
            bytes += objects.iter().map(|object| object.json.len()).sum::<usize>();
            ahead.push_back(objects);
            // Others of this thread need not wait for all of them.
            tokio::task::yield_now().await;
        }
        shown.ahead = ahead;
        Ok(shown)
    }

    /// The next objects; empty at the end.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Arc<Object>>, ApiError>> {
        if let Some(objects) = self.ahead.pop_front() {
            return Poll::Ready(Ok(objects));
        }
        loop {
            let Some(showing) = &mut self.showing else {
                let objects =
                    self.source.next(self.late.is_some()).map_err(|error| ApiError::Internal(error.to_string()))?;
                if objects.is_empty() || self.view.is_plain() {
                    return Poll::Ready(Ok(objects));
                }
                let view = self.view.clone();
                self.showing = Some(Box::pin(async move { view.show(objects).await }));
                continue;
            };
            let shown = ready!(showing.as_mut().poll(cx));
            self.showing = None;
            let mut objects = shown?;
            if let Some(selection) = &self.late {
                objects.retain(|object| selection.matches(object));
            }
            if !objects.is_empty() {
                return Poll::Ready(Ok(objects));
            }
        }
    }
}

/// The body of a list.
pub(crate) struct ListBody {
    form: Form,
    items: Items,
    shown: Shown,
    /// The piece that is being made.
    piece: Vec<u8>,
    tail: &'static [u8],
    first: bool,
    ended: bool,
}

impl ListBody {
    /// The body of a list in the form that the client wants: made piece by piece, or `Err` with the whole bytes for the
    /// encodings that cannot be.
    pub(crate) async fn make(form: Form, head: &ListHead, source: Source) -> Result<Result<Self, Vec<u8>>, ApiError> {
        form.check_list()?;
        let mut shown = Shown::begin(&form, source).await?;
        if form.accepted.encoding == Encoding::Json && !form.accepted.pretty {
            let (piece, tail) = form.frame(head);
            return Ok(Ok(Self { items: Items::of(&form), form, shown, piece, tail, first: true, ended: false }));
        }
        let mut items = Vec::new();
        loop {
            let objects = std::future::poll_fn(|cx| shown.poll_next(cx)).await?;
            if objects.is_empty() {
                break;
            }
            for object in objects {
                items.push(form.item_tree(&object)?);
            }
        }
        Ok(Err(form.whole(head, items)))
    }

    /// Adds objects to the piece.
    fn add(&mut self, objects: &[Arc<Object>]) -> Result<(), io::Error> {
        let mut piece = std::mem::take(&mut self.piece);
        let added = objects.iter().try_for_each(|object| self.item(object, &mut piece));
        self.piece = piece;
        added
    }

    fn item(&mut self, object: &Object, out: &mut Vec<u8>) -> Result<(), io::Error> {
        if !std::mem::take(&mut self.first) {
            out.push(b',');
        }
        self.items.write(&self.form, object, out).map_err(|e| io::Error::other(e.to_string()))
    }
}

impl Produce for ListBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.piece.capacity() < PIECE {
            self.piece.reserve(PIECE + 16 * 1024);
        }
        while self.piece.len() < PIECE {
            let objects = ready!(self.shown.poll_next(cx)).map_err(|error| io::Error::other(error.to_string()));
            let added = match &objects {
                Ok(objects) if objects.is_empty() => {
                    self.piece.extend_from_slice(self.tail);
                    self.ended = true;
                    break;
                }
                Ok(objects) => self.add(objects),
                Err(_) => Ok(()),
            };
            if let Err(error) = objects.and(added) {
                self.ended = true;
                return Poll::Ready(Some(Err(error)));
            }
        }
        Poll::Ready(Some(Ok(std::mem::take(&mut self.piece).into())))
    }

    fn is_done(&self) -> bool {
        self.ended
    }
}

impl Form {
    /// Kind and apiVersion of a list in this form.
    pub(crate) fn list_kind(&self) -> GroupVersionKind {
        let (group, version, kind) = match self.accepted.transform {
            Some(Transform::Table(version)) => ("meta.k8s.io", version.api_version(), "Table"),
            Some(Transform::Partial(version) | Transform::PartialList(version)) => {
                ("meta.k8s.io", version.api_version(), "PartialObjectMetadataList")
            }
            None => (self.resource.group.as_str(), self.resource.version.as_str(), self.resource.list_kind.as_str()),
        };
        GroupVersionKind::new(group, version.rsplit('/').next().unwrap_or_default(), kind)
    }

    /// What stands before and after the items of a list in JSON.
    fn frame(&self, head: &ListHead) -> (Vec<u8>, &'static [u8]) {
        let mut out = Vec::with_capacity(512);
        let metadata = self.list_metadata(head);
        let gvk = self.list_kind();
        let mut string = |lead: &str, text: &str| {
            out.extend_from_slice(lead.as_bytes());
            pintle_codec::json::write_string(text, &mut out);
        };
        if matches!(self.accepted.transform, Some(Transform::Table(_))) {
            string("{\"kind\":", &gvk.kind);
            string(",\"apiVersion\":", &gvk.group_version().to_string());
            out.extend_from_slice(b",\"metadata\":");
            out.extend_from_slice(&metadata);
            out.extend_from_slice(b",\"columnDefinitions\":");
            write_json(&self.columns(), Shape::Untyped, &mut out);
            out.extend_from_slice(b",\"rows\":[");
            return (out, b"]}\n");
        }
        if self.resource.typed || self.accepted.transform.is_some() {
            string("{\"kind\":", &gvk.kind);
            string(",\"apiVersion\":", &gvk.group_version().to_string());
            out.extend_from_slice(b",\"metadata\":");
            out.extend_from_slice(&metadata);
            out.extend_from_slice(b",\"items\":[");
            return (out, b"]}\n");
        }
        // Members of untyped lists are sorted, which puts kind and metadata behind the items: they are written before
        // them here, so that the list can be streamed; the order of members means nothing.
        string("{\"apiVersion\":", &gvk.group_version().to_string());
        string(",\"kind\":", &gvk.kind);
        out.extend_from_slice(b",\"metadata\":");
        out.extend_from_slice(&metadata);
        out.extend_from_slice(b",\"items\":[");
        (out, b"]}\n")
    }

    /// The metadata of a list. Those of custom kinds always say that they do not go on.
    fn list_metadata(&self, head: &ListHead) -> Vec<u8> {
        let mut metadata = head.metadata();
        if self.resource.typed || self.accepted.transform.is_some() {
            return json(&metadata, Shape::named(&self.cluster.catalog, "meta/v1.ListMeta"));
        }
        metadata.set_default("continue", "");
        json(&metadata, Shape::Untyped)
    }

    /// Refuses to show a list as the metadata of an object.
    fn check_list(&self) -> Result<(), ApiError> {
        let Some(Transform::Partial(_)) = self.accepted.transform else { return Ok(()) };
        let list = if self.resource.typed {
            format!("*{}.{}", self.resource.version, self.resource.list_kind)
        } else {
            "*unstructured.UnstructuredList".to_owned()
        };
        Err(ApiError::NotAcceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({list})"
        )))
    }

    /// The finished body of a list of objects that are at hand as trees at the request's version.
    ///
    /// # Errors
    /// The form is none of a list.
    pub(crate) fn list_of(&self, head: &ListHead, objects: Vec<Value>) -> Result<Vec<u8>, ApiError> {
        self.check_list()?;
        Ok(self.whole(head, objects.into_iter().map(|object| self.item_of(object)).collect()))
    }

    pub(super) fn item_tree(&self, object: &Object) -> Result<Value, ApiError> {
        self.tree(object).map(|tree| self.item_of(tree))
    }

    /// An item of a list in this form.
    fn item_of(&self, mut object: Value) -> Value {
        match self.accepted.transform {
            Some(Transform::Table(_)) => self.row(&object),
            Some(Transform::Partial(version) | Transform::PartialList(version)) => partial(&object, version),
            None => {
                if self.resource.typed {
                    object.remove("kind");
                    object.remove("apiVersion");
                }
                object
            }
        }
    }

    pub(super) fn item_shape(&self) -> Shape<'_> {
        match self.accepted.transform {
            Some(Transform::Table(_)) => Shape::named(&self.cluster.catalog, "meta/v1.TableRow"),
            Some(Transform::Partial(_) | Transform::PartialList(_)) => {
                Shape::named(&self.cluster.catalog, "meta/v1.PartialObjectMetadata")
            }
            None => self.shape(),
        }
    }

    /// A list as a whole, for the encodings that are not streamed.
    fn whole(&self, head: &ListHead, items: Vec<Value>) -> Vec<u8> {
        let gvk = self.list_kind();
        let Form { accepted, cluster, .. } = self;
        if let Some(Transform::Table(version)) = accepted.transform {
            let table = self.table(version, head, items, true);
            return encode(&table, Shape::named(&cluster.catalog, "meta/v1.Table"), accepted.encoding, accepted.pretty);
        }
        let list = object! {
            "kind": gvk.kind.as_str(),
            "apiVersion": gvk.group_version().to_string(),
            "metadata": head.metadata(),
            "items": items,
        };
        let id = match accepted.transform {
            Some(_) => cluster.catalog.struct_type("meta/v1.PartialObjectMetadataList"),
            None => cluster.catalog.kind_type(&gvk.group, &gvk.version, &gvk.kind),
        };
        let shape = id.map_or(Shape::Untyped, |id| Shape::Typed(cluster.catalog.types(), id));
        encode(&list, shape, accepted.encoding, accepted.pretty)
    }
}
