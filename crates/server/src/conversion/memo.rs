//! Conversions for those who cannot wait. Who owns what is a pure computation on trees, which compares objects at the
//! versions of all managers; where a webhook converts, it is done as often as it finds something out that it has to ask for,
//! and the asking is done in between.

use std::sync::Arc;

use parking_lot::Mutex;
use pintle_registry::{Conversion, MultiVersion, Resource};
use pintle_value::Value;

use super::convert::convert;
use crate::cluster::Cluster;

/// What one write knows of its objects at other versions.
#[derive(Debug, Default)]
pub(crate) struct MemoizedConversions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    known: Vec<(ConversionRequest, Result<Value, String>)>,
    wanted: Option<ConversionRequest>,
}

/// An object, and the version that it is wanted at.
#[derive(Clone, Debug, PartialEq)]
struct ConversionRequest {
    object: Value,
    version: String,
}

impl MemoizedConversions {
    /// An object at another version; `None` if that has to be asked for, and what is computed has to be computed again.
    pub(crate) fn get(
        &self,
        versions: &dyn MultiVersion,
        object: &Value,
        version: &str,
    ) -> Option<Result<Value, String>> {
        if object.api_version() == version {
            return Some(Ok(object.clone()));
        }
        let wanted = ConversionRequest { object: object.clone(), version: version.to_owned() };
        let mut state = self.0.lock();
        if let Some((_, known)) = state.known.iter().find(|(known, _)| *known == wanted) {
            return Some(known.clone());
        }
        if *versions.conversion() == Conversion::None && versions.has(version) && versions.has(object.api_version()) {
            let mut converted = wanted.object;
            converted.set("apiVersion", version);
            return Some(Ok(converted));
        }
        state.wanted = Some(wanted);
        None
    }

    /// True if something has to be asked for.
    pub(crate) fn wants(&self) -> bool {
        self.0.lock().wanted.is_some()
    }

    /// Computes something of objects of a kind, as often as it takes.
    pub(crate) async fn complete<T>(
        &self,
        cluster: &Arc<Cluster>,
        resource: &Resource,
        mut compute: impl FnMut() -> T,
    ) -> T {
        loop {
            let computed = compute();
            let wanted = self.0.lock().wanted.take();
            let (Some(wanted), Some(versions)) = (wanted, &resource.versions) else { return computed };
            let converted = convert(cluster, &**versions, vec![wanted.object.clone()], &wanted.version).await;
            let converted = converted.map(|objects| objects.into_iter().next().unwrap_or_default());
            self.0.lock().known.push((wanted, converted.map_err(|error| error.to_string())));
        }
    }
}
