//! Checks parts of the types that are easy to get wrong against the published sources.

use std::fmt::Write as _;

use pintle_catalog::{complete, shared};
use pintle_gates::Gates;
use pintle_schema::{ListTopology, Omit, Struct, Type, TypeId, Types};

fn struct_named(name: &str) -> &'static Struct {
    let catalog = shared();
    let id = catalog.struct_type(name).unwrap_or_else(|| panic!("no struct {name}"));
    match catalog.types().get(id) {
        Type::Struct(actual) => actual,
        other => panic!("{name} is {other:?}"),
    }
}

/// A short description of a type.
fn describe(types: &Types, id: TypeId) -> String {
    match types.get(id) {
        Type::Scalar(s) if s.name.is_empty() => format!("{:?}", s.kind),
        Type::Scalar(s) => format!("{:?} {}", s.kind, s.name),
        Type::Struct(s) => format!("{}{}", s.name, if s.atomic { " atomic" } else { "" }),
        Type::Map(m) => {
            format!("map of {}{} {}", describe(types, m.value), if m.atomic { " atomic" } else { "" }, m.name)
        }
        Type::List(l) => {
            let topology = match &l.topology {
                ListTopology::Undeclared => String::new(),
                ListTopology::Atomic => " atomic".to_owned(),
                ListTopology::Set => " set".to_owned(),
                ListTopology::Map(keys) => format!(" map({})", keys.join(",")),
            };
            format!("list of {}{topology} {}", describe(types, l.item), l.name)
        }
        Type::Union(u) => format!("{:?}", u.kind),
        Type::Any => "any".to_owned(),
    }
    .trim_end()
    .to_owned()
}

/// Compares one field, written as `number[@embedded] [*]type [omit] [required] [patch] [default]`.
fn check(owner: &str, field: &str, expect: &str) {
    let owner_type = struct_named(owner);
    let actual = owner_type.field(field).unwrap_or_else(|| panic!("{owner} has no {field}"));
    let mut text = actual.number.to_string();
    if actual.embedded > 0 {
        let outer = &owner_type.embedded[usize::from(actual.embedded) - 1];
        let _ = write!(text, "@{}/{}", outer.parent, outer.number);
    }
    let _ = write!(text, " {}{}", if actual.pointer { "*" } else { "" }, describe(shared().types(), actual.ty));
    text.push_str(match actual.omit {
        Omit::Never => "",
        Omit::Empty => " omitempty",
        Omit::Zero => " omitzero",
    });
    if actual.required {
        text.push_str(" required");
    }
    for (set, word) in
        [(actual.patch.merge, "merge"), (actual.patch.replace, "replace"), (actual.patch.retain_keys, "retainKeys")]
    {
        if set {
            let _ = write!(text, " {word}");
        }
    }
    if !actual.patch.merge_key.is_empty() {
        let _ = write!(text, " by {}", actual.patch.merge_key);
    }
    if let Some(default) = &actual.default {
        let _ = write!(text, " = {default:?}");
    }
    assert_eq!(text, expect, "{owner}.{field}");
}

#[test]
fn fields_match_their_go_declarations() {
    check("core/v1.Pod", "kind", "0 String omitempty");
    check("core/v1.Pod", "metadata", "1 meta/v1.ObjectMeta omitempty");
    check("meta/v1.ObjectMeta", "creationTimestamp", "8 Time meta/v1.Time omitzero");
    check(
        "meta/v1.ObjectMeta",
        "ownerReferences",
        "13 list of meta/v1.OwnerReference atomic map(uid) omitempty merge by uid",
    );
    check("meta/v1.ObjectMeta", "finalizers", "14 list of String set omitempty merge");
    check("core/v1.Container", "name", "1 String required");
    check(
        "core/v1.Container",
        "ports",
        "6 list of core/v1.ContainerPort map(containerPort,protocol) omitempty merge by containerPort",
    );
    check("core/v1.ContainerPort", "protocol", "4 String core/v1.Protocol omitempty = String(\"TCP\")");
    check("core/v1.PodSpec", "volumes", "1 list of core/v1.Volume map(name) omitempty merge retainKeys by name");
    check("core/v1.PodSpec", "nodeSelector", "7 map of String atomic omitempty");
    check("core/v1.PodStatus", "hostIPs", "16 list of core/v1.HostIP atomic omitempty merge by ip");
    check("core/v1.ServicePort", "targetPort", "4 IntOrString intstr.IntOrString omitempty");
    check(
        "core/v1.ResourceRequirements",
        "limits",
        "1 map of Quantity resource.Quantity core/v1.ResourceList omitempty",
    );
    check("core/v1.Secret", "data", "2 map of Bytes omitempty");
    check("core/v1.GRPCAction", "service", "2 *String = String(\"\")");
    check(
        "authorization/v1.SubjectAccessReviewSpec",
        "extra",
        "5 map of list of String authorization/v1.ExtraValue omitempty",
    );
    check("meta/v1.APIResource", "verbs", "4 list of String meta/v1.Verbs required");
    check("meta/v1.Table", "rows", "0 list of meta/v1.TableRow atomic required");
}

