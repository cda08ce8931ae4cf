//! What `kubectl explain` shows: the descriptions of types and fields, taken from the `k8s-openapi` package when the
//! program is built (see `build.rs`). They are unpacked when first asked for and given back with the last holder.

use std::io::Read as _;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The packed descriptions.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.z"));

/// Starts a type: its OpenAPI name follows.
const TYPE: char = '\x1d';
/// Starts a field of the type before it: its name follows, empty for the type itself.
const FIELD: char = '\x1e';
/// Starts the field's text.
const TEXT: char = '\x1f';

/// The descriptions, unpacked: about 1 MB while it is held.
#[derive(Debug)]
pub struct Descriptions {
    text: String,
    /// The places of the types in the text, sorted by OpenAPI name.
    types: Vec<Range<usize>>,
}

/// The descriptions of all types. Hold the value for as long as there are more to look up, then drop it.
#[must_use]
pub fn descriptions() -> Arc<Descriptions> {
    static HELD: Mutex<Weak<Descriptions>> = Mutex::new(Weak::new());
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = held.upgrade() {
        return found;
    }
    let unpacked = Arc::new(Descriptions::unpack());
    *held = Arc::downgrade(&unpacked);
    unpacked
}

impl Descriptions {
    fn unpack() -> Self {
        let mut text = String::new();
        // The bytes are part of the program; were they damaged, there would be no descriptions.
        if flate2::read::ZlibDecoder::new(PACKED).read_to_string(&mut text).is_err() {
            text.clear();
        }
        let starts: Vec<usize> = text.match_indices(TYPE).map(|(at, _)| at + 1).collect();
        let ends = starts.iter().skip(1).map(|next| next - 1).chain([text.len()]);
        let types = starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect();
        Self { text, types }
    }

    /// The description of a type, by its OpenAPI name (`io.k8s.api.core.v1.Pod`).
    #[must_use]
    pub fn of(&self, model: &str) -> Option<&str> {
        self.find(model, "")
    }

    /// The description of a type's field. List kinds share the texts of theirs.
    #[must_use]
    pub fn field(&self, model: &str, field: &str) -> Option<&str> {
        self.find(model, field).or_else(|| if model.ends_with("List") { self.find("List", field) } else { None })
    }

    fn find(&self, model: &str, field: &str) -> Option<&str> {
        let name = |range: &Range<usize>| self.text[range.clone()].split(FIELD).next().unwrap_or_default();
        let at = self.types.binary_search_by(|range| name(range).cmp(model)).ok()?;
        self.text[self.types[at].clone()]
            .split(FIELD)
            .skip(1)
            .filter_map(|entry| entry.split_once(TEXT))
            .find_map(|(name, text)| (name == field).then_some(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared;
    use pintle_schema::Type;

    #[test]
    fn texts_are_found() {
        let texts = descriptions();
        let check = |model: &str, field: &str, start: &str| {
            let found = if field.is_empty() { texts.of(model) } else { texts.field(model, field) };
            assert!(found.is_some_and(|text| text.starts_with(start)), "{model} {field}: {found:?}");
        };
        check("io.k8s.api.core.v1.Pod", "", "Pod is ");
        check("io.k8s.api.core.v1.Pod", "spec", "Specification ");
        check("io.k8s.api.core.v1.ContainerPort", "hostIP", "What host IP ");
        check("io.k8s.api.core.v1.PodList", "metadata", "");
        check("io.k8s.api.core.v1.PodList", "kind", "Kind is ");
        check("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "labels", "Map of string keys ");
        assert_eq!(texts.of("io.k8s.api.core.v1.Nothing"), None);
        assert_eq!(texts.field("io.k8s.api.core.v1.Pod", "nothing"), None);
    }

    /// Every field of the types that resources are made of has its text, but for a few that have none upstream.
    #[test]
    fn served_fields_have_texts() {
        let catalog = shared();
        let texts = descriptions();
        let mut open: Vec<_> =
            catalog.resources().iter().filter_map(|r| catalog.kind_type(r.group, r.version, r.kind)).collect();
        let mut seen = std::collections::BTreeSet::new();
        let (mut all, mut without) = (0, Vec::new());
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            match catalog.types().get(id) {
                Type::Struct(found) => {
                    for field in &found.fields {
                        all += 1;
                        if texts.field(&found.model, &field.name).is_none() {
                            without.push(format!("{} {}", found.name, field.name));
                        }
                        open.push(field.ty);
                    }
                }
                Type::List(list) => open.push(list.item),
                Type::Map(map) => open.push(map.value),
                Type::Union(union) => open.push(union.schema),
                Type::Scalar(_) | Type::Any => {}
            }
        }
        assert!(all > 2_000, "{all}");
        without.retain(|field| !field.starts_with("apiextensions/v1.JSONSchemaProps "));
        without.sort_unstable();
        assert_eq!(
            without,
            [
                "apiextensions/v1.ExternalDocumentation description",
                "apiextensions/v1.ExternalDocumentation url",
                "certificates/v1.CertificateSigningRequest metadata",
                "networking/v1.IngressRule http",
            ]
        );
    }

    #[test]
    fn holders_share() {
        let held = descriptions();
        assert!(Arc::ptr_eq(&held, &descriptions()), "one copy serves all holders");
    }
}
