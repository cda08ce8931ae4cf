//! The mutations of a MutatingAdmissionPolicy. An input begins with a byte that chooses the kinds of the object and the
//! mutation. An expression follows, and perhaps an object, separated by a zero byte.

use std::sync::Arc;

use pintle_admission::objects::{Decoding, ObjectInterfaces};
use pintle_admission::webhook::NoWebhooks;
use pintle_admission::{AdmissionOperation, AdmissionPlugin, built_in_plugin};
use pintle_admission_cel::{Declarations, EvaluationInput, ExpressionCompiler, ExpressionKind, Expressions};
use pintle_codec::json::{self, DecodeOptions};
use pintle_value::{Value, object};

use super::plugin_write::{Admitted, FIXTURE, PluginWrite, check_object, parse};

/// A budget that some of the inputs exceed.
const BUDGET: i64 = 200;

/// The bits of the first byte. The other bits choose the kind.
const JSON_PATCH: u8 = 1;
const UPDATE: u8 = 1 << 1;
const KIND: u32 = 2;

/// The policy with a mutation.
fn policy(is_patch: bool, expression: &str) -> Value {
    let (patch_type, field) = match is_patch {
        true => ("JSONPatch", "jsonPatch"),
        false => ("ApplyConfiguration", "applyConfiguration"),
    };
    let mut mutation = object! {"patchType": patch_type};
    mutation.set(field, object! {"expression": expression});
    let mut policy = parse(
        r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{"name":"p",
            "resourceVersion":"1"},"spec":{"failurePolicy":"Fail","reinvocationPolicy":"Never","matchConstraints":{
            "resourceRules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["v1"],"resources":["*"],"scope":"*"}],
            "matchPolicy":"Equivalent","namespaceSelector":{},"objectSelector":{}},
            "variables":[{"name":"n","expression":"object.metadata.name"}]}}"#,
    );
    policy.set_at(&["spec", "mutations"], vec![mutation]);
    policy
}

fn binding() -> Value {
    parse(
        r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicyBinding","metadata":{"name":"b",
            "resourceVersion":"2"},"spec":{"policyName":"p"}}"#,
    )
}

fn mutating_policies() -> Arc<dyn AdmissionPlugin> {
    built_in_plugin("MutatingAdmissionPolicy").expect("a built-in plugin")
}

