//! Validates the volumes of a pod: names, exactly one source, and the sources in current use (upstream:
//! `ValidateVolumes`, `validateVolumeSource`). The sources of legacy in-tree plugins are in `legacy_volumes`.

use std::collections::{BTreeMap, BTreeSet};

use pintle_value::print::quote;
use pintle_value::{Errors, FieldPath, Value, names};

use self::SourceRule::Code;
use super::certificate::{CERTIFICATE_PATHS, validate_pod_certificate};
use super::containers::PULL_POLICIES;
use super::env::{VOLUME_FIELDS, validate_field_ref, validate_resource_ref};
use super::file_paths::{
    validate_directory_mode, validate_file_mode, validate_file_user, validate_local_non_reserved_path,
    validate_no_backsteps,
};
use super::legacy_volumes as legacy;
use super::options::{PodOptions, has_no_errors};
use super::resources::is_negative;
use super::trust_bundle::validate_trust_bundle;
use crate::core::persistentvolume::validate_csi_driver_name;
use crate::core::persistentvolumeclaim::spec::validate_claim_template;
use crate::declarative::Rules;
use crate::validation::{require_fields, require_one_of, validate_dns_label, validate_object_name, validate_one_of};

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// The rule of a volume source.
pub(crate) enum SourceRule {
    Code(fn(&mut Errors, &Value, &FieldPath<'_>, &PodOptions)),
    Data(Rules),
}

impl SourceRule {
    /// The rules of a type in `data/rules.txt`.
    pub(crate) const fn data(name: &'static str) -> Self {
        SourceRule::Data(Rules::own("core/v1", name))
    }

    /// Validates a source.
    pub(crate) fn validate(&self, errors: &mut Errors, source: &Value, path: &FieldPath<'_>, options: &PodOptions) {
        match self {
            SourceRule::Code(rule) => rule(errors, source, path, options),
            SourceRule::Data(rules) => rules.validate_part(errors, source, path),
        }
    }
}

/// A volume source.
pub(crate) struct VolumeSource {
    /// The field.
    pub(crate) field: &'static str,
    /// The field name in upstream's error about more than one source.
    pub(crate) path_if_surplus: &'static str,
    /// The field name in upstream's errors about the source itself.
    pub(crate) path: &'static str,
    /// The rule.
    pub(crate) rule: SourceRule,
}

impl VolumeSource {
    pub(crate) const fn with_path(mut self, path: &'static str) -> Self {
        self.path = path;
        self
    }

    pub(crate) const fn with_path_if_surplus(mut self, path: &'static str) -> Self {
        self.path_if_surplus = path;
        self
    }
}

/// A source whose errors have the name of the field.
pub(crate) const fn volume_source(field: &'static str, rule: SourceRule) -> VolumeSource {
    VolumeSource { field, path_if_surplus: field, path: field, rule }
}

/// The sources in upstream's order.
static SOURCES: [VolumeSource; 29] = [
    volume_source("hostPath", Code(validate_host_path)),
    volume_source("gitRepo", SourceRule::data("GitRepoVolumeSource")),
    volume_source("gcePersistentDisk", SourceRule::data("GCEPersistentDiskVolumeSource")).with_path("persistentDisk"),
    volume_source("awsElasticBlockStore", SourceRule::data("AWSElasticBlockStoreVolumeSource")),
    volume_source("secret", Code(validate_secret)),
    volume_source("nfs", SourceRule::data("NFSVolumeSource")),
    volume_source("iscsi", Code(legacy::validate_iscsi)),
    volume_source("glusterfs", SourceRule::data("GlusterfsVolumeSource")),
    volume_source("flocker", Code(legacy::validate_flocker)),
    volume_source("persistentVolumeClaim", SourceRule::data("PersistentVolumeClaimVolumeSource")),
    volume_source("rbd", SourceRule::data("RBDVolumeSource")),
    volume_source("cinder", SourceRule::data("CinderVolumeSource")),
    volume_source("cephfs", SourceRule::data("CephFSVolumeSource")).with_path_if_surplus("cephFS"),
    volume_source("quobyte", Code(legacy::validate_quobyte)),
    volume_source("downwardAPI", Code(validate_downward_api)).with_path_if_surplus("downwarAPI"),
    volume_source("fc", Code(legacy::validate_fibre_channel)),
    volume_source("flexVolume", Code(legacy::validate_flex)),
    volume_source("configMap", Code(validate_config_map)),
    volume_source("azureFile", SourceRule::data("AzureFileVolumeSource")),
    volume_source("vsphereVolume", SourceRule::data("VsphereVirtualDiskVolumeSource")),
    volume_source("photonPersistentDisk", SourceRule::data("PhotonPersistentDiskVolumeSource")),
    volume_source("portworxVolume", SourceRule::data("PortworxVolumeSource")),
    volume_source("azureDisk", Code(legacy::validate_azure_disk)),
    volume_source("storageos", SourceRule::data("StorageOSVolumeSource")),
    volume_source("projected", Code(validate_projected)),
    volume_source("scaleIO", SourceRule::data("ScaleIOVolumeSource")),
    volume_source("csi", Code(validate_csi)),
    volume_source("ephemeral", Code(validate_ephemeral)),
    volume_source("image", Code(validate_image)),
];

/// Validates the volumes of a pod. Returns the valid ones by name. `pod_name` is empty for templates.
pub(crate) fn validate_volumes<'v>(
    errors: &mut Errors,
    volumes: &'v [Value],
    pod_name: &str,
    list: &FieldPath<'_>,
    options: &PodOptions,
) -> BTreeMap<&'v str, &'v Value> {
    let claim_name = |volume: &Value| format!("{pod_name}-{}", volume.str_at(&["name"]));
    let created: BTreeSet<String> = volumes
        .iter()
        .filter(|volume| !pod_name.is_empty() && volume.get("ephemeral").is_some())
        .map(claim_name)
        .collect();
    let mut found = BTreeMap::new();
    for (i, volume) in volumes.iter().enumerate() {
        let path = list.index(i);
        let name_path = path.child("name");
        let name = volume.str_at(&["name"]);
        let mut problems = validate_source(volume, pod_name, &path, options);
        if name.is_empty() {
            problems.required(&name_path, "");
        } else {
            validate_dns_label(&mut problems, &name_path, name);
        }
        if found.contains_key(name) {
            problems.duplicate(&name_path, name);
        }
        if problems.is_empty() {
            found.insert(name, volume);
        } else {
            errors.append(problems);
        }
        let claim = volume.str_at(&["persistentVolumeClaim", "claimName"]);
        if volume.get("persistentVolumeClaim").is_some() && created.contains(claim) {
            let path = path.child("persistentVolumeClaim");
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(&path.child("claimName"), claim, detail);
        }
    }
    found
}

fn validate_source(volume: &Value, pod_name: &str, path: &FieldPath<'_>, options: &PodOptions) -> Errors {
    let mut errors = Errors::new();
    let name = volume.str_at(&["name"]);
    let mut found = false;
    if let Some(source) = volume.get("emptyDir") {
        found = true;
        if source.get("sizeLimit").is_some_and(is_negative) {
            let path = path.child("emptyDir");
            errors.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
        }
        validate_directory_mode(&mut errors, &path.child("emptyDir").child("mode"), source.int_at(&["mode"]));
    }
    for VolumeSource { field, path_if_surplus, path: rule_path, rule } in &SOURCES {
        let Some(source) = volume.get(field) else { continue };
        if found {
            errors.forbidden(&path.child(path_if_surplus), "may not specify more than 1 volume type");
        } else {
            found = true;
            rule.validate(&mut errors, source, &path.child(rule_path), options);
            if *field == "ephemeral" && !pod_name.is_empty() && !name.is_empty() {
                let claim = format!("{pod_name}-{name}");
                for message in names::dns1123_subdomain_name(&claim, false) {
                    errors.invalid(&path.child("name"), name, format!("PVC name {}: {message}", quote(&claim)));
                }
            }
        }
        let portal = source.str_at(&["targetPortal"]).len();
        if *field == "iscsi" && source.get("initiatorName").is_some() && name.len() + 1 + portal > 64 {
            let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                          iscsi.initiatorName is specified.";
            errors.invalid(&path.child("name"), name, detail);
        }
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
    errors
}

pub(crate) fn validate_host_path(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    let target = source.str_at(&["path"]);
    if target.is_empty() {
        errors.required(&path.child("path"), "");
        return;
    }
    validate_no_backsteps(errors, &path.child("path"), target);
    validate_one_of(errors, &path.child("type"), source.get("type").and_then(Value::as_str), HOST_PATH_TYPES);
}

fn validate_default_mode_and_user(errors: &mut Errors, source: &Value, path: &FieldPath<'_>) {
    validate_file_mode(errors, &path.child("defaultMode"), source.int_at(&["defaultMode"]));
    validate_file_user(errors, &path.child("defaultUser"), source.int_at(&["defaultUser"]));
}

fn validate_secret(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    require_fields(errors, source, &["secretName"], path);
    validate_default_mode_and_user(errors, source, path);
    keys_to_paths(errors, source, path, None);
}

fn validate_config_map(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    require_fields(errors, source, &["name"], path);
    validate_default_mode_and_user(errors, source, path);
    keys_to_paths(errors, source, path, None);
}

/// The paths in use in a projected volume, and the field path of conflicts.
struct ProjectedPaths<'p, 'v> {
    paths: BTreeSet<&'v str>,
    report_at: &'p FieldPath<'p>,
}

impl<'v> ProjectedPaths<'_, 'v> {
    fn insert(&mut self, errors: &mut Errors, target: &'v str, shown: &str) {
        if !target.is_empty() && !self.paths.insert(target) {
            errors.invalid(self.report_at, shown, "conflicting duplicate paths");
        }
    }
}

fn keys_to_paths<'v>(
    errors: &mut Errors,
    source: &'v Value,
    path: &FieldPath<'_>,
    mut paths_in_use: Option<&mut ProjectedPaths<'_, 'v>>,
) {
    let list = path.child("items");
    for (i, item) in source.items_at(&["items"]).iter().enumerate() {
        let path = list.index(i);
        let target = item.str_at(&["path"]);
        require_fields(errors, item, &["key", "path"], &path);
        validate_local_non_reserved_path(errors, &path.child("path"), target);
        validate_file_mode(errors, &path.child("mode"), item.int_at(&["mode"]));
        validate_file_user(errors, &path.child("user"), item.int_at(&["user"]));
        if let Some(paths_in_use) = paths_in_use.as_deref_mut() {
            paths_in_use.insert(errors, target, source.str_at(&["name"]));
        }
    }
}

