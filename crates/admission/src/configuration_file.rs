//! The file with the configurations of plugins, `AdmissionConfiguration` (upstream:
//! `apiserver/pkg/admission/config.go`). This module decodes it. The caller reads the files, including the files that
//! it names.

use std::sync::LazyLock;

use pintle_auth::config_file::{ConfigFileError, ConfigScheme, ConfigTypes};
use pintle_schema::Scalar;
use pintle_value::Value;

static SCHEME: LazyLock<ConfigScheme> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let (text, any) = (types.scalar(Scalar::String), types.any());
    let mut kinds = Vec::new();
    for (version, package) in [("apiserver.config.k8s.io/v1", "v1"), ("apiserver.k8s.io/v1alpha1", "v1alpha1")] {
        let name = |name: &str| format!("{package}.{name}");
        let fields = [("name", text), ("path", text), ("configuration", any)];
        let plugin = types.object(&name("AdmissionPluginConfiguration"), &fields);
        let plugins = types.list(plugin);
        let fields = [("kind", text), ("apiVersion", text), ("plugins", plugins)];
        kinds.push((version, "AdmissionConfiguration", types.object(&name("AdmissionConfiguration"), &fields)));
    }
    let name = "k8s.io/apiserver/pkg/server/options/admission.go:51";
    ConfigScheme { name, strict: true, types, kinds }
});

/// The plugins whose configuration may be the file itself, and the fields by which such a file is recognized.
const UNVERSIONED: [(&str, &str); 2] =
    [("ImagePolicyWebhook", "imagePolicy"), ("PodNodeSelector", "podNodeSelectorPluginConfig")];

/// Where the configuration of a plugin is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginConfiguration {
    /// The configuration is this text.
    Text(Vec<u8>),
    /// The configuration is in a file. A relative path starts at the folder of the `AdmissionConfiguration`.
    File(String),
}

/// Decodes an `AdmissionConfiguration` in YAML or JSON. Returns the plugins that have a configuration, with the name of
/// the plugin. If the file has several configurations for a plugin, the first one counts.
///
/// # Errors
/// The text is malformed, or it is something other than a configuration.
pub fn decode_configuration_file(text: &[u8]) -> Result<Vec<(String, PluginConfiguration)>, ConfigFileError> {
    let decoded = match SCHEME.decode(text) {
        Ok(decoded) => decoded.value,
        Err(error @ (ConfigFileError::MissingType { .. } | ConfigFileError::UnknownKind(_))) => {
            return unversioned(text).ok_or(error);
        }
        Err(error) => return Err(error),
    };
    let mut plugins: Vec<(String, PluginConfiguration)> = Vec::new();
    for plugin in decoded.items_at(&["plugins"]) {
        let [name, path] = ["name", "path"].map(|field| plugin.str_at(&[field]));
        let configuration = match plugin.get("configuration") {
            Some(nested) => PluginConfiguration::Text(pintle_codec::json::encode(nested)),
            None if path.is_empty() => continue,
            None => PluginConfiguration::File(path.to_owned()),
        };
        if !plugins.iter().any(|(known, _)| known == name) {
            plugins.push((name.to_owned(), configuration));
        }
    }
    Ok(plugins)
}

/// The plugins of a file in a form that is older than `AdmissionConfiguration`; `None` if the file has no such form.
fn unversioned(text: &[u8]) -> Option<Vec<(String, PluginConfiguration)>> {
    let value: Value = pintle_codec::yaml::decode(text).ok()?.value;
    let is_known = UNVERSIONED.iter().any(|(_, field)| value.as_object().is_some_and(|o| o.contains_key(field)));
    let plugins = UNVERSIONED.iter().map(|(name, _)| ((*name).to_owned(), PluginConfiguration::Text(text.to_vec())));
    is_known.then(|| plugins.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<&[(&str, PluginConfiguration)], &str>) {
        let found = decode_configuration_file(text.as_bytes()).map_err(|error| error.to_string());
        let owned = |plugins: &[(&str, PluginConfiguration)]| {
            plugins.iter().map(|(name, plugin)| ((*name).to_owned(), plugin.clone())).collect::<Vec<_>>()
        };
        assert_eq!(found, expect.map(owned).map_err(str::to_owned), "{text}");
    }

    #[test]
    fn plugins_have_a_text_or_a_file() {
        check(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: A\n  path: a.yaml\n\
             - name: B\n  path: b.yaml\n  configuration:\n    kind: C\n- name: D\n- name: A\n  path: other.yaml\n",
            Ok(&[
                ("A", PluginConfiguration::File("a.yaml".to_owned())),
                ("B", PluginConfiguration::Text(br#"{"kind":"C"}"#.to_vec())),
            ]),
        );
        check(r#"{"apiVersion":"apiserver.k8s.io/v1alpha1","kind":"AdmissionConfiguration"}"#, Ok(&[]));
    }

    #[test]
    fn older_files_are_the_configuration_of_their_plugins() {
        let text = "podNodeSelectorPluginConfig:\n  a: b=c\n";
        let configuration = PluginConfiguration::Text(text.as_bytes().to_vec());
        check(text, Ok(&[("ImagePolicyWebhook", configuration.clone()), ("PodNodeSelector", configuration)]));
    }

    #[test]
    fn other_texts_are_errors() {
        check("a: b\n", Err("Object 'Kind' is missing in 'a: b\n'"));
        check(
            "apiVersion: v1\nkind: Pod\n",
            Err("no kind \"Pod\" is registered for version \"v1\" in scheme \
                 \"k8s.io/apiserver/pkg/server/options/admission.go:51\""),
        );
        check(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugin: []\n",
            Err("strict decoding error: unknown field \"plugin\""),
        );
    }
}
