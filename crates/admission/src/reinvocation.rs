//! The second run of the chain after a webhook or a policy has changed the object (upstream: `admission/reinvocation.go`
//! and the contexts of the plugins).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use pintle_locks::Mutex;
use pintle_value::metadata::MANAGED_FIELDS;
use pintle_value::{Str, Value};

/// The state of all plugins in the mutating phase of one write.
#[derive(Debug, Default)]
pub struct ReinvocationContext {
    is_reinvocation: AtomicBool,
    is_requested: AtomicBool,
    plugins: Mutex<BTreeMap<&'static str, PluginState>>,
    /// The managed fields before the first webhook or policy has replaced the object.
    managed_fields: Mutex<Option<Option<Value>>>,
}

/// The state of one plugin.
#[derive(Debug, Default)]
struct PluginState {
    /// The object after the plugin's last run.
    last_output: Option<Value>,
    /// The webhooks or policies that have run and run again if the object changes.
    reinvocable: BTreeSet<Str>,
    /// The webhooks or policies that run again.
    to_reinvoke: BTreeSet<Str>,
}

impl PluginState {
    fn reinvoke_all(&mut self) {
        self.to_reinvoke.append(&mut self.reinvocable);
    }
}

impl ReinvocationContext {
    /// True in the second run of the chain.
    #[must_use]
    pub fn is_reinvocation(&self) -> bool {
        self.is_reinvocation.load(Ordering::Relaxed)
    }

    /// Begins the second run, if a plugin has asked for it.
    pub(crate) fn begin_second_run(&self) -> bool {
        let begins = self.is_requested.load(Ordering::Relaxed);
        self.is_reinvocation.store(begins, Ordering::Relaxed);
        begins
    }

    /// A plugin begins with an object. In the second run, webhooks and policies have to see the changes that other
    /// plugins made since the plugin's first run.
    pub fn begin(&self, plugin: &'static str, object: &Value) {
        if !self.is_reinvocation() {
            return;
        }
        if let Some(state) = self.plugins.lock().get_mut(plugin)
            && state.last_output.as_ref() != Some(object)
        {
            state.reinvoke_all();
        }
    }

    /// A plugin ends with an object. The object is remembered if a change of it could make something run again.
    pub fn end(&self, plugin: &'static str, object: &Value) {
        if let Some(state) = self.plugins.lock().get_mut(plugin)
            && !state.reinvocable.is_empty()
        {
            state.last_output = Some(object.clone());
        }
    }

    /// True if a webhook or policy runs in this run of the chain. In the first run it always does. In the second run it
    /// does if it has to see a change.
    #[must_use]
    pub fn should_invoke(&self, plugin: &'static str, uid: &str) -> bool {
        !self.is_reinvocation() || self.plugins.lock().get(plugin).is_some_and(|state| state.to_reinvoke.contains(uid))
    }

    /// A webhook or policy is about to replace the object, and may break its managed fields.
    pub fn will_replace(&self, object: &Value) {
        self.managed_fields.lock().get_or_insert_with(|| object.at(&MANAGED_FIELDS).cloned());
    }

    /// The managed fields before the object was replaced for the first time; `None` if the object was not replaced.
    pub fn take_managed_fields(&self) -> Option<Option<Value>> {
        self.managed_fields.lock().take()
    }

    /// A webhook or policy has changed the object, so webhooks or policies that ran before run again if they can.
    pub fn changed(&self, plugin: &'static str) {
        self.is_requested.store(true, Ordering::Relaxed);
        if let Some(state) = self.plugins.lock().get_mut(plugin) {
            state.reinvoke_all();
        }
    }

    /// A webhook or policy has run, and runs again if the object changes after it.
    pub fn add_reinvocable(&self, plugin: &'static str, uid: &Str) {
        self.plugins.lock().entry(plugin).or_default().reinvocable.insert(uid.clone());
    }
}