/// A mutation makes an object of its kind or an error, and costs no more than its budget allows.
pub(super) fn mutation(input: &[u8]) {
    let Some((&choice, rest)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let (expression, given) = text.split_once('\0').unwrap_or((text, ""));
    let (resource, object) = &FIXTURE.kinds[usize::from(choice >> KIND) % FIXTURE.kinds.len()];
    let is_patch = choice & JSON_PATCH != 0;
    let kind = resource.gvk();
    let given = json::decode(given.as_bytes(), DecodeOptions::default()).ok().and_then(|read| {
        let mut decoded = FIXTURE.objects.decode(resource, read.value, &kind, Decoding::Lenient).ok()?;
        FIXTURE.objects.set_defaults(&mut decoded, &kind);
        Some(decoded)
    });
    let object = given.unwrap_or_else(|| object.clone());
    check_cost(expression, is_patch, &object);
    let stored =
        [("mutatingadmissionpolicies", policy(is_patch, expression)), ("mutatingadmissionpolicybindings", binding())];
    let write = PluginWrite {
        resource,
        operation: if choice & UPDATE != 0 { AdmissionOperation::Update } else { AdmissionOperation::Create },
        object,
        stored: &stored,
        webhooks: &NoWebhooks,
    };
    let Admitted { result, object, .. } = write.run(&*mutating_policies());
    if result.is_ok() {
        check_object(resource, object);
    }
}

/// Checks that an evaluation ends at its budget, and has the same result each time.
fn check_cost(expression: &str, is_patch: bool, object: &Value) {
    let kind = if is_patch { ExpressionKind::JsonPatch } else { ExpressionKind::ApplyConfiguration };
    let declarations = Declarations { patches: true, ..Declarations::default() };
    let mut compiler = ExpressionCompiler::with_variables();
    assert_eq!(compiler.add_variable("n", "object.metadata.name", declarations), Ok(()));
    let compiled = compiler.compile(expression, kind, declarations);
    let expressions = Expressions::new(&compiler, vec![Some(compiled)]);
    let input = EvaluationInput {
        object,
        old_object: &Value::Null,
        namespace: &Value::Null,
        request: &Value::Null,
        params: &Value::Null,
        authorizer: None,
    };
    let evaluate = || {
        let mut made = None;
        let left = expressions.evaluate(&input, BUDGET, |_, result| made = Some(format!("{result:?}")));
        (left, made)
    };
    let (left, made) = evaluate();
    assert_eq!(evaluate(), (left, made), "an evaluation is deterministic");
    if let Ok(left) = left {
        assert!((0..=BUDGET).contains(&left), "{left} of the budget are left");
    }
}

pub(super) fn mutation_seeds() -> Vec<Vec<u8>> {
    const POD: u8 = 0;
    const CONFIG_MAP: u8 = 1 << KIND;
    const DEPLOYMENT: u8 = 2 << KIND;
    const AUTOSCALER: u8 = 3 << KIND;
    const WIDGET: u8 = 4 << KIND;
    [
        (POD, "Object{metadata: Object.metadata{labels: Object.metadata.labels{env: 'test'}}}"),
        (
            POD,
            "Object{spec: Object.spec{initContainers: [Object.spec.initContainers.item{name: 'sidecar', image: 'i', \
             restartPolicy: 'Always', args: ['a', variables.n]}]}}",
        ),
        (POD, "Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, image: 'r/' + c.image})}}"),
        (POD | UPDATE, "has(object.spec.volumes) ? Object{spec: Object.spec{hostNetwork: true, priority: 7}} : Object{}"),
        (
            POD | JSON_PATCH,
            "[JSONPatch{op: 'test', path: '/spec/containers/0/name', value: 'a'}, JSONPatch{op: 'add', path: \
             '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: variables.n}]",
        ),
        (
            POD | JSON_PATCH,
            "[JSONPatch{op: 'add', path: '/spec/containers/-', value: Object.spec.containers{name: 'b', image: 'i', \
             resources: Object.spec.containers.resources{requests: {'cpu': '1'}}}}, JSONPatch{op: 'remove', path: '/spec/volumes'}]",
        ),
        (CONFIG_MAP, "Object{data: {'a': 'b', 'k': string(size(object.data))}, immutable: false}\0{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"o\",\"namespace\":\"ns\"},\"data\":{\"x\":\"y\"}}"),
        (CONFIG_MAP | JSON_PATCH, "[JSONPatch{op: 'copy', from: '/data', path: '/binaryData'}, JSONPatch{op: 'move', from: '/data/k', path: '/data/l'}]"),
        (DEPLOYMENT, "Object{spec: Object.spec{replicas: object.spec.replicas + 1, template: Object.spec.template{metadata: Object.spec.template.metadata{annotations: {'k': 'v'}}}}}"),
        (DEPLOYMENT | JSON_PATCH, "object.spec.replicas < 9 ? [JSONPatch{op: 'replace', path: '/spec/replicas', value: 3}] : []"),
        (AUTOSCALER, "Object{spec: Object.spec{targetCPUUtilizationPercentage: 50, maxReplicas: 9}}"),
        (AUTOSCALER | JSON_PATCH, "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'autoscaling.alpha.kubernetes.io/metrics': '[]'}}]"),
        (WIDGET, "Object{spec: Object.spec{a: 5, c: 'x', l: [Object.spec.l{k: 'q', v: 1.5}], m: {'n': 'o'}, s: ['b']}}"),
        (WIDGET, "Object{spec: Object.spec{t: Object.spec.t{x: false}}}"),
        (WIDGET | JSON_PATCH, "[JSONPatch{op: 'add', path: '/spec/e', value: {'apiVersion': 'v1', 'kind': 'Pod', 'z': [1, 2.5, true, null, duration('1s')]}}]"),
        (WIDGET | JSON_PATCH, "[JSONPatch{op: 'replace', path: '/spec/b', value: [1,2,3].map(x, 'aaaaaaaaaa').join('')}]"),
    ]
    .map(|(choice, text)| [&[choice], text.as_bytes()].concat())
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_of_seeds_change_objects() {
        let mut changed = 0;
        for seed in mutation_seeds() {
            let text = std::str::from_utf8(&seed[1..]).expect("text");
            let expression = text.split('\0').next().unwrap_or_default();
            let (resource, object) = &FIXTURE.kinds[usize::from(seed[0] >> KIND)];
            let stored = [
                ("mutatingadmissionpolicies", policy(seed[0] & JSON_PATCH != 0, expression)),
                ("mutatingadmissionpolicybindings", binding()),
            ];
            let write = PluginWrite {
                resource,
                operation: AdmissionOperation::Create,
                object: object.clone(),
                stored: &stored,
                webhooks: &NoWebhooks,
            };
            let Admitted { result, object: admitted, .. } = write.run(&*mutating_policies());
            changed += usize::from(result.is_ok() && admitted != *object);
        }
        assert!(changed >= 10, "{changed} objects were changed");
    }
}
