//! Conversion by webhook for lists and watches. Clients that read the same version share the results. Gets and writes
//! of single objects always call the webhook.

use std::sync::Arc;

use pintle_cache::Object;
use pintle_registry::ApiError;
use tokio::sync::watch;

use super::view::VersionView;
use crate::cluster::conversion_cache::{ConversionKey, ConversionResult, Lookup};
use crate::http::{catch_panic, panic_text};

/// Converts objects to the version of a view.
///
/// # Errors
/// Returns an error if the webhook fails or the server shuts down.
pub(super) async fn convert_shared(view: &VersionView, objects: &[Arc<Object>]) -> ConversionResult {
    let cache = &view.cluster.outbound.conversion_cache;
    let Some(keys) = objects.iter().map(|object| view.conversion_key(object)).collect::<Option<Vec<_>>>() else {
        return view.convert(objects).await;
    };
    let (sender, pending) = watch::channel(None);
    let (lookups, unknown) = cache.lookup(&keys, objects, &pending);
    if !unknown.is_empty() {
        // The result is shared, so this task continues when the first client disconnects.
        tokio::spawn(convert_and_store(view.clone(), unknown, sender));
    }
    let mut converted = Vec::with_capacity(objects.len());
    for lookup in lookups {
        converted.push(match lookup {
            Lookup::Converted(object) => object,
            Lookup::Pending(mut result, index) => {
                let closed = |_| ApiError::Unavailable("the server is shutting down".to_owned());
                let result = result.wait_for(Option::is_some).await.map_err(closed)?.clone();
                let object = result.transpose()?.and_then(|objects| objects.get(index).cloned());
                object.ok_or_else(|| ApiError::Internal("the conversion returned no object".to_owned()))?
            }
        });
    }
    Ok(converted)
}

async fn convert_and_store(
    view: VersionView,
    unknown: Vec<(ConversionKey, Arc<Object>)>,
    sender: watch::Sender<Option<ConversionResult>>,
) {
    let (keys, objects): (Vec<ConversionKey>, Vec<Arc<Object>>) = unknown.into_iter().unzip();
    let result = tokio::select! {
        result = without_panic(view.convert(&objects)) => result,
        () = view.cluster.shutdown() => Err(ApiError::Unavailable("the server is shutting down".to_owned())),
    };
    view.cluster.outbound.conversion_cache.store(keys, &result);
    sender.send_replace(Some(result));
}

/// The result of a conversion, or an error if the conversion panics. Without this error, the cache would keep the
/// objects as pending.
async fn without_panic(conversion: impl Future<Output = ConversionResult>) -> ConversionResult {
    catch_panic(conversion).await.unwrap_or_else(|panic| {
        tracing::error!(panic = panic_text(&panic), "Conversion panicked");
        Err(ApiError::Internal("the conversion failed".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use pintle_cache::ObjectIndex;

    use super::*;
    use crate::cluster::conversion_cache::ConversionCache;

    #[tokio::test]
    async fn a_conversion_that_panics_fails_and_leaves_nothing_pending() {
        let cache = ConversionCache::default();
        let key = ConversionKey { crd: 1, object: 2, version: "example.com/v1".into() };
        let object = Arc::new(Object::new("a".into(), 2, "{}".into(), ObjectIndex::default()));
        let (keys, objects) = ([key], [object]);
        let (_sender, pending) = watch::channel(None);
        let (_, unknown) = cache.lookup(&keys, &objects, &pending);
        assert_eq!(unknown.len(), 1);
        let result = without_panic(async { panic!("a defect") }).await;
        assert!(matches!(result, Err(ApiError::Internal(_))));
        cache.store(keys.to_vec(), &result);
        let (_, unknown) = cache.lookup(&keys, &objects, &pending);
        assert_eq!(unknown.len(), 1, "the object is not pending any more");
    }
}
