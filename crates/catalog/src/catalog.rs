//! The catalog: types and resource metadata, looked up by name. It is immutable and shared by all clusters in the
//! process.

use std::sync::Arc;

use pintle_gates::Gates;
use pintle_schema::{Schema, TypeId, Types};
use pintle_value::Str;
use pintle_versions::{DataLine, EffectiveVersion, Minor, PerVersion, lines_of};

use crate::build::{self, Base, GroupVersionKind};
use crate::facts::{self, FactsError, FieldFacts, Package};
use crate::resources::{self, GroupFacts, RegisteredGroup, ResourceFacts};

/// The type metadata. The head of the file documents the format.
const TYPES: &str = include_str!("../data/types.txt");

/// The types of versions that are off by default. The head of the file documents the format.
const OPTIONAL: &str = include_str!("../data/optional.txt");

/// The types of versions that are only read from storage. The head of the file documents the format.
const STORED: &str = include_str!("../data/stored.txt");

/// The resource metadata. The head of the file documents the format.
const RESOURCES: &str = include_str!("../data/resources.txt");

/// The registered groups and versions. The head of the file documents the format.
const REGISTERED: &str = include_str!("../data/registered.txt");

/// The first version that stores alpha versions of kinds only if there is no other way.
const STABLE_STORAGE: Minor = Minor::new(37);

/// The first version that may store versions that another kind replaces.
const REPLACED_STORAGE: Minor = Minor::new(35);

/// Feature gates of fields that types.txt does not have. The head of the file documents the format.
const GATES: &str = include_str!("../data/gates.txt");

/// The contents of the feature gate file.
#[derive(Default)]
struct GateFacts {
    /// Gate names in types.txt, and the names of the actual gates.
    names: Vec<(&'static str, &'static str)>,
    /// Further gated fields: line number, gate, field.
    fields: Vec<(usize, &'static str, &'static str)>,
}

impl GateFacts {
    fn parse(text: &'static str, minor: Minor) -> Self {
        let mut facts = Self::default();
        for DataLine { number, text: line, .. } in lines_of(text, minor) {
            let mut words = line.split(' ');
            let gate = words.next().unwrap_or_default();
            for word in words {
                match word.strip_prefix("called=") {
                    Some(name) => facts.names.push((name, gate)),
                    None => facts.fields.push((number, gate, word)),
                }
            }
        }
        facts
    }

    fn actual_gate(&self, gate: &'static str) -> &'static str {
        self.names.iter().find(|(name, _)| *name == gate).map_or(gate, |(_, actual)| actual)
    }
}

/// The metadata of the built-in kinds.
#[derive(Clone, Debug)]
pub struct Catalog {
    minor: Minor,
    types: Arc<Types>,
    structs: Vec<(Str, TypeId)>,
    kinds: Vec<(GroupVersionKind, TypeId)>,
    groups: Vec<GroupFacts>,
    resources: Vec<ResourceFacts>,
    registered: Vec<RegisteredGroup>,
    unions: Vec<UnionFacts>,
    gated: Vec<GatedField>,
    publishes_enums: bool,
    emulation: Minor,
}

/// A struct of which at most one field may be set (`+union`, published as `x-kubernetes-unions`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnionFacts {
    /// The type of the struct.
    pub owner: TypeId,
    /// The field that names the member that is set.
    pub discriminator: Option<&'static str>,
    /// The members: all other fields.
    pub members: Vec<&'static str>,
}

/// A field that depends on feature gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatedField {
    /// The type of the struct.
    pub owner: TypeId,
    /// The field's JSON name.
    pub field: &'static str,
    /// The feature gates, all of which must be enabled. Some are of graduated features whose gates have been removed.
    pub gates: Vec<&'static str>,
}

impl GatedField {
    /// Returns whether one of its feature gates is disabled.
    #[must_use]
    pub fn is_disabled(&self, gates: &Gates) -> bool {
        self.gates.iter().any(|gate| gates.is_disabled_by_name(gate))
    }
}

