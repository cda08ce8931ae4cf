//! Reads the webhooks, policies and bindings of admission plugins from files, when the server starts and when they
//! change. Upstream: `admission/plugin/manifest`, `webhook/manifest`, `policy/manifest`, and the loaders in
//! `pkg/admission/plugin` of Kubernetes.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pintle_admission::manifest::{ManifestFiles, ManifestSet};
use pintle_admission::{ConfigurationError, PluginChain};
use pintle_auth::config_file::{ConfigScheme, ConfigTypes, system_error};
use pintle_registry::{Resource, StrategyContext};
use pintle_value::Value;
use pintle_value::print::quote;

use crate::cluster::{Cluster, ConfigReloads};
use crate::objects::decode::{ExpectedKind, set_defaults};
use crate::write::validate_manifest;

/// The name of the task that follows the files.
const TASK: &str = "admission-manifests";
/// The interval at which the files are compared with their contents at the last read.
const INTERVAL: Duration = Duration::from_secs(1);
const GROUP: &str = "admissionregistration.k8s.io";
const VERSION: &str = "v1";
/// The extensions of the files that are read.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The files of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Files {
    /// The documents with the paths of their files, in the order of the files' names.
    documents: Vec<(String, Vec<u8>)>,
    /// The texts of all files, each with a zero byte after it. Two directories with equal texts are equal.
    content: Vec<u8>,
}

/// The files of one plugin.
struct FollowedManifests {
    plugin: &'static str,
    reloads: Arc<ConfigReloads>,
    /// The result of the last read: the files, or the reason why they could not be read.
    last: Result<Files, String>,
    /// The content that was read last without an error.
    applied: Vec<u8>,
}

/// Reads the files of all plugins, and follows them from now on. `server` is the name of this server in metrics.
///
/// # Errors
/// A file cannot be read, or contains an object that it may not contain.
pub(super) fn load_manifests(
    cluster: &Arc<Cluster>,
    plugins: &PluginChain,
    server: &str,
) -> Result<(), ConfigurationError> {
    let mut followed = Vec::new();
    for (name, plugin) in plugins.manifests() {
        let files = read_files(plugin.directory);
        let objects = files.clone().and_then(|files| load(cluster, plugin, &files));
        let objects = objects.map_err(|error| {
            let (what, directory) = (plugin.kinds.what, quote(&plugin.directory.to_string_lossy()));
            let error = format!("failed to load static {what} manifests from {directory}: {error}");
            ConfigurationError::InvalidPlugin { name, error }
        })?;
        plugin.replace(&objects);
        tracing::info!(plugin = name, objects = objects.len(), "Loaded manifest-based admission configurations");
        let reloads = cluster.metrics.manifests(name);
        let applied = files.as_ref().map(|files| files.content.clone()).unwrap_or_default();
        reloads.record(server, Some(&applied), cluster.now().seconds);
        followed.push(FollowedManifests { plugin: name, reloads, last: files, applied });
    }
    if !followed.is_empty() {
        follow(cluster, followed, server.to_owned());
    }
    Ok(())
}

/// Starts the task that follows the files.
fn follow(cluster: &Arc<Cluster>, followed: Vec<FollowedManifests>, server: String) {
    let task = cluster.lifecycle.background_tasks.task(TASK);
    let followed = Arc::new(pintle_locks::Mutex::new(followed));
    let (weak, reported) = (Arc::downgrade(cluster), task.clone());
    let start = move || {
        let (weak, task, followed, server) = (weak.clone(), reported.clone(), followed.clone(), server.clone());
        async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                let Some(cluster) = weak.upgrade() else { return Ok(()) };
                tokio::task::block_in_place(|| {
                    followed.lock().iter_mut().for_each(|manifests| manifests.reload(&cluster, &server));
                });
                task.report_success();
            }
        }
    };
    let weak = Arc::downgrade(cluster);
    let is_over = move || weak.strong_count() == 0;
    cluster.spawn_until_shutdown(async move { task.supervise(start, is_over).await });
}

