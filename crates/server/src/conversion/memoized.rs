//! Conversions for synchronous code. The field manager compares objects at the versions of all managers and cannot wait
//! for a webhook. If it needs an object at another version, the server converts the object and runs the computation
//! again.

use std::sync::Arc;

use pintle_locks::Mutex;
use pintle_registry::{Conversion, MultiVersion, Resource};
use pintle_value::Value;

use super::convert::convert;
use crate::cluster::Cluster;

/// The conversions that one request has made so far.
#[derive(Debug, Default)]
pub(crate) struct MemoizedConversions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    results: Vec<(ConversionRequest, Result<Value, String>)>,
    missing: Option<ConversionRequest>,
}

/// An object and the `apiVersion` to convert it to.
#[derive(Clone, Debug, PartialEq)]
struct ConversionRequest {
    object: Value,
    version: String,
}

impl MemoizedConversions {
    /// Returns an object at another version. `None` if the object has to be converted first and the computation has to
    /// run again.
    pub(crate) fn get(
        &self,
        versions: &dyn MultiVersion,
        object: &Value,
        version: &str,
    ) -> Option<Result<Value, String>> {
        if object.api_version() == version {
            return Some(Ok(object.clone()));
        }
        let missing = ConversionRequest { object: object.clone(), version: version.to_owned() };
        let mut state = self.0.lock();
        if let Some((_, result)) = state.results.iter().find(|(request, _)| *request == missing) {
            return Some(result.clone());
        }
        if *versions.conversion() == Conversion::None
            && versions.contains(version)
            && versions.contains(object.api_version())
        {
            let mut converted = missing.object;
            converted.set("apiVersion", version);
            return Some(Ok(converted));
        }
        state.missing = Some(missing);
        None
    }

    /// True if a conversion is missing.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.0.lock().missing.is_some()
    }

    /// Runs a computation until it has all the conversions that it needs.
    pub(crate) async fn run_until_complete<T>(
        &self,
        cluster: &Arc<Cluster>,
        resource: &Resource,
        mut compute: impl FnMut() -> T,
    ) -> T {
        loop {
            let computed = compute();
            let missing = self.0.lock().missing.take();
            let (Some(missing), Some(versions)) = (missing, &resource.versions) else { return computed };
            let converted = convert(cluster, &**versions, vec![missing.object.clone()], &missing.version).await;
            let converted = converted.map(|objects| objects.into_iter().next().unwrap_or_default());
            self.0.lock().results.push((missing, converted.map_err(|error| error.to_string())));
        }
    }
}