/// Loads the catalog of a version.
///
/// # Panics
/// Never panics with the data files in the repository, which the tests load.
#[must_use]
pub fn load(minor: Minor) -> Catalog {
    #[expect(clippy::expect_used, reason = "the data files are compiled in, and tests load them in every version")]
    Catalog::parse(TYPES, RESOURCES, GATES, minor).expect("valid catalog data")
}

/// The facts about the resources of a version, without the types, which are most of a catalog.
#[must_use]
pub fn resources_of(minor: Minor) -> Vec<ResourceFacts> {
    #[expect(clippy::expect_used, reason = "the data files are compiled in, and tests load them in every version")]
    resources::parse(RESOURCES, minor).expect("valid catalog data").1
}

/// The catalog of a version, loaded once.
#[must_use]
pub fn shared_of(minor: Minor) -> &'static Arc<Catalog> {
    static SHARED: PerVersion<Arc<Catalog>> = PerVersion::new();
    SHARED.get_or_init(minor, |minor| Arc::new(load(minor)))
}

/// The catalog of the default version, loaded once.
#[must_use]
pub fn shared() -> &'static Arc<Catalog> {
    shared_of(Minor::DEFAULT)
}

/// The catalog of a version with the types of all API versions, also of versions that are off by default. It is loaded
/// on the first call: a server without such versions does not need it. It begins with the types of [`shared_of`].
///
/// # Panics
/// Never panics with the data files in the repository, which the tests load.
#[must_use]
pub fn complete_of(minor: Minor) -> &'static Arc<Catalog> {
    static COMPLETE: PerVersion<Arc<Catalog>> = PerVersion::new();
    #[expect(clippy::expect_used, reason = "the data files are compiled in, and tests load them in every version")]
    COMPLETE.get_or_init(minor, |minor| Arc::new(shared_of(minor).with_optional_types().expect("valid catalog data")))
}

/// [`complete_of`] the default version.
#[must_use]
pub fn complete() -> &'static Arc<Catalog> {
    complete_of(Minor::DEFAULT)
}

/// The types of versions that are only read from storage, if they differ from the types of the version as which they
/// are read. They are built on request, because only servers that share their storage with others need them.
#[derive(Clone, Debug)]
pub struct StoredTypes {
    types: Arc<Types>,
    kinds: Vec<(GroupVersionKind, TypeId)>,
}

impl StoredTypes {
    /// The kinds with a type of their own as (group, version, kind), sorted.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = (&'static str, &'static str, &'static str)> {
        self.kinds.iter().map(|(k, _)| (k.group, k.version, k.kind))
    }

    /// The schema of a kind. `None` if it equals the schema of the version as which the kind is read.
    #[must_use]
    pub fn kind_schema(&self, group: &str, version: &str, kind: &str) -> Option<Schema> {
        let found = self.kinds.iter().find(|(k, _)| (k.group, k.version, k.kind) == (group, version, kind))?;
        Some(Schema { types: Arc::clone(&self.types), root: found.1 })
    }
}

impl Catalog {
    /// Parses the catalog of a version from its data files.
    ///
    /// # Errors
    /// Returns an error for the first line with a syntax error or a reference to an unknown type.
    pub fn parse(
        types: &'static str,
        resources: &'static str,
        gates: &'static str,
        minor: Minor,
    ) -> Result<Self, FactsError> {
        let packages = facts::parse(types, minor)?;
        let built = build::build(&packages, None)?;
        let (groups, resources) = resources::parse(resources, minor)?;
        let mut catalog = Self {
            minor,
            types: Arc::new(built.types),
            structs: built.structs,
            kinds: built.kinds,
            groups,
            resources,
            registered: resources::parse_registered(REGISTERED, minor),
            unions: Vec::new(),
            gated: Vec::new(),
            publishes_enums: true,
            emulation: minor,
        };
        let gates = GateFacts::parse(gates, minor);
        catalog.add_unions_and_gated_fields(&packages, &gates);
        catalog.add_declared_gated_fields(&gates)?;
        Ok(catalog)
    }

