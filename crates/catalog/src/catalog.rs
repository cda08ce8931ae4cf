//! The catalog itself: types and resource facts, found by name. It is immutable and shared by all clusters of a
//! process.

use std::sync::{Arc, OnceLock};

use pintle_schema::{Schema, TypeId, Types};
use pintle_value::Str;

use crate::build::{self, Kind};
use crate::facts::{self, FactsError};
use crate::resources::{self, GroupFacts, ResourceFacts};

/// The type facts; the head of the file documents the format.
const TYPES: &str = include_str!("../data/types.txt");

/// The resource facts; the head of the file documents the format.
const RESOURCES: &str = include_str!("../data/resources.txt");

/// The facts of the built-in kinds.
#[derive(Clone, Debug)]
pub struct Catalog {
    types: Arc<Types>,
    structs: Vec<(Str, TypeId)>,
    kinds: Vec<(Kind, TypeId)>,
    groups: Vec<GroupFacts>,
    resources: Vec<ResourceFacts>,
}

/// Loads the catalog that ships with the program.
///
/// # Panics
/// Never with the facts in the repository, which the tests load.
#[must_use]
pub fn load() -> Catalog {
    #[expect(clippy::expect_used, reason = "the facts are part of the program, and every test loads them")]
    Catalog::parse(TYPES, RESOURCES).expect("the catalog's own facts")
}

/// The catalog that ships with the program, loaded once.
#[must_use]
pub fn shared() -> &'static Arc<Catalog> {
    static SHARED: OnceLock<Arc<Catalog>> = OnceLock::new();
    SHARED.get_or_init(|| Arc::new(load()))
}

impl Catalog {
    /// Reads a catalog from its texts.
    ///
    /// # Errors
    /// The first fact that is not of the format, or that refers to a type that is not there.
    pub fn parse(types: &'static str, resources: &'static str) -> Result<Self, FactsError> {
        let built = build::build(&facts::parse(types)?)?;
        let (groups, resources) = resources::parse(resources)?;
        Ok(Self { types: Arc::new(built.types), structs: built.structs, kinds: built.kinds, groups, resources })
    }

    /// The groups in discovery's order, each with its preferred version first.
    #[must_use]
    pub fn groups(&self) -> &[GroupFacts] {
        &self.groups
    }

    /// All versions of all resources, those that are not served included; of one group and version they are sorted by
    /// plural name.
    #[must_use]
    pub fn resources(&self) -> &[ResourceFacts] {
        &self.resources
    }

    /// The facts of one version of a resource.
    #[must_use]
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&ResourceFacts> {
        self.resources.iter().find(|r| (r.group, r.version, r.plural) == (group, version, plural))
    }

    /// The arena of all built-in types.
    #[must_use]
    pub fn types(&self) -> &Arc<Types> {
        &self.types
    }

    /// The struct of a Go name (`core/v1.Pod`, `meta/v1.DeleteOptions`).
    #[must_use]
    pub fn struct_type(&self, name: &str) -> Option<TypeId> {
        let at = self.structs.binary_search_by(|(n, _)| n.as_str().cmp(name)).ok()?;
        Some(self.structs[at].1)
    }

    /// All structs by Go name, sorted by it.
    pub fn structs(&self) -> impl ExactSizeIterator<Item = (&str, TypeId)> {
        self.structs.iter().map(|(name, id)| (name.as_str(), *id))
    }

    /// The type of a registered kind. Core's group is empty; the options of every group (`DeleteOptions`, …) are
    /// structs of `meta/v1`.
    #[must_use]
    pub fn kind_type(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        let at =
            self.kinds.binary_search_by(|(k, _)| (k.group, k.version, k.kind).cmp(&(group, version, kind))).ok()?;
        Some(self.kinds[at].1)
    }

    /// All registered kinds as (group, version, kind, type), sorted.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = (&'static str, &'static str, &'static str, TypeId)> {
        self.kinds.iter().map(|(k, id)| (k.group, k.version, k.kind, *id))
    }

    /// The schema with this type as its root.
    #[must_use]
    pub fn schema(&self, root: TypeId) -> Schema {
        Schema { types: Arc::clone(&self.types), root }
    }

    /// The schema of a registered kind.
    #[must_use]
    pub fn kind_schema(&self, group: &str, version: &str, kind: &str) -> Option<Schema> {
        self.kind_type(group, version, kind).map(|id| self.schema(id))
    }
}

/// The type facts that ship with the program, for what the types do not keep (unions, feature gates).
///
/// # Errors
/// Never with the facts in the repository.
pub fn type_facts() -> Result<Vec<facts::Package<'static>>, FactsError> {
    facts::parse(TYPES)
}
