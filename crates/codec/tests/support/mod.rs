//! Upstream's fixtures: a fully populated object of every kind as JSON, YAML and Protobuf. They are in the Go module
//! `k8s.io/api`, from which the catalog is imported, too.

use std::path::PathBuf;
use std::process::Command;

use pintle_schema::{TypeId, Types};
use pintle_versions::Minor;

/// A kind of the catalog and the path of its fixtures without the extension.
pub(crate) struct Fixture {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) type_id: TypeId,
    path: PathBuf,
}

impl Fixture {
    /// The fixture's bytes in one encoding (`json`, `pb`, `yaml`).
    pub(crate) fn bytes(&self, extension: &str) -> Vec<u8> {
        // Names contain dots, so the extension must be appended.
        let path = format!("{}.{extension}", self.path.display());
        std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    }
}

/// The fixtures of all kinds of the default version's catalog for which upstream has fixtures.
#[allow(dead_code, reason = "not every test has the default version alone")]
pub(crate) fn fixtures() -> Vec<Fixture> {
    fixtures_of(Minor::DEFAULT)
}

/// The fixtures of all known versions, each with the types of its version.
#[allow(dead_code, reason = "not every test has all versions")]
pub(crate) fn fixtures_of_all_versions() -> impl Iterator<Item = (&'static Types, Fixture)> {
    Minor::known().flat_map(|minor| {
        let types = &**pintle_catalog::complete_of(minor).types();
        fixtures_of(minor).into_iter().map(move |fixture| (types, fixture))
    })
}

/// The fixtures of all kinds of a version's catalog for which upstream has fixtures.
pub(crate) fn fixtures_of(minor: Minor) -> Vec<Fixture> {
    let folder = module_folder(minor);
    let catalog = pintle_catalog::complete_of(minor);
    // These kinds are in every group. The core group has their fixtures.
    let meta =
        ["APIGroup", "APIVersions", "CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions"]
            .into_iter()
            .chain(["Status", "UpdateOptions", "WatchEvent"])
            .filter_map(|kind| Some(("", "v1", kind, catalog.struct_type(&format!("meta/v1.{kind}"))?)));
    let mut fixtures: Vec<Fixture> = catalog
        .kinds()
        .chain(meta)
        .filter_map(|(group, version, kind, type_id)| {
            let name = if group.is_empty() { "core" } else { group };
            let path = folder.join(format!("testdata/HEAD/{name}.{version}.{kind}"));
            folder.join(format!("testdata/HEAD/{name}.{version}.{kind}.json")).exists().then_some(Fixture {
                group,
                version,
                kind,
                type_id,
                path,
            })
        })
        .collect();
    fixtures.sort_by_key(|f| (f.group, f.version, f.kind));
    let found = |kind: &(&str, &str, &str)| fixtures.iter().any(|f| (f.group, f.version, f.kind) == *kind);
    let kinds = catalog.kinds().map(|(group, version, kind, _)| (group, version, kind));
    let missing: Vec<_> = kinds.filter(|kind| !kind.2.ends_with("List") && !found(kind)).collect();
    // A version that has been removed has none either.
    let is_removed = |kind: &(&str, &str, &str)| {
        catalog.resources().iter().any(|r| (r.group, r.version, r.kind) == *kind && !r.releases.contains(minor))
    };
    let missing: Vec<_> = missing.into_iter().filter(|kind| !is_removed(kind)).collect();
    assert_eq!(missing, KINDS_WITHOUT_FIXTURES, "kinds without fixtures in {}", folder.display());
    fixtures
}

/// Kinds of other modules, for which there are no fixtures.
const KINDS_WITHOUT_FIXTURES: [(&str, &str, &str); 6] = [
    ("apiextensions.k8s.io", "v1", "ConversionReview"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "v1", "APIService"),
    ("meta.k8s.io", "v1", "PartialObjectMetadata"),
    ("meta.k8s.io", "v1", "Table"),
    ("meta.k8s.io", "v1", "TableOptions"),
];

/// The folder of the module `k8s.io/api` in a version.
pub(crate) fn module_folder(minor: Minor) -> PathBuf {
    let cache = Command::new("go").args(["env", "GOMODCACHE"]).output().expect("the fixtures need Go installed");
    let cache = PathBuf::from(String::from_utf8(cache.stdout).expect("a path").trim());
    let module = format!("k8s.io/api@v0.{}.{}", minor.number(), minor.patch());
    let folder = cache.join(&module);
    assert!(folder.exists(), "{module} is not in the module cache: run cargo xtask fetch-modules");
    folder
}