    /// This catalog with the types of the versions that are off by default.
    fn with_optional_types(&self) -> Result<Self, FactsError> {
        let (known, packages) = (facts::parse(TYPES, self.minor)?, facts::parse(OPTIONAL, self.minor)?);
        let built = build::build(&packages, Some(Base { catalog: self, packages: &known }))?;
        let mut catalog = self.clone();
        catalog.types = Arc::new(built.types);
        catalog.structs.extend(built.structs);
        catalog.structs.sort_unstable();
        catalog.kinds.extend(built.kinds);
        catalog.kinds.sort_unstable();
        catalog.add_unions_and_gated_fields(&packages, &GateFacts::parse(GATES, self.minor));
        Ok(catalog)
    }

    fn add_unions_and_gated_fields(&mut self, packages: &[Package<'static>], gates: &GateFacts) {
        for (package, facts) in packages.iter().flat_map(|p| p.structs.iter().map(move |s| (p, s))) {
            let mut gated = facts.fields.iter().filter(|f| !f.gates.is_empty()).peekable();
            if !facts.union && gated.peek().is_none() {
                continue;
            }
            let Some(owner) = self.struct_type(&format!("{}.{}", package.name, facts.name)) else { continue };
            for field in gated {
                let gates = field.gates.split(',').map(|gate| gates.actual_gate(gate)).collect();
                self.gated.push(GatedField { owner, field: field.name, gates });
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

    fn add_declared_gated_fields(&mut self, gates: &GateFacts) -> Result<(), FactsError> {
        for (line, gate, path) in &gates.fields {
            let resolved = path.rsplit_once('.').and_then(|(name, field)| Some((self.struct_type(name)?, field)));
            let (owner, field) = resolved.ok_or_else(|| FactsError::new(*line, format!("no field {path}")))?;
            self.gated.push(GatedField { owner, field, gates: vec![*gate] });
        }
        Ok(())
    }

    /// The version whose facts these are.
    #[must_use]
    pub fn minor(&self) -> Minor {
        self.minor
    }

    /// The structs of which at most one field may be set.
    #[must_use]
    pub fn unions(&self) -> &[UnionFacts] {
        &self.unions
    }

    /// The same catalog, except that published schemas do not list the values of enumerations (gate `OpenAPIEnums`).
    #[must_use]
    pub fn without_published_enums(self) -> Self {
        Self { publishes_enums: false, ..self }
    }

    /// The same catalog, except that published documents name the version that the server emulates.
    #[must_use]
    pub fn emulating(self, emulation: Minor) -> Self {
        Self { emulation, ..self }
    }

    /// The version of Kubernetes that published documents name.
    #[must_use]
    pub fn emulation(&self) -> Minor {
        self.emulation
    }

    /// Whether published schemas list the values of enumerations.
    #[must_use]
    pub fn publishes_enums(&self) -> bool {
        self.publishes_enums
    }

    /// The fields that depend on feature gates. If a gate is disabled, kube-apiserver clears the field unless the old
    /// object has it. The strategy of the kind decides which fields around it are cleared too.
    #[must_use]
    pub fn gated_fields(&self) -> &[GatedField] {
        &self.gated
    }

    /// The groups in discovery order, each with its preferred version first.
    #[must_use]
    pub fn groups(&self) -> &[GroupFacts] {
        &self.groups
    }

    /// All versions of all resources, including versions that are not served. The resources of a group and version are
    /// sorted by plural name.
    #[must_use]
    pub fn resources(&self) -> &[ResourceFacts] {
        &self.resources
    }

    /// The groups and versions that kube-apiserver registers, each group with its versions, sorted, including versions
    /// that are no longer served.
    #[must_use]
    pub fn registered_versions(&self) -> &[RegisteredGroup] {
        &self.registered
    }

    /// The metadata of one version of a resource.
    #[must_use]
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&ResourceFacts> {
        self.resources.iter().find(|r| (r.group, r.version, r.plural) == (group, version, plural))
    }

    /// The group and version in which kube-apiserver stores the objects of a resource. It is part of the storage version
    /// hash in discovery. `None` if nothing is stored. (Upstream: `emulatedStorageVersion`.)
    ///
    /// Servers of the minimum compatibility version must be able to read the objects. So it is the most preferred
    /// version that they have.
    #[must_use]
    pub fn storage_version(
        &self,
        facts: &ResourceFacts,
        version: EffectiveVersion,
    ) -> Option<(&'static str, &'static str)> {
        let storage = facts.storage()?;
        if storage.upstream.is_some() {
            return storage.upstream;
        }
        let group = self.groups.iter().find(|group| group.name == storage.hub_group);
        let of_version = |name: &'static str| self.resource(storage.hub_group, name, facts.plural);
        let versions = group.into_iter().flat_map(|group| &group.versions).filter_map(|known| of_version(known.name));
        let has = |facts: &ResourceFacts, minor| facts.introduced.is_none_or(|introduced| introduced <= minor);
        let compatible = version.min_compatibility();
        let found = if version.binary() >= STABLE_STORAGE {
            let stable = |facts: &&ResourceFacts| !facts.version.contains("alpha") && has(facts, compatible);
            let mut stable_versions = versions.clone().filter(stable);
            stable_versions.next().or_else(|| versions.clone().find(|facts| has(facts, version.emulation())))
        } else {
            let is_usable = |facts: &&ResourceFacts| {
                has(facts, compatible) && !(facts.is_replaced && version.binary() < REPLACED_STORAGE)
            };
            versions.clone().find(is_usable)
        };
        Some(found.map_or((storage.hub_group, storage.hub_version), |facts| (facts.group, facts.version)))
    }

    /// The arena of all built-in types.
    #[must_use]
    pub fn types(&self) -> &Arc<Types> {
        &self.types
    }

    /// The struct with a Go name (`core/v1.Pod`, `meta/v1.DeleteOptions`).
    #[must_use]
    pub fn struct_type(&self, name: &str) -> Option<TypeId> {
        let index = self.structs.binary_search_by(|(n, _)| n.as_str().cmp(name)).ok()?;
        Some(self.structs[index].1)
    }

    /// All structs with their Go names, sorted.
    pub fn structs(&self) -> impl ExactSizeIterator<Item = (&str, TypeId)> {
        self.structs.iter().map(|(name, id)| (name.as_str(), *id))
    }

    /// The type of a registered kind. The core group is empty. The options that are registered in every group
    /// (`DeleteOptions`, ...) are structs of `meta/v1`.
    #[must_use]
    pub fn kind_type(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        let index =
            self.kinds.binary_search_by(|(k, _)| (k.group, k.version, k.kind).cmp(&(group, version, kind))).ok()?;
        Some(self.kinds[index].1)
    }

    /// All registered kinds as (group, version, kind, type), sorted.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = (&'static str, &'static str, &'static str, TypeId)> {
        self.kinds.iter().map(|(k, id)| (k.group, k.version, k.kind, *id))
    }

    /// Builds the types of the versions that are only read from storage.
    ///
    /// # Errors
    /// Returns an error for the first line with a syntax error or a reference to an unknown type.
    pub fn stored_types(&self) -> Result<StoredTypes, FactsError> {
        let built = build::build(&facts::parse(STORED, self.minor)?, Some(Base { catalog: self, packages: &[] }))?;
        Ok(StoredTypes { types: Arc::new(built.types), kinds: built.kinds })
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
