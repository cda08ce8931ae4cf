//! The plugin `Priority` (upstream: `plugin/pkg/admission/priority`). It sets the priority and the preemption policy of
//! a pod from its priority class, and the priority of a pod group. It refuses a second priority class as the global
//! default.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_gates::{Change, Feature, Gates};
use pintle_registry::{ApiError, GroupResource, StoredObjects};
use pintle_value::{Str, Value};

use crate::cached_derivation::CachedDerivation;
use crate::{AdmissionAttributes, AdmissionOperation, Phase, SyncPlugin};

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";
const POD_GROUPS: &str = "podgroups";
const COMPOSITE_POD_GROUPS: &str = "compositepodgroups";

/// The fields of a priority class that a pod gets.
#[derive(Clone, Debug, PartialEq)]
struct PriorityClass {
    name: Str,
    value: i64,
    preemption_policy: Option<Str>,
}

impl PriorityClass {
    fn of(class: &Value) -> Self {
        Self {
            name: class.name().into(),
            value: class.int_at(&["value"]).unwrap_or(0),
            preemption_policy: class.at(&["preemptionPolicy"]).and_then(Value::as_str).map(Str::from),
        }
    }

    /// The class of a pod if no class is the global default.
    fn none() -> Self {
        Self { name: Str::default(), value: 0, preemption_policy: Some(Str::from("PreemptLowerPriority")) }
    }
}

/// The priority classes of the cluster.
#[derive(Debug, Default)]
struct PriorityClasses {
    by_name: HashMap<Str, PriorityClass>,
    /// The global default. Of several default classes, the class with the lowest value counts.
    default: Option<PriorityClass>,
}

impl PriorityClasses {
    fn read(stored: StoredObjects) -> Result<Self, ApiError> {
        let mut classes = Self::default();
        for object in stored {
            let object = object.decode()?;
            let class = PriorityClass::of(&object);
            let is_lower = classes.default.as_ref().is_none_or(|lowest| class.value < lowest.value);
            if object.bool_at(&["globalDefault"]) && is_lower {
                classes.default = Some(class.clone());
            }
            classes.by_name.insert(class.name.clone(), class);
        }
        Ok(classes)
    }
}

/// The admission plugin `Priority`.
#[derive(Debug, Default)]
pub(crate) struct Priority {
    /// True if pod groups have priorities.
    has_pod_groups: bool,
    /// True if groups of pod groups have priorities.
    has_composite_pod_groups: bool,
    /// True if both have preemption policies.
    has_group_policies: bool,
    /// The decoded classes. Every pod asks for its class, so the classes are decoded only after a change.
    classes: CachedDerivation<PriorityClasses>,
}

impl Priority {
    /// The plugin.
    #[must_use]
    pub(crate) fn new(gates: &Gates) -> Self {
        let feature = match gates.has(Change::POD_GROUPS_HAVE_PRIORITIES) {
            true => Feature::GENERIC_WORKLOAD,
            false => Feature::WORKLOAD_AWARE_PREEMPTION,
        };
        Self {
            has_pod_groups: gates.is_enabled(feature),
            has_composite_pod_groups: gates.is_enabled(Feature::COMPOSITE_POD_GROUP),
            has_group_policies: gates.is_enabled(Feature::POD_GROUP_PREEMPTION_POLICY),
            ..Self::default()
        }
    }

    fn classes(&self, attributes: &AdmissionAttributes<'_>) -> Result<Arc<PriorityClasses>, ApiError> {
        let resource = GroupResource::new(GROUP, CLASSES);
        self.classes.get(attributes.client, &resource, |stored, _| PriorityClasses::read(stored))
    }

    /// Upstream returns these errors without a status.
    fn unclassified(what: &str, error: &ApiError) -> ApiError {
        ApiError::Unclassified(format!("{what}: {error}"))
    }

