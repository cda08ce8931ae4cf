//! Versions of a kind that are stored, but not served.

use pintle_value::Value;

/// A version of a kind that is stored, but not served. The facts of the catalog name all such versions. This value
/// contains the version's own defaults and conversions. The caller sets kind and apiVersion.
#[derive(Clone, Copy, Debug)]
pub struct UnservedVersion {
    /// The group and version.
    pub api_version: &'static str,
    /// Sets the defaults that differ from the served version's defaults (upstream: `SetDefaults_*`) and converts the
    /// object to the served version.
    pub to_served: fn(&mut Value),
    /// Whether the defaults of the served version are set afterwards. True if this version has the same defaults, or
    /// has already set its own.
    pub has_served_defaults: bool,
    /// Converts an object of the served version. `None` for a version that is only read.
    pub from_served: Option<fn(&mut Value)>,
}

impl UnservedVersion {
    /// A version that is only read.
    #[must_use]
    pub const fn read(api_version: &'static str, to_served: fn(&mut Value)) -> Self {
        Self { api_version, to_served, has_served_defaults: true, from_served: None }
    }

    /// A version that is only read. Of the served version's defaults, it has only the defaults that `to_served` sets.
    #[must_use]
    pub const fn read_without_defaults(api_version: &'static str, to_served: fn(&mut Value)) -> Self {
        Self { has_served_defaults: false, ..Self::read(api_version, to_served) }
    }
}
