//! Lists. They are written piece by piece while the connection takes them, at one revision, in every encoding, so that
//! memory does not grow with the list.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use pintle_cache::Object;
use pintle_registry::{ApiError, GroupVersionKind};
use pintle_value::Value;

use super::framing::Framing;
use super::items::Items;
use super::source::{Shown, Source};
use super::{ResponseFormat, partial};
use crate::http::{Body, BodySource, Response};
use crate::objects::encode::Shape;
use crate::objects::model;
use crate::request::negotiate::Transform;

/// A piece of a body is sent when it has grown to this.
const PIECE: usize = 128 * 1024;
/// Up to so many objects that were measured are held until they are written; of a longer list none are.
const HELD: usize = 16 * 1024;
/// Objects that are measured in one turn.
const MEASURED: usize = 128;

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

/// The body of a list.
struct ListBody {
    form: ResponseFormat,
    items: Items,
    framing: Framing,
    shown: Shown,
    /// Objects that are shown and not written yet.
    objects: std::vec::IntoIter<Arc<Object>>,
    /// The piece that is being made.
    piece: Vec<u8>,
    ended: bool,
}

impl ListBody {
    async fn begin(form: ResponseFormat, head: &ListHead, source: Source) -> Result<Self, ApiError> {
        form.check_list()?;
        let shown = Shown::begin(form.view.clone(), source).await?;
        let (items, framing) = (Items::of(&form), Framing::of(&form, head));
        let objects = Vec::new().into_iter();
        let mut body = Self { form, items, framing, shown, objects, piece: Vec::new(), ended: false };
        if body.framing.measures() {
            body.measure().await?;
        }
        body.piece.reserve(PIECE + 16 * 1024);
        body.framing.begin(&mut body.piece);
        Ok(body)
    }

    /// Goes over all objects for what has to be known of them ahead, with turns like those that make pieces.
    async fn measure(&mut self) -> Result<(), ApiError> {
        let (mut work, mut held, mut all) = (Vec::new(), Vec::new(), true);
        loop {
            let objects = self.shown.next().await?;
            if objects.is_empty() {
                match all {
                    true => self.objects = held.into_iter(),
                    false => self.shown.rewind(),
                }
                return Ok(());
            }
            for objects in objects.chunks(MEASURED) {
                let turn = self.form.cluster.cpu_permits.take().await;
                for object in objects {
                    let length = self.items.length(&self.form, object, &mut work)?;
                    self.framing.measure(length);
                }
                drop(turn);
                tokio::task::yield_now().await;
            }
            all = all && held.len() + objects.len() <= HELD;
            match all {
                true => held.extend(objects),
                false => held = Vec::new(),
            }
        }
    }

    /// Adds objects to the piece until it is large enough. False if there are no more.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, ApiError>> {
        while self.piece.len() < PIECE {
            let Some(object) = self.objects.next() else {
                let objects = ready!(self.shown.poll_next(cx))?;
                if objects.is_empty() {
                    self.framing.end(&mut self.piece)?;
                    return Poll::Ready(Ok(false));
                }
                self.objects = objects.into_iter();
                continue;
            };
            let Self { form, items, framing, piece, .. } = self;
            framing.item(piece, |out| items.write(form, &object, out))?;
        }
        Poll::Ready(Ok(true))
    }
}

impl BodySource for ListBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.piece.capacity() < PIECE {
            self.piece.reserve(PIECE + 16 * 1024);
        }
        let filled = ready!(self.poll_fill(cx));
        self.ended = !matches!(filled, Ok(true));
        let piece = filled.map(|_| std::mem::take(&mut self.piece).into());
        Poll::Ready(Some(piece.map_err(|error| io::Error::other(error.to_string()))))
    }

    fn is_done(&self) -> bool {
        self.ended
    }
}

impl ResponseFormat {
    /// A list as an answer.
    ///
    /// # Errors
    /// The form is none of a list, or the first objects cannot be shown.
    pub(crate) async fn respond_list(&self, head: &ListHead, source: Source) -> Result<Response, ApiError> {
        let body = ListBody::begin(self.clone(), head, source).await?;
        Ok(self.respond(StatusCode::OK, Body::from_source(Box::new(body), &self.cluster.cpu_permits).await))
    }

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

    /// Refuses to show a list as the metadata of an object.
    fn check_list(&self) -> Result<(), ApiError> {
        let Some(Transform::Partial(_)) = self.accepted.transform else { return Ok(()) };
        let list = model(&self.resource).go_list_type(&self.resource);
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
        let mut framing = Framing::of(self, head);
        let item = |object| {
            let mut item = Vec::new();
            self.write_item(self.item_of(object), &mut item);
            item
        };
        let items: Vec<Vec<u8>> = objects.into_iter().map(item).collect();
        items.iter().for_each(|item| framing.measure(item.len()));
        let mut list = Vec::new();
        framing.begin(&mut list);
        for item in items {
            framing.item(&mut list, |out| {
                out.extend_from_slice(&item);
                Ok(())
            })?;
        }
        framing.end(&mut list)?;
        Ok(list)
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
                model(&self.resource).strip_item_type(&mut object);
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
}
