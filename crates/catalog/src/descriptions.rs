//! The descriptions of types and fields for `kubectl explain`. They are extracted from the `k8s-openapi` package at
//! build time (see `build.rs`), decompressed on first use, and freed with the last reference.

use std::io::Read as _;
use std::ops::Range;
use std::sync::{Arc, Weak};

use pintle_locks::Mutex;
use pintle_versions::{Minor, MinorRange};

/// The compressed descriptions.
const COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.z"));

/// Starts a type. Its OpenAPI name follows.
const TYPE: char = '\x1d';
/// Starts a field of the preceding type. Its name follows; it is empty for the description of the type itself.
const FIELD: char = '\x1e';
/// Starts the versions that have the description, after the name of the field. Without it, all versions have it.
const VERSIONS: char = '\x1c';
/// Starts the description of the field.
const TEXT: char = '\x1f';

/// The decompressed descriptions of all versions. They take about 2 MB of memory.
#[derive(Debug)]
struct Texts {
    text: String,
    /// The range of each type in the text, sorted by OpenAPI name.
    types: Vec<Range<usize>>,
}

/// The descriptions of a version of Kubernetes. All of them share one copy.
#[derive(Clone, Debug)]
pub struct Descriptions {
    texts: Arc<Texts>,
    minor: Minor,
}

/// The descriptions of all types in a version. Drop the value when there is nothing more to look up, so that the memory
/// is freed.
#[must_use]
pub fn descriptions(minor: Minor) -> Descriptions {
    static CACHE: Mutex<Weak<Texts>> = Mutex::new(Weak::new());
    let mut cache = CACHE.lock();
    let texts = cache.upgrade().unwrap_or_else(|| {
        let decompressed = Arc::new(Texts::decompress());
        *cache = Arc::downgrade(&decompressed);
        decompressed
    });
    Descriptions { texts, minor }
}

impl Texts {
    fn decompress() -> Self {
        let mut text = String::new();
        // The data is compiled in. If it were corrupt, there would be no descriptions.
        if flate2::read::ZlibDecoder::new(COMPRESSED).read_to_string(&mut text).is_err() {
            text.clear();
        }
        let starts: Vec<usize> = text.match_indices(TYPE).map(|(at, _)| at + 1).collect();
        let ends = starts.iter().skip(1).map(|next| next - 1).chain([text.len()]);
        let types = starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect();
        Self { text, types }
    }

    fn find(&self, model: &str, field: &str, minor: Minor) -> Option<&str> {
        let name = |range: &Range<usize>| self.text[range.clone()].split(FIELD).next().unwrap_or_default();
        let at = self.types.binary_search_by(|range| name(range).cmp(model)).ok()?;
        // A model that has been removed keeps the text of the last version with it.
        let mut last = None;
        for (head, text) in self.text[self.types[at].clone()].split(FIELD).skip(1).filter_map(|e| e.split_once(TEXT)) {
            let (name, versions) = head.split_once(VERSIONS).unwrap_or((head, ".."));
            if name == field {
                last = Some(text);
                if versions.parse().is_ok_and(|range: MinorRange| range.contains(minor)) {
                    break;
                }
            }
        }
        last
    }
}

impl Descriptions {
    /// The description of a type by its OpenAPI name (`io.k8s.api.core.v1.Pod`).
    #[must_use]
    pub fn type_description(&self, model: &str) -> Option<&str> {
        self.find(model, "")
    }

    /// The description of a field of a type. The fields of all list kinds have the same descriptions.
    #[must_use]
    pub fn field(&self, model: &str, field: &str) -> Option<&str> {
        self.find(model, field).or_else(|| if model.ends_with("List") { self.find("List", field) } else { None })
    }

    fn find(&self, model: &str, field: &str) -> Option<&str> {
        self.texts.find(model, field, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::complete_of;
    use pintle_schema::Type;

    #[test]
    fn descriptions_are_found_by_model_and_field() {
        let texts = descriptions(Minor::DEFAULT);
        let check = |model: &str, field: &str, start: &str| {
            let found = if field.is_empty() { texts.type_description(model) } else { texts.field(model, field) };
            assert!(found.is_some_and(|text| text.starts_with(start)), "{model} {field}: {found:?}");
        };
        check("io.k8s.api.core.v1.Pod", "", "Pod is ");
        check("io.k8s.api.core.v1.Pod", "spec", "Specification ");
        check("io.k8s.api.core.v1.ContainerPort", "hostIP", "What host IP ");
        check("io.k8s.api.core.v1.PodList", "metadata", "");
        check("io.k8s.api.core.v1.PodList", "kind", "Kind is ");
        check("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "labels", "Map of string keys ");
        assert_eq!(texts.type_description("io.k8s.api.core.v1.Nothing"), None);
        assert_eq!(texts.field("io.k8s.api.core.v1.Pod", "nothing"), None);
    }

    /// All fields of the types of resources have descriptions, except for a few that have none upstream.
    #[test]
    fn fields_of_served_types_have_descriptions() {
        Minor::known().for_each(check_descriptions);
    }

    fn check_descriptions(minor: Minor) {
        let (catalog, texts) = (complete_of(minor), descriptions(minor));
        let mut open: Vec<_> =
            catalog.resources().iter().filter_map(|r| catalog.kind_type(r.group, r.version, r.kind)).collect();
        let mut seen = std::collections::BTreeSet::new();
        let (mut all, mut without) = (0, Vec::new());
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            match catalog.types().get(id) {
                Type::Struct(declared) => {
                    for field in &declared.fields {
                        all += 1;
                        if texts.field(&declared.model, &field.name).is_none() {
                            without.push(format!("{} {}", declared.name, field.name));
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
        // Those have none upstream.
        let known = [
            "apiextensions/v1.ExternalDocumentation description",
            "apiextensions/v1.ExternalDocumentation url",
            "certificates/v1.CertificateSigningRequest metadata",
            "meta/v1.GroupResource group",
            "meta/v1.GroupResource resource",
            "networking/v1.IngressRule http",
        ];
        without.retain(|field| !known.contains(&field.as_str()));
        assert_eq!(without, Vec::<String>::new(), "in {minor}");
    }

    #[test]
    fn concurrent_users_share_one_copy() {
        let first = descriptions(Minor::OLDEST);
        assert!(Arc::ptr_eq(&first.texts, &descriptions(Minor::NEWEST).texts), "both must be the same copy");
    }
}