    /// The class that an object names, or the global default.
    fn class_of(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<PriorityClass, ApiError> {
        let name = object.str_at(&["spec", "priorityClassName"]);
        if name.is_empty() {
            let failed = |error| Self::unclassified("error occurred while retrieving default priority class", &error);
            return Ok(self.classes(attributes).map_err(failed)?.default.clone().unwrap_or_else(PriorityClass::none));
        }
        let failed = |error| Self::unclassified(&format!("failed to resolve PriorityClass with name {name}"), &error);
        let class = self.classes(attributes).map_err(failed)?.by_name.get(name).cloned();
        class.ok_or_else(|| attributes.forbidden(object, format!("no PriorityClass with name {name} was found")))
    }

    /// Refuses an object whose priority is not the priority of its class. `what` names the object's spec in the
    /// message.
    fn check_priority(
        attributes: &AdmissionAttributes<'_>,
        object: &Value,
        what: &str,
        class: &PriorityClass,
    ) -> Result<(), ApiError> {
        let computed = class.value;
        match object.int_at(&["spec", "priority"]).filter(|given| *given != computed) {
            None => Ok(()),
            Some(given) => {
                let why = format!(
                    "the integer value of priority ({given}) must not be provided in {what}; priority admission \
                     controller computed {computed} from the given PriorityClass name"
                );
                Err(attributes.forbidden(object, why))
            }
        }
    }

    /// Refuses an object whose preemption policy is not the policy of its class.
    fn check_preemption_policy(
        attributes: &AdmissionAttributes<'_>,
        object: &Value,
        what: &str,
        class: &PriorityClass,
    ) -> Result<(), ApiError> {
        let policy = object.at(&["spec", "preemptionPolicy"]).and_then(Value::as_str);
        match (policy, &class.preemption_policy) {
            (Some(given), Some(computed)) if given != computed => {
                let why = format!(
                    "the string value of PreemptionPolicy ({given}) must not be provided in {what}; priority \
                     admission controller computed {computed} from the given PriorityClass name"
                );
                Err(attributes.forbidden(object, why))
            }
            _ => Ok(()),
        }
    }

    /// Sets the priority of a new pod group, or of a group of pod groups. `what` names its spec in messages.
    fn admit_new_pod_group(
        &self,
        attributes: &AdmissionAttributes<'_>,
        group: &mut Value,
        what: &str,
    ) -> Result<(), ApiError> {
        let class = self.class_of(attributes, group)?;
        Self::check_priority(attributes, group, what, &class)?;
        if self.has_group_policies {
            Self::check_preemption_policy(attributes, group, what, &class)?;
        }
        if let Some(spec) = group.get_mut("spec") {
            spec.set("priority", class.value);
            if !class.name.is_empty() {
                spec.set("priorityClassName", class.name);
            }
            if let Some(policy) = class.preemption_policy.filter(|_| self.has_group_policies) {
                spec.set("preemptionPolicy", policy);
            }
        }
        Ok(())
    }

    fn admit_new_pod(&self, attributes: &AdmissionAttributes<'_>, pod: &mut Value) -> Result<(), ApiError> {
        let class = self.class_of(attributes, pod)?;
        Self::check_priority(attributes, pod, "pod spec", &class)?;
        Self::check_preemption_policy(attributes, pod, "pod spec", &class)?;
        let Some(spec) = pod.get_mut("spec") else { return Ok(()) };
        spec.set("priority", class.value);
        if !class.name.is_empty() {
            spec.set("priorityClassName", class.name);
        }
        if let Some(policy) = class.preemption_policy {
            spec.set("preemptionPolicy", policy);
        }
        Ok(())
    }

    /// Keeps the fields that a client without knowledge of them leaves out. Validation refuses changes.
    fn admit_pod_update(pod: &mut Value, old: &Value) {
        for field in ["priority", "preemptionPolicy"] {
            if pod.at(&["spec", field]).is_none()
                && let Some(kept) = old.at(&["spec", field])
            {
                pod.set_at(&["spec", field], kept.clone());
            }
        }
    }

    fn validate_class(&self, attributes: &AdmissionAttributes<'_>, class: &Value) -> Result<(), ApiError> {
        if !class.bool_at(&["globalDefault"]) {
            return Ok(());
        }
        let failed = |error| Self::unclassified("failed to get default priority class", &error);
        let classes = self.classes(attributes).map_err(failed)?;
        let Some(default) = &classes.default else { return Ok(()) };
        if attributes.operation == AdmissionOperation::Update && default.name == class.name() {
            return Ok(());
        }
        let why = format!("PriorityClass {} is already marked as default. Only one default can exist", default.name);
        Err(attributes.forbidden(class, why))
    }
}

impl SyncPlugin for Priority {
    const NAME: &'static str = "Priority";
    const PHASES: &'static [Phase] = &[Phase::Mutating, Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates_or_updates("", "pods")
            || attributes.creates_or_updates(GROUP, CLASSES)
            || self.has_pod_groups && attributes.creates(GROUP, POD_GROUPS)
            || self.has_composite_pod_groups && attributes.creates(GROUP, COMPOSITE_POD_GROUPS)
    }

