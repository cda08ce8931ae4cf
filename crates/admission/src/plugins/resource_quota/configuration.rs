//! The configuration of the plugin, `ResourceQuotaConfiguration` (upstream: `apis/resourcequota`).

use std::sync::LazyLock;

use pintle_auth::config_file::{ConfigScheme, ConfigTypes};
use pintle_quota::{LimitedResource, ScopeRequirement};
use pintle_registry::GroupResource;
use pintle_schema::Scalar;
use pintle_value::{Errors, FieldPath, Value};

use crate::PluginError;

static SCHEME: LazyLock<ConfigScheme> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let text = types.scalar(Scalar::String);
    let texts = types.list(text);
    let fields = [("scopeName", text), ("operator", text), ("values", texts)];
    let scope = types.object("v1.ScopedResourceSelectorRequirement", &fields);
    let scopes = types.list(scope);
    let mut kinds = Vec::new();
    for (version, kind, package) in [
        ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration", "v1"),
        ("resourcequota.admission.k8s.io/v1beta1", "Configuration", "v1beta1"),
        ("resourcequota.admission.k8s.io/v1alpha1", "Configuration", "v1alpha1"),
    ] {
        let fields = [("apiGroup", text), ("resource", text), ("matchContains", texts), ("matchScopes", scopes)];
        let limited = types.object(&format!("{package}.LimitedResource"), &fields);
        let limited = types.list(limited);
        let fields = [("kind", text), ("apiVersion", text), ("limitedResources", limited)];
        kinds.push((version, kind, types.object(&format!("{package}.Configuration"), &fields)));
    }
    let name = "k8s.io/apiserver/pkg/admission/plugin/resourcequota/config.go:31";
    ConfigScheme { name, strict: true, types, kinds }
});

/// Decodes a configuration in YAML or JSON. Without one, no resource is limited.
///
/// # Errors
/// The configuration is malformed or invalid.
pub(super) fn limited_resources(text: Option<&[u8]>) -> Result<Vec<LimitedResource>, PluginError> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let unreadable = |error: String| PluginError::Unreadable(error);
    let configuration = SCHEME.decode(text).map_err(|error| unreadable(error.to_string()))?.value;
    let limited = configuration.items_at(&["limitedResources"]);
    let mut errors = Errors::new();
    for (index, limited) in limited.iter().enumerate() {
        if limited.str_at(&["resource"]).is_empty() {
            errors.required(&FieldPath::new("limitedResources").index(index).child("resource"), "");
        }
    }
    if errors.is_empty() {
        Ok(limited.iter().map(limited_resource).collect())
    } else {
        Err(unreadable(errors.message()))
    }
}

fn limited_resource(limited: &Value) -> LimitedResource {
    let texts = limited.items_at(&["matchContains"]).iter().filter_map(Value::as_str);
    LimitedResource {
        resource: GroupResource::new(limited.str_at(&["apiGroup"]), limited.str_at(&["resource"])),
        match_contains: texts.map(str::to_owned).collect(),
        match_scopes: limited.items_at(&["matchScopes"]).iter().map(ScopeRequirement::of).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_versions_are_read() {
        for head in [
            "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\n",
            "apiVersion: resourcequota.admission.k8s.io/v1beta1\nkind: Configuration\n",
            "apiVersion: resourcequota.admission.k8s.io/v1alpha1\nkind: Configuration\n",
        ] {
            let text = format!(
                "{head}limitedResources:\n- apiGroup: apps\n  resource: deployments\n  matchContains: [count/]\n  \
                 matchScopes:\n  - scopeName: PriorityClass\n    operator: In\n    values: [a]\n"
            );
            let requirement =
                ScopeRequirement { scope: "PriorityClass".into(), operator: "In".into(), values: vec!["a".into()] };
            let expect = LimitedResource {
                resource: GroupResource::new("apps", "deployments"),
                match_contains: vec!["count/".to_owned()],
                match_scopes: vec![requirement],
            };
            assert_eq!(limited_resources(Some(text.as_bytes())), Ok(vec![expect]));
        }
        assert_eq!(limited_resources(None), Ok(Vec::new()));
    }

    #[test]
    fn invalid_configurations_are_errors() {
        let check = |fields: &str, expect: &str| {
            let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\n";
            let found = limited_resources(Some(format!("{head}{fields}").as_bytes()));
            assert_eq!(found, Err(PluginError::Unreadable(expect.to_owned())));
        };
        check("limitedResources: [{apiGroup: apps}]\n", "limitedResources[0].resource: Required value");
        check("limited: []\n", "strict decoding error: unknown field \"limited\"");
    }
}
