//! Custom resources: structural schemas, and whole CRDs. An input is a schema or a CRD, and an object, separated by a
//! zero byte.

use std::sync::{Arc, LazyLock};

use pintle_codec::json::{self, DecodeOptions};
use pintle_extensions::schema::{StructuralSchema, to_types};
use pintle_extensions::{build_resources, install_crd_validation};
use pintle_registry::{CostBudget, CrdSource, Resource, Strategy, StrategyContext};
use pintle_schema::TypeId;
use pintle_value::metadata::MissingFields;
use pintle_value::time::Time;
use pintle_value::{Value, object};

const NOW: Time = Time::from_seconds(1_700_000_000);

fn pair(input: &[u8]) -> Option<(Value, Value)> {
    let zero = input.iter().position(|byte| *byte == 0)?;
    let read = |text| json::decode(text, DecodeOptions::default()).ok().map(|read| read.value);
    Some((read(&input[..zero])?, read(&input[zero + 1..])?))
}

pub(super) fn schema(input: &[u8]) {
    let Some((tree, value)) = pair(input) else { return };
    let Ok(schema) = StructuralSchema::parse(&tree) else { return };
    let mut object = value.clone();
    if schema.conform(&mut object).is_ok() {
        let mut again = object.clone();
        assert_eq!(schema.conform(&mut again), Ok(Vec::new()));
        assert_eq!(again, object, "an object that conforms is left as it is");
    }
    schema.default(&mut object);
    schema.drop_nulls(&mut object);
    let _ = (schema.validate(&value), schema.validate(&object));
    let _ = (schema.validate_embedded(&value, MissingFields::Invalid), schema.validate_lists(&value));
    let _ = to_types(&schema);
}

/// The strategy of CRDs with its validation.
static CRDS: LazyLock<(Arc<Resource>, TypeId)> = LazyLock::new(|| {
    let catalog = pintle_catalog::shared();
    let mut resources = pintle_kinds::resources(catalog);
    install_crd_validation(&mut resources, pintle_gates::Gates::default().version());
    let plural = "customresourcedefinitions";
    let found = resources.into_iter().find(|resource| resource.plural == plural);
    let ty = catalog.kind_type("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    found.zip(ty).unwrap_or_else(|| unreachable!("the kind is built in"))
});

pub(super) fn crd(input: &[u8]) {
    let zero = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (kind, ty) = &*CRDS;
    let types = pintle_catalog::shared().types();
    let Ok(read) = json::decode_typed(&input[..zero], types, *ty) else { return };
    let mut crd = read.value;
    let context = StrategyContext::for_user("fuzz", NOW);
    kind.strategy.defaults(&mut crd);
    kind.strategy.prepare_for_create(&context, &mut crd);
    let _ = kind.strategy.validate(&context, &crd);
    let _ = kind.strategy.warnings(&context, &crd, None);
    // A store may also have CRDs that the validation refuses.
    let names = crd.at(&["spec", "names"]).cloned().unwrap_or_default();
    let accepted = object! { "type": "NamesAccepted", "status": "True" };
    crd.set("status", object! { "acceptedNames": names, "conditions": vec![accepted] });
    let source = crd_source(&crd);
    let object = input.get(zero + 1..).and_then(|text| json::decode(text, DecodeOptions::default()).ok());
    let object = object.map_or_else(Value::object, |read| read.value);
    for resource in build_resources(&crd, &source) {
        serve(&context, &resource, object.clone());
    }
}

/// Runs the steps of the server for an object that is created and read.
fn serve(context: &StrategyContext, resource: &Resource, mut object: Value) {
    let strategy: &dyn Strategy = &*resource.strategy;
    if strategy.prune_unknown_fields(&mut object).is_err() {
        return;
    }
    strategy.defaults(&mut object);
    strategy.prepare_for_create(context, &mut object);
    let mut errors = strategy.validate(context, &object);
    let _ = strategy.validate_expensive(&object, None, &mut errors, CostBudget::Unlimited);
    let _ = strategy.warnings(context, &object, None);
    let _ = resource.table.cells(&object, NOW);
    for field in &resource.selectable {
        let _ = format!("{field:?}");
    }
}

/// A source that reads the schemas of a CRD from the CRD itself.
pub(super) fn crd_source(crd: &Value) -> Arc<dyn CrdSource> {
    Arc::new(Source(crd.clone()))
}

struct Source(Value);

impl CrdSource for Source {
    fn fingerprint(&self) -> &str {
        ""
    }

    fn schema(&self, version: &str) -> Option<Value> {
        let versions = self.0.items_at(&["spec", "versions"]);
        let named = versions.iter().find(|candidate| candidate.str_at(&["name"]) == version)?;
        named.at(&["schema", "openAPIV3Schema"]).cloned()
    }

    fn is_terminating(&self, _: u64, _: &[u8]) -> bool {
        false
    }
}

const APPLICATION: &str = include_str!("../../../extensions/tests/data/application-schema.json");

pub(super) fn schema_seeds() -> Vec<Vec<u8>> {
    let application = format!("{APPLICATION}¦{}", include_str!("../../../extensions/tests/data/application.json"));
    [
        r#"{"type":"object","properties":{"spec":{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":1,"default":3},"b":{"type":"string","pattern":"^a+$","maxLength":5,"format":"date-time"},"c":{"x-kubernetes-int-or-string":true},"l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string","default":"x"}}}}}}}}¦{"apiVersion":"e.com/v1","kind":"W","metadata":{"name":"a","labels":{"a":"b"}},"spec":{"a":1,"b":"aa","c":"5","l":[{"k":"a"},{}],"x":null}}"#,
        r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"e":{"type":"object","x-kubernetes-embedded-resource":true,"nullable":true},"m":{"type":"object","additionalProperties":{"type":"number","multipleOf":0.5}},"o":{"anyOf":[{"required":["a"]},{"not":{"enum":[1,"a"]}}]}}}¦{"e":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"B"}},"m":{"a":1.5},"o":null,"z":[1]}"#,
        &application,
    ]
    .map(|text| text.replace('¦', "\0").into_bytes())
    .to_vec()
}