#[test]
fn embedded_structs_are_flattened_and_keep_their_message() {
    check("core/v1.Volume", "emptyDir", "2@0/2 *core/v1.EmptyDirVolumeSource omitempty");
    check("core/v1.Probe", "grpc", "4@0/1 *core/v1.GRPCAction omitempty");
    check("core/v1.ConfigMapKeySelector", "name", "1@0/1 String omitempty = String(\"\")");
    check("core/v1.EphemeralContainer", "image", "2@0/1 String omitempty");
    check("core/v1.EphemeralContainer", "targetContainerName", "2 String omitempty");
    check(
        "admissionregistration/v1.NamedRuleWithOperations",
        "operations",
        "1@0/2 list of String admissionregistration/v1.OperationType atomic omitempty",
    );
    check("admissionregistration/v1.NamedRuleWithOperations", "apiGroups", "1@1/2 list of String atomic omitempty");
}

#[test]
fn field_topology_may_differ_from_its_struct() {
    check("core/v1.PersistentVolumeSpec", "claimRef", "4 *core/v1.ObjectReference omitempty");
    check("core/v1.Event", "involvedObject", "2 core/v1.ObjectReference atomic required");
}

#[test]
fn json_schemas_are_recursive() {
    check("apiextensions/v1.JSONSchemaProps", "items", "24 *SchemaOrArray omitempty");
    check("apiextensions/v1.JSONSchemaProps", "additionalProperties", "30 *SchemaOrBool omitempty");
    check("apiextensions/v1.JSONSchemaProps", "properties", "29 map of apiextensions/v1.JSONSchemaProps omitempty");
    check("apiextensions/v1.JSONSchemaProps", "default", "8 *Json apiextensions/v1.JSON omitempty");
}

#[test]
fn all_types_are_resolved() {
    let catalog = complete();
    for (id, ty) in catalog.types().iter() {
        if let Type::Struct(s) = ty {
            let mut names: Vec<_> = s.fields.iter().map(|f| &f.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), s.fields.len(), "{} has a field twice", s.name);
            assert!(!s.name.is_empty() && !s.model.is_empty(), "{id:?} has no name");
        }
    }
    let open: Vec<_> = catalog.structs().filter(|(_, id)| matches!(catalog.types().get(*id), Type::Any)).collect();
    assert_eq!(open, []);
    assert_eq!(catalog.types().iter().filter(|(_, ty)| matches!(ty, Type::Any)).count(), 1, "a table's cells");
    assert!(catalog.kind_type("apps", "v1", "Deployment").is_some());
    assert!(catalog.kind_type("", "v1", "Pod").is_some());
    assert!(catalog.kind_type("", "v1", "pod").is_none());
}

#[test]
fn unions_and_gated_fields_are_known() {
    let catalog = shared();
    let union = |name: &str| {
        let owner = catalog.struct_type(name);
        catalog.unions().iter().find(|u| Some(u.owner) == owner).unwrap_or_else(|| panic!("{name} is no union"))
    };
    let subject = union("flowcontrol/v1.Subject");
    assert_eq!((subject.discriminator, &subject.members[..]), (Some("kind"), &["user", "group", "serviceAccount"][..]));
    assert_eq!(union("core/v1.PodSchedulingGroup").discriminator, None);
    let gates = Gates::default();
    let is_disabled = |name: &str, field: &str| {
        let owner = catalog.struct_type(name);
        let actual = catalog.gated_fields().iter().filter(|gated| Some(gated.owner) == owner && gated.field == field);
        actual.into_iter().any(|gated| gated.is_disabled(&gates))
    };
    assert!(is_disabled("core/v1.Lifecycle", "stopSignal"));
    assert!(is_disabled("coordination/v1.LeaseSpec", "strategy"));
    assert!(is_disabled("core/v1.VolumeProjection", "podCertificate"));
    assert!(!is_disabled("core/v1.PodSpec", "resources"), "a feature that is on");
    assert!(!is_disabled("storage/v1.CSIDriverSpec", "storageCapacity"), "a feature whose gate is gone");
}