fn validate_downward_api(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    validate_default_mode_and_user(errors, source, path);
    for file in source.items_at(&["items"]) {
        // Upstream omits the index of the item.
        validate_downward_api_file(errors, file, path);
    }
}

fn validate_downward_api_file(errors: &mut Errors, file: &Value, path: &FieldPath<'_>) {
    require_fields(errors, file, &["path"], path);
    validate_local_non_reserved_path(errors, &path.child("path"), file.str_at(&["path"]));
    match (file.get("fieldRef"), file.get("resourceFieldRef")) {
        (Some(field), resource) => {
            validate_field_ref(errors, field, VOLUME_FIELDS, &path.child("fieldRef"));
            if resource.is_some() {
                errors.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
            }
        }
        (None, Some(resource)) => validate_resource_ref(errors, resource, true, &path.child("resourceFieldRef")),
        (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    validate_file_mode(errors, &path.child("mode"), file.int_at(&["mode"]));
    validate_file_user(errors, &path.child("user"), file.int_at(&["user"]));
}

fn validate_projected(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, options: &PodOptions) {
    validate_default_mode_and_user(errors, source, path);
    let mut paths_in_use = ProjectedPaths { paths: BTreeSet::new(), report_at: path };
    let list = path.child("sources");
    for (i, projection) in source.items_at(&["sources"]).iter().enumerate() {
        let item = list.index(i);
        let mut found = 0;
        for name in ["secret", "configMap"] {
            let Some(source) = projection.get(name) else { continue };
            found += 1;
            let path = item.child(name);
            require_fields(errors, source, &["name"], &path);
            keys_to_paths(errors, source, &path, Some(&mut paths_in_use));
        }
        if let Some(source) = projection.get("downwardAPI") {
            found += 1;
            let path = item.child("downwardAPI");
            for file in source.items_at(&["items"]) {
                validate_downward_api_file(errors, file, &path);
                let target = file.str_at(&["path"]);
                paths_in_use.insert(errors, target, target);
            }
        }
        if let Some(token) = projection.get("serviceAccountToken") {
            found += 1;
            let seconds_path = item.child("serviceAccountToken");
            let seconds_path = seconds_path.child("expirationSeconds");
            let seconds = token.int_at(&["expirationSeconds"]).unwrap_or(0);
            if seconds < 600 {
                errors.invalid(&seconds_path, seconds, "may not specify a duration less than 10 minutes");
            }
            if seconds > 1 << 32 {
                errors.invalid(&seconds_path, seconds, "may not specify a duration larger than 2^32 seconds");
            }
            let target = token.str_at(&["path"]);
            if target.is_empty() {
                errors.required(&path.child("path"), "");
            } else if !options.any_token_path {
                validate_local_non_reserved_path(errors, &path.child("path"), target);
            }
            validate_file_user(errors, &item.child("serviceAccountToken").child("user"), token.int_at(&["user"]));
        }
        if let Some(bundle) = projection.get("clusterTrustBundle") {
            found += 1;
            let path = item.child("clusterTrustBundle");
            validate_trust_bundle(errors, bundle, &path);
            validate_file_user(errors, &path.child("user"), bundle.int_at(&["user"]));
            let target = bundle.str_at(&["path"]);
            paths_in_use.insert(errors, target, target);
        }
        if let Some(certificate) = projection.get("podCertificate") {
            found += 1;
            let path = item.child("podCertificate");
            validate_pod_certificate(errors, certificate, &path);
            validate_file_user(errors, &path.child("user"), certificate.int_at(&["user"]));
            for field in CERTIFICATE_PATHS {
                let target = certificate.str_at(&[field]);
                paths_in_use.insert(errors, target, target);
            }
        }
        if found > 1 {
            errors.forbidden(&item, "may not specify more than 1 volume type per source");
        }
    }
}

fn validate_csi(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    validate_csi_driver_name(errors, source.str_at(&["driver"]), &path.child("driver"));
    if let Some(reference) = source.get("nodePublishSecretRef") {
        let name = reference.str_at(&["name"]);
        if name.is_empty() {
            errors.required(&path.child("nodePublishSecretRef").child("name"), "");
        } else {
            validate_object_name(errors, &path.child("name"), name);
        }
    }
}

fn validate_ephemeral(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    let path = path.child("volumeClaimTemplate");
    match source.get("volumeClaimTemplate") {
        Some(template) => validate_claim_template(errors, template, &path),
        None => errors.required(&path, ""),
    }
}

fn validate_image(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, options: &PodOptions) {
    if !options.any_image_reference {
        require_fields(errors, source, &["reference"], path);
    }
    require_one_of(errors, &path.child("pullPolicy"), source.str_at(&["pullPolicy"]), PULL_POLICIES);
}

/// Iterates over the projected service account tokens, with the indexes of volume and source.
pub(crate) fn projected_tokens(spec: &Value) -> impl Iterator<Item = (usize, usize, &Value)> {
    spec.items_at(&["volumes"]).iter().enumerate().flat_map(|(i, volume)| {
        let sources = volume.items_at(&["projected", "sources"]).iter().enumerate();
        sources.filter_map(move |(j, source)| Some((i, j, source.get("serviceAccountToken")?)))
    })
}

/// Returns true if an image volume has no reference.
pub(crate) fn has_image_without_reference(spec: &Value) -> bool {
    let mut images = spec.items_at(&["volumes"]).iter().filter_map(|volume| volume.get("image"));
    images.any(|image| image.str_at(&["reference"]).is_empty())
}

/// Returns true if a token is projected to a path that new objects may not have.
pub(crate) fn has_non_local_token_path(spec: &Value) -> bool {
    projected_tokens(spec).any(|(_, _, token)| {
        !has_no_errors(|errors, path| validate_local_non_reserved_path(errors, path, token.str_at(&["path"])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    fn check(volumes: &str, expect: &[&str]) {
        let volumes = object(volumes);
        let mut errors = Errors::new();
        let items = volumes.as_array().unwrap();
        validate_volumes(&mut errors, items, "pod", &FieldPath::new("v"), &PodOptions::default());
        assert_eq!(messages(&errors), expect, "{volumes:?}");
    }

    #[test]
    fn sources_without_logic_follow_the_rules_file() {
        let check_source = |source: &str, fields: &[&str]| {
            let expect: Vec<String> = fields.iter().map(|field| format!("v[0].{field}")).collect();
            check(&format!(r#"[{{"name":"a",{source}}}]"#), &expect.iter().map(String::as_str).collect::<Vec<_>>());
        };
        let required = |source: &str, fields: &[&str]| {
            let expect: Vec<String> = fields.iter().map(|field| format!("{source}.{field}: Required value")).collect();
            let json = format!(r#""{source}":{{}}"#);
            check_source(&json, &expect.iter().map(String::as_str).collect::<Vec<_>>());
        };
        required("glusterfs", &["endpoints", "path"]);
        required("persistentVolumeClaim", &["claimName"]);
        required("rbd", &["monitors", "image"]);
        required("cinder", &["volumeID"]);
        required("cephfs", &["monitors"]);
        required("azureFile", &["secretName", "shareName"]);
        required("vsphereVolume", &["volumePath"]);
        required("photonPersistentDisk", &["pdID"]);
        required("portworxVolume", &["volumeID"]);
        required("storageos", &["volumeName"]);
        required("scaleIO", &["gateway", "system", "volumeName"]);
        check_source(r#""cinder":{"volumeID":"v","secretRef":{}}"#, &["cinder.secretRef.name: Required value"]);
        check_source(
            r#""storageos":{"volumeName":"v","volumeNamespace":"a.b","secretRef":{"name":"s"}}"#,
            &["storageos.volumeNamespace: Invalid value: \"a.b\": must not contain dots"],
        );
    }

    #[test]
    fn volumes_require_unique_names_and_one_source() {
        check(r#"[{"name":"a","emptyDir":{}},{"name":"b","secret":{"secretName":"s","defaultMode":420}}]"#, &[]);
        check(
            r#"[{"name":"a","emptyDir":{},"downwardAPI":{}},{"emptyDir":{}},{"name":"b"},{"name":"c","emptyDir":{}},
                {"name":"c","hostPath":{"path":"/a/../b","type":"Fifo"}}]"#,
            &[
                "v[0].downwarAPI: Forbidden: may not specify more than 1 volume type",
                "v[1].name: Required value",
                "v[2]: Required value: must specify a volume type",
                "v[4].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
                "v[4].hostPath.type: Unsupported value: \"Fifo\": supported values: \"\", \"BlockDevice\", \
                 \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
                "v[4].name: Duplicate value: \"c\"",
            ],
        );
    }

    #[test]
    fn sources() {
        check(
            r#"[{"name":"a","configMap":{"defaultMode":512,"items":[{"path":"../x"}]}}]"#,
            &[
                "v[0].configMap.name: Required value",
                "v[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both \
                 inclusive",
                "v[0].configMap.items[0].key: Required value",
                "v[0].configMap.items[0].path: Invalid value: \"../x\": must not contain '..'",
            ],
        );
        check(
            r#"[{"name":"a","projected":{"sources":[{"secret":{"name":"s","items":[{"key":"k","path":"p"}]},
                "configMap":{"name":"c","items":[{"key":"k","path":"p"}]}},
                {"serviceAccountToken":{"expirationSeconds":1,"path":"/t"}},{"downwardAPI":{"items":[{"path":"n"}]}}]}}]"#,
            &[
                "v[0].projected: Invalid value: \"c\": conflicting duplicate paths",
                "v[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source",
                "v[0].projected.sources[1].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a \
                 duration less than 10 minutes",
                "v[0].projected.path: Invalid value: \"/t\": must be a relative path",
                "v[0].projected.sources[2].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
            ],
        );
        check(
            r#"[{"name":"a","ephemeral":{}},{"name":"b","persistentVolumeClaim":{"claimName":"pod-a"}},
                {"name":"c","csi":{"driver":"a_b","nodePublishSecretRef":{}}},{"name":"d","nfs":{"server":"s"}}]"#,
            &[
                "v[0].ephemeral.volumeClaimTemplate: Required value",
                "v[1].persistentVolumeClaim.claimName: Invalid value: \"pod-a\": must not reference a PVC that gets \
                 created for an ephemeral volume",
                "v[2].csi.driver: Invalid value: \"a_b\": a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "v[2].csi.nodePublishSecretRef.name: Required value",
                "v[3].nfs.path: Required value",
                "v[3].nfs.path: Invalid value: \"\": must be an absolute path",
            ],
        );
    }

    #[test]
    fn modes_and_users() {
        check(
            r#"[{"name":"a","emptyDir":{"mode":1023}},{"name":"b","secret":{"secretName":"s","defaultUser":0}}]"#,
            &[],
        );
        let user = |path: &str, value: i64| {
            format!("v[{path}: Invalid value: {value}: must be between 0 and 2147483647, inclusive")
        };
        let expect = [
            "v[0].emptyDir.mode: Invalid value: 1024: must be a number between 0 and 01777 (octal), both inclusive"
                .to_owned(),
            user("1].secret.defaultUser", -1),
            user("1].secret.items[0].user", -2),
            user("2].configMap.items[0].user", 1 << 31),
            // As all errors about the files of the downward API, this one has no index.
            user("3].downwardAPI.user", -1),
            user("4].projected.defaultUser", -1),
            user("4].projected.sources[0].serviceAccountToken.user", -3),
            user("4].projected.sources[1].secret.items[0].user", -4),
        ];
        let items = |user: i64| format!(r#""items":[{{"key":"k","path":"p","user":{user}}}]"#);
        check(
            &format!(
                r#"[{{"name":"a","emptyDir":{{"mode":1024}}}},
                {{"name":"b","secret":{{"secretName":"s","defaultUser":-1,{}}}}},
                {{"name":"c","configMap":{{"name":"c",{}}}}},
                {{"name":"d","downwardAPI":{{"items":[{{"path":"p","user":-1,"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.name"}}}}]}}}},
                {{"name":"e","projected":{{"defaultUser":-1,"sources":[
                {{"serviceAccountToken":{{"expirationSeconds":600,"path":"t","user":-3}}}},{{"secret":{{"name":"s",{}}}}}]}}}}]"#,
                items(-2),
                items(1 << 31),
                items(-4)
            ),
            &expect.iter().map(String::as_str).collect::<Vec<_>>(),
        );
    }
}