pub(super) fn crd_seeds() -> Vec<Vec<u8>> {
    [
        r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget","singular":"widget","listKind":"WidgetList","shortNames":["w"]},"versions":[{"name":"v1","served":true,"storage":true,"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".spec.l[?(@.k==\"a\")].k"},{"name":"D","type":"date","jsonPath":".metadata.creationTimestamp"}],"selectableFields":[{"jsonPath":".spec.b"}],"subresources":{"status":{},"scale":{"specReplicasPath":".spec.a","statusReplicasPath":".status.a","labelSelectorPath":".status.s"}},"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-validations":[{"rule":"self.a > 1 || self.b.startsWith('x')","message":"m","messageExpression":"'a is ' + string(self.a)","reason":"FieldValueInvalid","fieldPath":".a"}],"properties":{"a":{"type":"integer","default":3},"b":{"type":"string","pattern":"^[a-z]+$"},"l":{"type":"array","maxItems":9,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}}}}},"status":{"type":"object","properties":{"a":{"type":"integer"},"s":{"type":"string"}}}}}}}]}}¦{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","creationTimestamp":"2001-01-01T00:00:00Z"},"spec":{"a":0,"b":"x","l":[{"k":"a"}]}}"#,
        r#"{"metadata":{"name":"things.e.com"},"spec":{"group":"e.com","scope":"Cluster","preserveUnknownFields":false,"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://a/b"}}},"names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1beta1","served":true,"storage":false,"deprecated":true,"deprecationWarning":"old","schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"string","maxLength":10,"x-kubernetes-validations":[{"rule":"self.matches('^a') || oldSelf == self","optionalOldSelf":false}]}}}}}}]}}¦{"apiVersion":"e.com/v2","kind":"Thing","metadata":{"name":"a"},"m":{"k":"b"}}"#,
    ]
    .map(|text| text.replace('¦', "\0").into_bytes())
    .to_vec()
}
