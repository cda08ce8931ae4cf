//! Measures how long it takes to build, encode and decode the field set of a pod of about 2 KiB, and to apply it again.

use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use pintle_apply::merge::{ConvertError, ManagedFields, Updater, VersionConverter};
use pintle_apply::typed::TypeRef;
use pintle_fieldpath::set::FieldSet;
use pintle_schema::Schema;
use pintle_value::{Value, print};

struct Pods(Schema);

impl VersionConverter for Pods {
    fn type_ref(&self, version: &str) -> Option<TypeRef<'_>> {
        (version == "v1").then(|| TypeRef::new(&self.0.types, self.0.root))
    }

    fn convert(&self, _: &Value, _: &str, _: &str) -> Result<Value, ConvertError> {
        Err(ConvertError::MissingVersion)
    }
}

fn pod() -> Value {
    let container = |name: &str, port: u16| {
        format!(
            r#"{{"name":"{name}","image":"registry.example/{name}:1.2.3","imagePullPolicy":"IfNotPresent",
            "args":["--verbose","--port={port}"],"ports":[{{"containerPort":{port},"name":"http","protocol":"TCP"}}],
            "env":[{{"name":"A","value":"1"}},{{"name":"B","value":"2"}},{{"name":"NODE","valueFrom":{{"fieldRef":{{"fieldPath":"spec.nodeName"}}}}}}],
            "resources":{{"limits":{{"cpu":"500m","memory":"128Mi"}},"requests":{{"cpu":"250m","memory":"64Mi"}}}},
            "readinessProbe":{{"httpGet":{{"path":"/ready","port":{port}}},"periodSeconds":10}},
            "volumeMounts":[{{"name":"data","mountPath":"/data"}},{{"name":"config","mountPath":"/etc/{name}"}}]}}"#
        )
    };
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web","namespace":"default",
        "labels":{{"app":"web","tier":"front"}},"annotations":{{"example.com/a":"b"}}}},
        "spec":{{"serviceAccountName":"web","containers":[{},{}],"restartPolicy":"Always",
        "tolerations":[{{"key":"a","operator":"Exists"}}],"volumes":[{{"name":"data","emptyDir":{{}}}},
        {{"name":"config","configMap":{{"name":"web"}}}}]}}}}"#,
        container("web", 8080),
        container("proxy", 8081)
    );
    serde_json::from_str(&text).unwrap_or_default()
}

fn main() -> std::io::Result<()> {
    let Some(schema) = pintle_catalog::shared().kind_schema("", "v1", "Pod") else { return Ok(()) };
    let pods = Pods(schema);
    let Some(type_ref) = pods.type_ref("v1") else { return Ok(()) };
    let pod = pod();
    let set = type_ref.field_set(&pod);
    let text = set.encode();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} bytes of JSON, {} fields, {} bytes of fieldsV1", print::json(&pod).len(), set.len(), text.len())?;

    let updater = Updater { converter: &pods };
    let apply = |live: &Value, config: &Value, managers| updater.apply(live, config, "v1", managers, &"me", false);
    let managers = apply(&Value::object(), &pod, ManagedFields::new()).map(|done| done.1).unwrap_or_default();
    let mut changed = pod.clone();
    changed.set_at(&["metadata", "labels", "tier"], "back");

    let mut time = |what: &str, work: &dyn Fn()| -> std::io::Result<()> {
        const ROUNDS: u32 = 5_000;
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| work());
        writeln!(out, "{what}: {:.1} µs", start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS))
    };
    time("build", &|| drop(black_box(type_ref.field_set(&pod))))?;
    time("encode", &|| drop(black_box(set.encode())))?;
    time("decode", &|| drop(black_box(FieldSet::decode(&text))))?;
    time("from a tree", &|| drop(black_box(FieldSet::from_value(&set.to_value()))))?;
    time("union", &|| drop(black_box(set.union(&set))))?;
    time("apply without a change", &|| drop(black_box(apply(&pod, &pod, managers.clone()))))?;
    time("apply of one field", &|| drop(black_box(apply(&pod, &changed, managers.clone()))))
}