    fn mutate(&self, attributes: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        match (&*attributes.resource.plural, attributes.old) {
            ("pods", Some(old)) => Self::admit_pod_update(object, old),
            ("pods", None) => self.admit_new_pod(attributes, object)?,
            (POD_GROUPS, None) => self.admit_new_pod_group(attributes, object, "pod group spec")?,
            (COMPOSITE_POD_GROUPS, None) => {
                self.admit_new_pod_group(attributes, object, "composite pod group spec")?;
            }
            _ => {}
        }
        Ok(())
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
        match attributes.is_object_of(GROUP, CLASSES) {
            true => self.validate_class(attributes, object),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, gates, gates_of, json};

    fn class(name: &str, fields: &str) -> Value {
        json(&format!(
            r#"{{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{{"name":"{name}"}},{fields}}}"#
        ))
    }

    fn classes() -> Vec<Value> {
        vec![
            class("low", r#""value":10,"preemptionPolicy":"Never""#),
            class("high", r#""value":1000"#),
            class("system-cluster-critical", r#""value":2000000000,"preemptionPolicy":"PreemptLowerPriority""#),
        ]
    }

    /// Creates a pod with a spec while these classes exist.
    fn check_pod(classes: Vec<Value>, spec: &str, expect: Result<&str, &str>) {
        let pod = |spec: &str| json(&format!(r#"{{"metadata":{{"name":"p","namespace":"n"}},"spec":{spec}}}"#));
        let scenario = Scenario { stored: classes, ..Scenario::create("", "pods") };
        let expect = expect.map(&pod);
        scenario.check_mutate(&Priority::default(), pod(spec), expect.as_ref().map_err(|text| *text));
    }

    #[test]
    fn a_pod_gets_the_priority_of_its_class() {
        check_pod(
            classes(),
            r#"{"priorityClassName":"low"}"#,
            Ok(r#"{"priorityClassName":"low","priority":10,"preemptionPolicy":"Never"}"#),
        );
        // Classes of clusters that are older than the field have no preemption policy.
        check_pod(classes(), r#"{"priorityClassName":"high"}"#, Ok(r#"{"priorityClassName":"high","priority":1000}"#));
        // Such classes are not only for pods in `kube-system`.
        check_pod(
            classes(),
            r#"{"priorityClassName":"system-cluster-critical","priority":2000000000}"#,
            Ok(r#"{"priorityClassName":"system-cluster-critical","priority":2000000000,
                "preemptionPolicy":"PreemptLowerPriority"}"#),
        );
    }

    #[test]
    fn a_pod_without_a_class_gets_the_global_default() {
        let none = r#"{"priority":0,"preemptionPolicy":"PreemptLowerPriority"}"#;
        check_pod(classes(), "{}", Ok(none));
        check_pod(Vec::new(), r#"{"priority":0}"#, Ok(none));
        let mut classes = classes();
        classes.push(class("second", r#""value":20,"globalDefault":true"#));
        classes.push(class("first", r#""value":-5,"globalDefault":true,"preemptionPolicy":"Never""#));
        check_pod(classes, "{}", Ok(r#"{"priorityClassName":"first","priority":-5,"preemptionPolicy":"Never"}"#));
    }

    #[test]
    fn a_pod_may_not_differ_from_its_class() {
        check_pod(
            classes(),
            r#"{"priorityClassName":"gone"}"#,
            Err("pods \"p\" is forbidden: no PriorityClass with name gone was found"),
        );
        check_pod(
            classes(),
            r#"{"priorityClassName":"low","priority":11}"#,
            Err(
                "pods \"p\" is forbidden: the integer value of priority (11) must not be provided in pod spec; priority \
                 admission controller computed 10 from the given PriorityClass name",
            ),
        );
        check_pod(
            classes(),
            r#"{"preemptionPolicy":"Never"}"#,
            Err(
                "pods \"p\" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec; \
                 priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
            ),
        );
    }

    #[test]
    fn a_pod_group_gets_the_priority_of_its_class() {
        let preemption = ["GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"];
        let plugin = Priority::new(&gates(&preemption));
        let group = |spec: &str| json(&format!(r#"{{"metadata":{{"name":"g","namespace":"n"}},"spec":{spec}}}"#));
        let default = class("default1", r#""value":1000,"globalDefault":true"#);
        let other = class("nondefault1", r#""value":2000"#);
        let check = |plugin: &Priority, stored: &[&Value], spec: &str, expect: Result<&str, &str>| {
            let stored = stored.iter().map(|class| (*class).clone()).collect();
            let create = Scenario { stored, ..Scenario::create(GROUP, POD_GROUPS) };
            let expect =
                expect.map(&group).map_err(|why| format!("podgroups.scheduling.k8s.io \"g\" is forbidden: {why}"));
            create.check_mutate(plugin, group(spec), expect.as_ref().map_err(String::as_str));
        };
        check(&plugin, &[&default, &other], "{}", Ok(r#"{"priority":1000,"priorityClassName":"default1"}"#));
        let of_other = r#"{"priorityClassName":"nondefault1","priority":2000}"#;
        check(&plugin, &[&default, &other], r#"{"priorityClassName":"nondefault1"}"#, Ok(of_other));
        check(&plugin, &[&default, &other], of_other, Ok(of_other));
        check(&plugin, &[&other], "{}", Ok(r#"{"priority":0}"#));
        let gone = r#"{"priorityClassName":"gone"}"#;
        check(&plugin, &[&default], gone, Err("no PriorityClass with name gone was found"));
        check(
            &plugin,
            &[&other],
            r#"{"priorityClassName":"nondefault1","priority":9999}"#,
            Err("the integer value of priority (9999) must not be provided in pod group spec; priority admission \
                 controller computed 2000 from the given PriorityClass name"),
        );
        check(&Priority::new(&Gates::default()), &[&default], gone, Ok(gone));
        let update = Scenario { old: Some(group(gone)), ..Scenario::update(GROUP, POD_GROUPS) };
        update.check_mutate(&plugin, group(gone), Ok(&group(gone)));
    }

    #[test]
    fn groups_of_1_37_have_preemption_policies() {
        let all =
            ["GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup", "PodGroupPreemptionPolicy"];
        let low = class("low", r#""value":10,"preemptionPolicy":"Never""#);
        let group = |spec: &str| json(&format!(r#"{{"metadata":{{"name":"g","namespace":"n"}},"spec":{spec}}}"#));
        let check = |features: &[&str], plural: &'static str, spec: &str, expect: Result<&str, &str>| {
            let plugin = Priority::new(&gates_of(37, features));
            let create = Scenario { stored: vec![low.clone()], ..Scenario::create(GROUP, plural) };
            let expect =
                expect.map(&group).map_err(|why| format!("{plural}.scheduling.k8s.io \"g\" is forbidden: {why}"));
            create.check_mutate(&plugin, group(spec), expect.as_ref().map_err(String::as_str));
        };
        let named = r#"{"priorityClassName":"low"}"#;
        for plural in [POD_GROUPS, COMPOSITE_POD_GROUPS] {
            check(&all, plural, named, Ok(r#"{"priorityClassName":"low","priority":10,"preemptionPolicy":"Never"}"#));
        }
        check(&all[..3], POD_GROUPS, named, Ok(r#"{"priorityClassName":"low","priority":10}"#));
        check(&all[..1], COMPOSITE_POD_GROUPS, named, Ok(named));
        check(
            &all,
            COMPOSITE_POD_GROUPS,
            r#"{"priorityClassName":"low","preemptionPolicy":"PreemptLowerPriority"}"#,
            Err(
                "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in composite pod group \
                 spec; priority admission controller computed Never from the given PriorityClass name",
            ),
        );
    }

    #[test]
    fn an_update_keeps_the_priority_and_subresources_are_ignored() {
        let old = json(r#"{"metadata":{"name":"p"},"spec":{"priority":7,"preemptionPolicy":"Never"}}"#);
        let bare = json(r#"{"metadata":{"name":"p"},"spec":{}}"#);
        let scenario = Scenario { old: Some(old.clone()), ..Scenario::update("", "pods") };
        scenario.check_mutate(&Priority::default(), bare.clone(), Ok(&old));
        let scenario = Scenario { subresource: "status", ..scenario };
        scenario.check_mutate(&Priority::default(), bare.clone(), Ok(&bare));
    }

    #[test]
    fn only_one_class_is_the_global_default() {
        let default = class("a", r#""value":1,"globalDefault":true"#);
        let second = class("b", r#""value":2,"globalDefault":true"#);
        let refused = "priorityclasses.scheduling.k8s.io \"b\" is forbidden: PriorityClass a is already marked as \
                       default. Only one default can exist";
        let create = Scenario { stored: vec![default.clone()], ..Scenario::create(GROUP, CLASSES) };
        create.check_validate(&Priority::default(), &second, Err(refused));
        create.check_validate(&Priority::default(), &class("b", r#""value":2"#), Ok(()));
        Scenario::create(GROUP, CLASSES).check_validate(&Priority::default(), &second, Ok(()));
        let old = Some(class("b", r#""value":2"#));
        let update = Scenario { stored: vec![default.clone()], old, ..Scenario::update(GROUP, CLASSES) };
        update.check_validate(&Priority::default(), &second, Err(refused));
        update.check_validate(&Priority::default(), &default, Ok(()));
    }

    #[test]
    fn the_known_classes_follow_changes() {
        let plugin = Priority::default();
        let at = |revision: &str, fields: &str| {
            let mut class = class("c", fields);
            class.set_at(&["metadata", "resourceVersion"], revision);
            class
        };
        let check = |stored: Vec<Value>, expect: i64| {
            let scenario = Scenario { stored, ..Scenario::create("", "pods") };
            let mut pod = json(r#"{"metadata":{"name":"p"},"spec":{}}"#);
            scenario.mutate(&plugin, &mut pod).expect("admitted");
            assert_eq!(pod.int_at(&["spec", "priority"]), Some(expect));
        };
        check(Vec::new(), 0);
        check(vec![at("3", r#""value":5,"globalDefault":true"#)], 5);
        check(vec![at("3", r#""value":5,"globalDefault":true"#)], 5);
        check(vec![at("4", r#""value":5"#)], 0);
        check(vec![at("5", r#""value":5,"globalDefault":true"#)], 5);
        check(Vec::new(), 0);
    }
}
