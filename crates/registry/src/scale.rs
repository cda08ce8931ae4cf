//! Where the objects of a resource keep what their scale shows.

use pintle_value::Str;

/// Where an object keeps what its scale shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// How many replicas there should be.
    pub replicas: Vec<Str>,
    /// How many there are.
    pub status_replicas: Vec<Str>,
    /// What selects their pods.
    pub selector: ScaleSelector,
    /// True for built-in kinds, whose scale is held to the rules of typed objects.
    pub built_in: bool,
}

/// What selects the pods of a scaled object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleSelector {
    /// Nothing that the scale could show.
    None,
    /// A `metav1.LabelSelector` at this path.
    LabelSelector(Vec<Str>),
    /// A map of labels at this path.
    Labels(Vec<Str>),
    /// The text of a selector at this path.
    Text(Vec<Str>),
}

impl ScalePaths {
    /// The paths of a custom resource, in the notation of its definition (`.spec.replicas`).
    #[must_use]
    pub fn of_custom(replicas: &str, status_replicas: &str, label_selector: Option<&str>) -> Self {
        let selector = label_selector.filter(|path| !path.is_empty());
        Self {
            replicas: field_path(replicas),
            status_replicas: field_path(status_replicas),
            selector: selector.map_or(ScaleSelector::None, |text| ScaleSelector::Text(field_path(text))),
            built_in: false,
        }
    }
}

/// The keys of a path with dots between them, the first of which may be left out: `.spec.replicas`, `spec.replicas`.
#[must_use]
pub fn field_path(dotted: &str) -> Vec<Str> {
    dotted.trim_start_matches('.').split('.').map(Str::from).collect()
}
