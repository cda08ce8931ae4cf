//! The catalog itself: types and resource facts, found by name. It is immutable and shared by all clusters of a
//! process.

use std::sync::{Arc, OnceLock};

use pintle_schema::{Schema, TypeId, Types};
use pintle_value::Str;

use crate::build::{self, Kind};
use crate::facts::{self, FactsError, FieldFacts, Package};
use crate::resources::{self, GroupFacts, ResourceFacts};

/// The type facts; the head of the file documents the format.
const TYPES: &str = include_str!("../data/types.txt");

/// The resource facts; the head of the file documents the format.
const RESOURCES: &str = include_str!("../data/resources.txt");

/// The feature gates that are off; the head of the file documents the format.
const GATES: &str = include_str!("../data/gates.txt");

/// The facts of the built-in kinds.
#[derive(Clone, Debug)]
pub struct Catalog {
    types: Arc<Types>,
    structs: Vec<(Str, TypeId)>,
    kinds: Vec<(Kind, TypeId)>,
    groups: Vec<GroupFacts>,
    resources: Vec<ResourceFacts>,
    unions: Vec<UnionFacts>,
    disabled: Vec<DisabledField>,
}

/// A struct of which at most one member is set (`+union`, published as `x-kubernetes-unions`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnionFacts {
    /// The struct.
    pub owner: TypeId,
    /// The field that tells which member is set.
    pub discriminator: Option<&'static str>,
    /// The members: all other fields.
    pub members: Vec<&'static str>,
}

/// A field that depends on a feature that is off by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisabledField {
    /// The struct.
    pub owner: TypeId,
    /// The field's JSON name.
    pub field: &'static str,
    /// The feature gate.
    pub gate: &'static str,
}

/// Loads the catalog that ships with the program.
///
/// # Panics
/// Never with the facts in the repository, which the tests load.
#[must_use]
pub fn load() -> Catalog {
    #[expect(clippy::expect_used, reason = "the facts are part of the program, and every test loads them")]
    Catalog::parse(TYPES, RESOURCES, GATES).expect("the catalog's own facts")
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
    pub fn parse(types: &'static str, resources: &'static str, gates: &'static str) -> Result<Self, FactsError> {
        let packages = facts::parse(types)?;
        let built = build::build(&packages)?;
        let (groups, resources) = resources::parse(resources)?;
        let mut catalog = Self {
            types: Arc::new(built.types),
            structs: built.structs,
            kinds: built.kinds,
            groups,
            resources,
            unions: Vec::new(),
            disabled: Vec::new(),
        };
        catalog.add_unions_and_gated_fields(&packages, gates);
        catalog.add_gated_fields_of_others(gates)?;
        Ok(catalog)
    }

    fn add_unions_and_gated_fields(&mut self, packages: &[Package<'static>], gates: &'static str) {
        let off: Vec<&str> = gates.lines().filter_map(|line| line.split(' ').next()).collect();
        for (package, facts) in packages.iter().flat_map(|p| p.structs.iter().map(move |s| (p, s))) {
            let mut gated = facts.fields.iter().filter(|f| !f.gates.is_empty()).peekable();
            if !facts.union && gated.peek().is_none() {
                continue;
            }
            let Some(owner) = self.struct_type(&format!("{}.{}", package.name, facts.name)) else { continue };
            for field in gated {
                if let Some(gate) = field.gates.split(',').find(|gate| off.contains(gate)) {
                    self.disabled.push(DisabledField { owner, field: field.name, gate });
                }
            }
            if facts.union {
                let (discriminators, members): (Vec<&FieldFacts<'_>>, Vec<_>) =
                    facts.fields.iter().partition(|f| f.discriminator);
                self.unions.push(UnionFacts {
                    owner,
                    discriminator: discriminators.first().map(|f| f.name),
                    members: members.iter().map(|f| f.name).collect(),
                });
            }
        }
    }

    fn add_gated_fields_of_others(&mut self, gates: &'static str) -> Result<(), FactsError> {
        for (i, line) in gates.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let gate = words.next().unwrap_or_default();
            for word in words {
                let found = word.rsplit_once('.').and_then(|(name, field)| Some((self.struct_type(name)?, field)));
                let (owner, field) = found.ok_or_else(|| FactsError::new(i + 1, format!("no field {word}")))?;
                self.disabled.push(DisabledField { owner, field, gate });
            }
        }
        Ok(())
    }

    /// The structs of which at most one member is set.
    #[must_use]
    pub fn unions(&self) -> &[UnionFacts] {
        &self.unions
    }

    /// The fields of features that are off by default. kube-apiserver clears them where the old object does not have
    /// them; how far around them it clears is a matter of the kind.
    #[must_use]
    pub fn disabled_fields(&self) -> &[DisabledField] {
        &self.disabled
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