impl FollowedManifests {
    /// Reads the files again if they have changed. An error changes nothing, and is reported once.
    fn reload(&mut self, cluster: &Arc<Cluster>, server: &str) {
        let plugins = cluster.admission();
        let Some((_, plugin)) = plugins.manifests().find(|(name, _)| *name == self.plugin) else { return };
        let files = read_files(plugin.directory);
        if files == self.last {
            return;
        }
        let (name, now) = (self.plugin, cluster.now().seconds);
        self.last = files.clone();
        match files.and_then(|files| Ok((load(cluster, plugin, &files)?, files.content))) {
            // The files have again the content that they had before an error.
            Ok((_, content)) if content == self.applied => {}
            Ok((objects, content)) => {
                plugin.replace(&objects);
                tracing::info!(plugin = name, "Reloaded admission manifest config");
                self.reloads.record(server, Some(&content), now);
                self.applied = content;
            }
            Err(error) => {
                tracing::error!(plugin = name, %error, "Reloading admission manifest config failed");
                self.reloads.record(server, None, now);
            }
        }
    }
}

/// Reads the files of a directory. Errors have upstream's messages.
fn read_files(directory: &Path) -> Result<Files, String> {
    let failed = |error: std::io::Error| {
        let (quoted, error) = (quote(&directory.to_string_lossy()), system_error(&error));
        format!("failed to read manifest directory {quoted}: open {}: {error}", directory.display())
    };
    let entries = fs::read_dir(directory).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut names: Vec<_> = entries
        .iter()
        // As in upstream, a link to a directory counts as a file.
        .filter(|entry| entry.file_type().is_ok_and(|found| !found.is_dir()))
        .map(fs::DirEntry::file_name)
        .filter(|name| {
            let extension = Path::new(name).extension().map(|extension| extension.to_string_lossy().to_lowercase());
            extension.is_some_and(|extension| EXTENSIONS.contains(&&*extension))
        })
        .collect();
    names.sort();
    let mut files = Files::default();
    for name in names {
        let path = directory.join(name);
        let (shown, quoted) = (path.display(), quote(&path.to_string_lossy()));
        let text = fs::read(&path)
            .map_err(|error| format!("failed to read file {quoted}: open {shown}: {}", system_error(&error)))?;
        if text.is_empty() {
            continue;
        }
        let documents = split_documents(&text)
            .map_err(|error| format!("failed to split YAML documents in file {quoted}: {error}"))?;
        files.documents.extend(documents.into_iter().map(|document| (path.to_string_lossy().into_owned(), document)));
        files.content.extend_from_slice(&text);
        files.content.push(0);
    }
    Ok(files)
}

/// Splits a text at the lines that begin with `---`, without empty documents (upstream: `yaml.YAMLReader`).
fn split_documents(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut documents = vec![Vec::new()];
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let Some(rest) = line.strip_prefix(b"---") else {
            documents.last_mut().map(|document| document.extend_from_slice(line)).unwrap_or_default();
            continue;
        };
        let rest = rest.trim_ascii();
        if !rest.is_empty() && !rest.starts_with(b"#") {
            return Err(format!("invalid Yaml document separator: {}", String::from_utf8_lossy(rest)));
        }
        documents.push(Vec::new());
    }
    let documents = documents.iter().map(|document| document.trim_ascii().to_vec());
    Ok(documents.filter(|document| !document.is_empty()).collect())
}

/// Decodes, defaults and checks all objects of files.
fn load(cluster: &Cluster, plugin: ManifestFiles<'_>, files: &Files) -> Result<Vec<Value>, String> {
    let loader = ManifestLoader::new(cluster, plugin)?;
    let mut set = ManifestSet::new(plugin.kinds);
    for (file, document) in &files.documents {
        let decoded = loader.scheme.decode(document).map_err(|error| error.to_string());
        let added = decoded.and_then(|decoded| loader.add(&mut set, file, decoded.value));
        added.map_err(|error| format!("error loading {file}: {error}"))?;
    }
    set.finish()
}

/// The scheme and the resources with which the objects of a plugin's files are read.
struct ManifestLoader {
    scheme: ConfigScheme,
    /// The resources of the kinds that may be in the files.
    resources: Vec<Arc<Resource>>,
    context: StrategyContext,
}

