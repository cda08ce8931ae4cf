//! Reads the file with the configurations of admission plugins.

use std::collections::BTreeMap;
use std::path::Path;

use pintle_admission::{PluginConfiguration, decode_configuration_file};
use pintle_value::print::quote;

use crate::config_file::read;

/// Reads the file of `--admission-control-config-file`, and the plugins' files that it names. Returns the
/// configurations by the plugin's name.
///
/// # Errors
/// A file cannot be read, or the file is malformed; with upstream's message.
pub fn read_admission_configuration(file: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let text = read(file).map_err(|error| {
        let file = quote(&file.to_string_lossy());
        format!("failed to read plugin config: unable to read admission control configuration from {file} [{error}]")
    })?;
    let plugins = decode_configuration_file(&text).map_err(|error| format!("failed to read plugin config: {error}"))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let configuration = |(name, plugin)| match plugin {
        PluginConfiguration::Text(text) => Ok((name, text)),
        PluginConfiguration::File(path) => {
            let path = folder.join(path);
            let failed = |error| format!("Couldn't open admission plugin configuration {}: {error}", path.display());
            Ok((name, read(&path).map_err(failed)?))
        }
    };
    plugins.into_iter().map(configuration).collect()
}
