//! Plugins that do not wait. Most plugins need only the write, and stored objects that the server has in memory.

use std::future::{poll_fn, ready};
use std::task::Poll;

use pintle_registry::{ApiError, BoxFuture};
use pintle_value::Value;

use crate::{AdmissionAttributes, AdmissionPlugin, Phase};

/// An admission plugin that never waits. It is an [`AdmissionPlugin`], too. It implements the function of each of its
/// phases; both functions admit everything by default.
pub trait SyncPlugin: Send + Sync {
    /// The name, as in `--enable-admission-plugins`.
    const NAME: &'static str;
    /// The phases that the plugin has a part in.
    const PHASES: &'static [Phase];

    /// True if the plugin handles a write in one of its phases. It looks at the attributes only, not at the new object.
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool;

    /// Mutating phase: may change or refuse the object. `object` is null for deletes.
    ///
    /// # Errors
    /// The plugin refuses the write.
    fn mutate(&self, _attributes: &AdmissionAttributes<'_>, _object: &mut Value) -> Result<(), ApiError> {
        Ok(())
    }

    /// Validating phase: may refuse the object that would be stored. `object` is null for deletes.
    ///
    /// # Errors
    /// The plugin refuses the write.
    fn validate(&self, _attributes: &AdmissionAttributes<'_>, _object: &Value) -> Result<(), ApiError> {
        Ok(())
    }
}

impl<P: SyncPlugin> AdmissionPlugin for P {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn phases(&self) -> &[Phase] {
        P::PHASES
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        SyncPlugin::handles(self, attributes)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        completed(SyncPlugin::mutate(self, attributes, object))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        completed(SyncPlugin::validate(self, attributes, object))
    }
}

/// The future of a result. The future of a success has no fields, so its box allocates nothing.
fn completed<'a>(result: Result<(), ApiError>) -> BoxFuture<'a, Result<(), ApiError>> {
    match result {
        Ok(()) => Box::pin(poll_fn(|_| Poll::Ready(Ok(())))),
        refused => Box::pin(ready(refused)),
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use allocation_counter::measure;

    use super::*;
    use crate::testing::{Scenario, json};

    /// Marks new objects, and refuses objects without the mark.
    struct Mark;

    impl SyncPlugin for Mark {
        const NAME: &'static str = "Mark";
        const PHASES: &'static [Phase] = &[Phase::Mutating, Phase::Validating];

        fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
            attributes.creates("", "configmaps")
        }

        fn mutate(&self, _: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
            object.set("marked", true);
            Ok(())
        }

        fn validate(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
            match object.bool_at(&["marked"]) {
                true => Ok(()),
                false => Err(attributes.forbidden(object, "no mark")),
            }
        }
    }

    #[test]
    fn a_sync_plugin_is_an_admission_plugin() {
        let plugin: &dyn AdmissionPlugin = &Mark;
        assert_eq!((plugin.name(), plugin.phases()), ("Mark", &[Phase::Mutating, Phase::Validating][..]));
        let map = json(r#"{"metadata":{"name":"m"}}"#);
        let marked = json(r#"{"metadata":{"name":"m"},"marked":true}"#);
        let create = Scenario::create("", "configmaps");
        create.check_mutate(plugin, map.clone(), Ok(&marked));
        create.check_validate(plugin, &marked, Ok(()));
        create.check_validate(plugin, &map, Err("configmaps \"m\" is forbidden: no mark"));
        Scenario::create("", "secrets").check_validate(plugin, &map, Ok(()));
    }

    #[test]
    fn a_plugin_that_admits_a_write_allocates_nothing() {
        let mut marked = json(r#"{"metadata":{"name":"m"},"marked":true}"#);
        let plugin: &dyn AdmissionPlugin = &Mark;
        Scenario::create("", "configmaps").inspect(&marked.clone(), |attributes| {
            let mut context = Context::from_waker(Waker::noop());
            let allocated = measure(|| {
                assert_eq!(plugin.mutate(attributes, &mut marked).as_mut().poll(&mut context), Poll::Ready(Ok(())));
                assert_eq!(plugin.validate(attributes, &marked).as_mut().poll(&mut context), Poll::Ready(Ok(())));
            });
            assert_eq!(allocated.count_total, 0);
        });
    }
}
