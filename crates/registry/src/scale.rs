//! The field paths that the `scale` subresource of a resource reads and writes.

use pintle_value::Str;

/// The paths of the fields of an object that its scale shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// The desired number of replicas.
    pub replicas: Vec<Str>,
    /// The observed number of replicas.
    pub status_replicas: Vec<Str>,
    /// The selector of the pods.
    pub selector: ScaleSelector,
    /// True for built-in kinds, whose scales have other validation rules.
    pub built_in: bool,
}

/// The selector of the pods of a scaled object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleSelector {
    /// There is no selector.
    None,
    /// A `metav1.LabelSelector` at this path.
    LabelSelector(Vec<Str>),
    /// A map of labels at this path.
    Labels(Vec<Str>),
    /// A selector in its string form at this path.
    Text(Vec<Str>),
}

impl ScalePaths {
    /// Parses the paths in the `subresources.scale` of a CRD (`.spec.replicas`).
    #[must_use]
    pub fn from_crd(replicas: &str, status_replicas: &str, label_selector: Option<&str>) -> Self {
        let selector = label_selector.filter(|path| !path.is_empty());
        Self {
            replicas: field_path(replicas),
            status_replicas: field_path(status_replicas),
            selector: selector.map_or(ScaleSelector::None, |text| ScaleSelector::Text(field_path(text))),
            built_in: false,
        }
    }
}

/// Splits a dotted path into its keys. The leading dot is optional: `.spec.replicas`, `spec.replicas`.
#[must_use]
pub fn field_path(dotted: &str) -> Vec<Str> {
    dotted.trim_start_matches('.').split('.').map(Str::from).collect()
}
