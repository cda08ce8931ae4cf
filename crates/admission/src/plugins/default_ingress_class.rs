//! The plugin `DefaultIngressClass` (upstream: `plugin/pkg/admission/network/defaultingressclass`): gives new ingresses
//! that name no class the default ingress class.

use pintle_registry::{ApiError, GroupResource};
use pintle_value::Value;

use crate::default_class::default_class;
use crate::{AdmissionAttributes, Phase, SyncPlugin};

const GROUP: &str = "networking.k8s.io";
/// The annotation of an ingress that names its class, older than the field.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const DEFAULT_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";

/// The admission plugin `DefaultIngressClass`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DefaultIngressClass;

impl SyncPlugin for DefaultIngressClass {
    const NAME: &'static str = "DefaultIngressClass";
    const PHASES: &'static [Phase] = &[Phase::Mutating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates(GROUP, "ingresses")
    }

    fn mutate(&self, attributes: &AdmissionAttributes<'_>, ingress: &mut Value) -> Result<(), ApiError> {
        let has_class =
            ingress.annotation(CLASS_ANNOTATION).is_some() || ingress.at(&["spec", "ingressClassName"]).is_some();
        if has_class {
            return Ok(());
        }
        let classes = GroupResource::new(GROUP, "ingressclasses");
        if let Some(class) = default_class(attributes, ingress, &classes, &[DEFAULT_ANNOTATION])? {
            ingress.set_at(&["spec", "ingressClassName"], class);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    #[test]
    fn ingresses_without_a_class_get_the_newest_default_class() {
        let class = |name: &str, year: u16, is_default: &str| {
            json(&format!(
                r#"{{"kind":"IngressClass","metadata":{{"name":"{name}","creationTimestamp":"{year}-01-01T00:00:00Z",
                    "annotations":{{"ingressclass.kubernetes.io/is-default-class":"{is_default}"}}}}}}"#
            ))
        };
        let check = |stored: &[Value], metadata: &str, spec: &str, expect: &str| {
            let scenario = Scenario { stored: stored.to_vec(), ..Scenario::create(GROUP, "ingresses") };
            let ingress = |spec: &str| {
                let metadata = format!(r#"{{"name":"i","namespace":"ns"{metadata}}}"#);
                json(&format!(r#"{{"metadata":{metadata},"spec":{{{spec}}}}}"#))
            };
            let mut found = ingress(spec);
            scenario.mutate(&DefaultIngressClass, &mut found).expect("no refusal");
            assert_eq!(found, ingress(expect));
        };
        let set = r#""ingressClassName":"a""#;
        let a = class("a", 2020, "true");
        check(std::slice::from_ref(&a), "", "", set);
        check(&[], "", "", "");
        check(&[class("a", 2020, "false"), class("b", 2020, "")], "", "", "");
        check(&[class("b", 2020, "true"), class("z", 2019, "true"), a.clone()], "", "", set);
        let stored = [a];
        check(&stored, "", r#""ingressClassName":"b""#, r#""ingressClassName":"b""#);
        check(&stored, r#","annotations":{"kubernetes.io/ingress.class":"b"}"#, "", "");
    }
}