impl ManifestLoader {
    fn new(cluster: &Cluster, plugin: ManifestFiles<'_>) -> Result<Self, String> {
        let catalog = &cluster.served.catalog;
        let mut kinds: Vec<_> = catalog
            .kinds()
            .filter(|(group, ..)| *group == GROUP)
            .filter_map(|(_, version, kind, ty)| {
                let version = KNOWN_VERSIONS.iter().find(|(_, known)| *known == version)?.0;
                Some((version, kind, ty))
            })
            .collect();
        let list = catalog.kind_type("", VERSION, "List").ok_or("the kind List is unknown")?;
        kinds.push((VERSION, "List", list));
        let types = ConfigTypes::from(catalog.types().as_ref().clone());
        let scheme = ConfigScheme { name: plugin.kinds.scheme, strict: true, types, kinds };
        // The version may be turned off for clients.
        let all = pintle_kinds::all_resources(catalog);
        let is_of_plugin = |resource: &Arc<Resource>| {
            resource.group == GROUP && resource.version == VERSION && plugin.kinds.kinds.contains(&&*resource.kind)
        };
        let resources = all.into_iter().filter(is_of_plugin).collect();
        // Reserved names are errors of stored objects only, so the gates are the gates of a server without the feature.
        let context = StrategyContext::for_user("", cluster.now());
        Ok(Self { scheme, resources, context })
    }

    /// Adds a decoded object, or the objects of a list.
    fn add(&self, set: &mut ManifestSet, file: &str, object: Value) -> Result<(), String> {
        let (kind, version) = (object.kind().to_owned(), object.api_version().to_owned());
        if (version.as_str(), kind.as_str()) == (VERSION, "List") {
            for item in object.items_at(&["items"]) {
                let decoded = self.scheme.decode(&pintle_codec::json::encode(item));
                let item = decoded.map_err(|error| format!("failed to decode list item: {error}"))?.value;
                self.add(set, file, item)?;
            }
            return Ok(());
        }
        let unsupported = || {
            let version = version.rsplit('/').next().unwrap_or_default();
            format!("unsupported resource type *{version}.{kind}")
        };
        let is_current = version == format!("{GROUP}/{VERSION}");
        let resources = || self.resources.iter().filter(|_| is_current);
        if let Some(resource) = resources().find(|resource| resource.kind == kind) {
            return set.add(file, self.complete(resource, object)?);
        }
        let Some(resource) = resources().find(|resource| resource.list_kind == kind) else { return Err(unsupported()) };
        // All items are validated before the first item is added.
        let items = object.items_at(&["items"]).iter().map(|item| self.complete(resource, item.clone()));
        items.collect::<Result<Vec<_>, _>>()?.into_iter().try_for_each(|item| set.add(file, item))
    }

    /// Sets the defaults of an object and validates it.
    fn complete(&self, resource: &Arc<Resource>, mut object: Value) -> Result<Value, String> {
        object.set("kind", resource.kind.as_str());
        object.set("apiVersion", resource.group_version().to_string());
        // The decoder has already rejected values that do not match their types.
        ExpectedKind::of(resource).normalise(&mut object, None);
        set_defaults(resource, &mut object);
        let errors = validate_manifest(&self.context, resource, &object);
        match errors.is_empty() {
            true => Ok(object),
            false => Err(format!("{} {}: {}", resource.kind, quote(object.name()), errors.message())),
        }
    }
}

/// The versions of the group that upstream's scheme knows. Files may contain only one of them.
const KNOWN_VERSIONS: [(&str, &str); 3] = [
    ("admissionregistration.k8s.io/v1", "v1"),
    ("admissionregistration.k8s.io/v1beta1", "v1beta1"),
    ("admissionregistration.k8s.io/v1alpha1", "v1alpha1"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_at_separators() {
        let check = |text: &str, expect: Result<&[&str], &str>| {
            let found = split_documents(text.as_bytes());
            let found = found.map(|documents| {
                documents.into_iter().map(|document| String::from_utf8(document).expect("a text")).collect::<Vec<_>>()
            });
            let expect = expect.map(|documents| documents.iter().map(|text| (*text).to_owned()).collect());
            assert_eq!(found, expect.map_err(str::to_owned), "{text}");
        };
        check("", Ok(&[]));
        check("a: b", Ok(&["a: b"]));
        check("---\na: b\n---  # c\n\n---\nd: e\n---\n", Ok(&["a: b", "d: e"]));
        check("a: |\n  ---\n", Ok(&["a: |\n  ---"]));
        check("a: b\n--- c\n", Err("invalid Yaml document separator: c"));
        check("a: b\n-----\n", Err("invalid Yaml document separator: --"));
    }
}
