//! The indented JSON of structs of internal versions, with their Go names, in the order of `pkg/apis/core/types.go`,
//! all fields included. The internal structs have the fields of the served version in the same order, except for the
//! structs of the table below. Structs of `metav1` print as in the API.

use pintle_catalog::Catalog;
use pintle_schema::{Field, Scalar, Struct, Type, TypeId, Types};
use pintle_value::Value;

use crate::go_json;

/// A struct by the name of its Go type (`core/v1.PodSpec`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoStruct(pub(crate) &'static str);

/// A field of an internal struct: its JSON name in the API, and its text if the API's struct does not have it.
type InternalField = (&'static str, Option<&'static str>);

const fn field(name: &'static str) -> InternalField {
    (name, None)
}

/// The structs whose fields are in another order in the internal version. Others have the order of the API.
const ORDERS: [(&str, &[InternalField]); 4] = [
    ("core/v1.PodSpec", &POD_SPEC),
    ("core/v1.PodSecurityContext", &POD_SECURITY_CONTEXT),
    ("core/v1.Volume", &VOLUME),
    ("core/v1.PersistentVolumeSource", &VOLUME_SOURCES),
];

const POD_SPEC: [InternalField; 36] = [
    field("volumes"),
    field("initContainers"),
    field("containers"),
    field("ephemeralContainers"),
    field("restartPolicy"),
    field("terminationGracePeriodSeconds"),
    field("activeDeadlineSeconds"),
    field("dnsPolicy"),
    field("nodeSelector"),
    field("serviceAccountName"),
    field("automountServiceAccountToken"),
    field("nodeName"),
    field("securityContext"),
    field("imagePullSecrets"),
    field("hostname"),
    field("subdomain"),
    field("setHostnameAsFQDN"),
    field("affinity"),
    field("schedulerName"),
    field("tolerations"),
    field("hostAliases"),
    field("priorityClassName"),
    field("priority"),
    field("preemptionPolicy"),
    field("dnsConfig"),
    field("readinessGates"),
    field("runtimeClassName"),
    field("overhead"),
    field("enableServiceLinks"),
    field("topologySpreadConstraints"),
    field("os"),
    field("schedulingGates"),
    field("resourceClaims"),
    field("resources"),
    field("hostnameOverride"),
    field("schedulingGroup"),
];

/// The internal security context of a pod has the fields of its spec about the host, too.
const POD_SECURITY_CONTEXT: [InternalField; 18] = [
    ("hostNetwork", Some("false")),
    ("hostPID", Some("false")),
    ("hostIPC", Some("false")),
    ("shareProcessNamespace", Some("null")),
    ("hostUsers", Some("null")),
    field("seLinuxOptions"),
    field("windowsOptions"),
    field("runAsUser"),
    field("runAsGroup"),
    field("runAsNonRoot"),
    field("supplementalGroups"),
    field("supplementalGroupsPolicy"),
    field("fsGroup"),
    field("fsGroupChangePolicy"),
    field("sysctls"),
    field("seccompProfile"),
    field("appArmorProfile"),
    field("seLinuxChangePolicy"),
];

const VOLUME: [InternalField; 31] = [
    field("name"),
    field("hostPath"),
    field("emptyDir"),
    field("gcePersistentDisk"),
    field("awsElasticBlockStore"),
    field("gitRepo"),
    field("secret"),
    field("nfs"),
    field("iscsi"),
    field("glusterfs"),
    field("persistentVolumeClaim"),
    field("rbd"),
    field("quobyte"),
    field("flexVolume"),
    field("cinder"),
    field("cephfs"),
    field("flocker"),
    field("downwardAPI"),
    field("fc"),
    field("azureFile"),
    field("configMap"),
    field("vsphereVolume"),
    field("azureDisk"),
    field("photonPersistentDisk"),
    field("projected"),
    field("portworxVolume"),
    field("scaleIO"),
    field("storageos"),
    field("csi"),
    field("ephemeral"),
    field("image"),
];

const VOLUME_SOURCES: [InternalField; 22] = [
    field("gcePersistentDisk"),
    field("awsElasticBlockStore"),
    field("hostPath"),
    field("glusterfs"),
    field("nfs"),
    field("rbd"),
    field("quobyte"),
    field("iscsi"),
    field("flexVolume"),
    field("cinder"),
    field("cephfs"),
    field("fc"),
    field("flocker"),
    field("azureFile"),
    field("vsphereVolume"),
    field("azureDisk"),
    field("photonPersistentDisk"),
    field("portworxVolume"),
    field("scaleIO"),
    field("local"),
    field("storageos"),
    field("csi"),
];

/// Go names that are not the JSON name with a capital letter.
const NAMES: [(&str, &str); 38] = [
    ("apiGroup", "APIGroup"),
    ("apiVersion", "APIVersion"),
    ("awsElasticBlockStore", "AWSElasticBlockStore"),
    ("cephfs", "CephFS"),
    ("chapAuthDiscovery", "DiscoveryCHAPAuth"),
    ("chapAuthSession", "SessionCHAPAuth"),
    ("csi", "CSI"),
    ("diskURI", "DataDiskURI"),
    ("dnsConfig", "DNSConfig"),
    ("dnsPolicy", "DNSPolicy"),
    ("endpoints", "EndpointsName"),
    ("fc", "FC"),
    ("fsGroup", "FSGroup"),
    ("fsGroupChangePolicy", "FSGroupChangePolicy"),
    ("fsType", "FSType"),
    ("gcePersistentDisk", "GCEPersistentDisk"),
    ("gmsaCredentialSpec", "GMSACredentialSpec"),
    ("gmsaCredentialSpecName", "GMSACredentialSpecName"),
    ("grpc", "GRPC"),
    ("httpGet", "HTTPGet"),
    ("httpHeaders", "HTTPHeaders"),
    ("ip", "IP"),
    ("iqn", "IQN"),
    ("iscsi", "ISCSI"),
    ("iscsiInterface", "ISCSIInterface"),
    ("nfs", "NFS"),
    ("os", "OS"),
    ("pdName", "PDName"),
    ("rbd", "RBD"),
    ("seLinuxChangePolicy", "SELinuxChangePolicy"),
    ("seLinuxOptions", "SELinuxOptions"),
    ("sslEnabled", "SSLEnabled"),
    ("storageos", "StorageOS"),
    ("tcpSocket", "TCPSocket"),
    ("tty", "TTY"),
    ("uid", "UID"),
    ("wwids", "WWIDs"),
    ("pdID", "PdID"),
];

/// The Go names in structs of Rados block devices.
const RBD_NAMES: [(&str, &str); 4] =
    [("image", "RBDImage"), ("monitors", "CephMonitors"), ("pool", "RBDPool"), ("user", "RadosUser")];

fn go_name(of: &Struct, name: &str) -> String {
    let is_rbd = of.name.contains(".RBD");
    let find = |names: &[(&str, &str)]| names.iter().find(|(json, _)| *json == name).map(|(_, go)| (*go).to_owned());
    let special = is_rbd.then(|| find(&RBD_NAMES)).flatten().or_else(|| find(&NAMES));
    special.unwrap_or_else(|| {
        let mut letters = name.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
    })
}

impl GoStruct {
    /// The JSON of a struct.
    pub(super) fn print(self, value: &Value) -> String {
        Printer::new(pintle_catalog::shared()).run(|printer| printer.value(Some(value), self.id(), false))
    }

    /// The JSON of a list of structs.
    pub(super) fn print_list(self, items: &[Value]) -> String {
        Printer::new(pintle_catalog::shared()).run(|printer| printer.list(items, self.id(), false))
    }

    fn id(self) -> TypeId {
        pintle_catalog::shared().struct_type(self.0).unwrap_or(TypeId(u32::MAX))
    }
}

/// Writes JSON with one space of indentation per level.
struct Printer<'t> {
    types: &'t Types,
    out: String,
    level: usize,
}

impl<'t> Printer<'t> {
    fn new(catalog: &'t Catalog) -> Self {
        Self { types: catalog.types(), out: String::new(), level: 0 }
    }

    fn run(mut self, print: impl FnOnce(&mut Self)) -> String {
        print(&mut self);
        self.out
    }

    fn new_line(&mut self) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', self.level));
    }

    /// Prints items between brackets, each on its own line.
    fn brackets<T>(&mut self, brackets: [char; 2], items: Vec<T>, mut print: impl FnMut(&mut Self, T)) {
        self.out.push(brackets[0]);
        let is_empty = items.is_empty();
        self.level += 1;
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.out.push(',');
            }
            self.new_line();
            print(self, item);
        }
        self.level -= 1;
        if !is_empty {
            self.new_line();
        }
        self.out.push(brackets[1]);
    }

    fn key(&mut self, name: &str) {
        self.out.push_str(&go_json::print(&Value::from(name)));
        self.out.push_str(": ");
    }

    fn list(&mut self, items: &[Value], item: TypeId, is_plain: bool) {
        let items = items.iter().collect();
        self.brackets(['[', ']'], items, |printer: &mut Self, value: &Value| {
            printer.value(Some(value), item, is_plain)
        });
    }

    /// Prints a value of a type, or its zero value. `is_plain` is true inside of structs with JSON names.
    fn value(&mut self, value: Option<&Value>, ty: TypeId, is_plain: bool) {
        let value = value.filter(|value| !value.is_null());
        match self.types.get(ty) {
            Type::Struct(ty) if is_plain || ty.name.starts_with("meta/v1.") => self.plain_struct(value, ty),
            Type::Struct(ty) => self.internal_struct(value, ty),
            Type::Map(map) => match value.and_then(Value::as_object) {
                Some(entries) => {
                    let entries = entries.iter().collect();
                    self.brackets(['{', '}'], entries, |printer: &mut Self, (key, value)| {
                        printer.key(key);
                        printer.value(Some(value), map.value, is_plain);
                    });
                }
                None => self.out.push_str("null"),
            },
            Type::List(list) => match value {
                Some(items) => self.list(items.items_at(&[]), list.item, is_plain),
                None => self.out.push_str("null"),
            },
            Type::Scalar(scalar) => match value {
                Some(value) => self.out.push_str(&go_json::print(value)),
                None => self.out.push_str(zero(scalar.kind)),
            },
            Type::Union(_) | Type::Any => match value {
                Some(value) => self.out.push_str(&go_json::print(value)),
                None => self.out.push_str("null"),
            },
        }
    }

    /// Prints a field, which is null if it is an unset pointer.
    fn field(&mut self, object: Option<&Value>, field: &Field) {
        match object.and_then(|object| object.get(&field.name)) {
            None if field.pointer => self.out.push_str("null"),
            value => self.value(value, field.ty, false),
        }
    }

    fn plain_struct(&mut self, value: Option<&Value>, ty: &'t Struct) {
        let fields = plain_fields(value, ty);
        self.brackets(['{', '}'], fields, |printer: &mut Self, (field, value): (&Field, &Value)| {
            printer.key(&field.name);
            printer.value(Some(value), field.ty, true);
        });
    }

    fn internal_struct(&mut self, value: Option<&Value>, ty: &'t Struct) {
        let of_api = |name: &str| ty.fields.iter().find(|field| field.name == name);
        let order = ORDERS.iter().find(|(name, _)| *name == ty.name.as_str());
        let entries: Vec<Entry<'_>> = match order {
            Some((_, fields)) => {
                let entry = |(name, zero): &InternalField| match (of_api(name), zero) {
                    (Some(field), _) => Some(Entry::Field(field)),
                    (None, Some(zero)) => Some(Entry::Moved(name, zero)),
                    (None, None) => None,
                };
                fields.iter().filter_map(entry).collect()
            }
            None => ty.fields.iter().flat_map(|field| self.entries(value, field)).collect(),
        };
        self.brackets(['{', '}'], entries, |printer: &mut Self, entry| match entry {
            Entry::Field(field) => {
                printer.key(&go_name(ty, &field.name));
                printer.field(value, field);
            }
            Entry::Moved(name, zero) => {
                printer.key(&go_name(ty, name));
                let set = value.and_then(|value| value.get(name));
                printer.out.push_str(&set.map_or_else(|| zero.to_owned(), go_json::print));
            }
            Entry::Plain(field, value) => {
                printer.key(&field.name);
                printer.value(Some(value), field.ty, true);
            }
        });
    }

    /// The lines of a field. Internal structs embed the object's metadata, whose fields have JSON names.
    fn entries<'v>(&self, value: Option<&'v Value>, field: &'v Field) -> Vec<Entry<'v>>
    where
        't: 'v,
    {
        match self.types.get(field.ty) {
            Type::Struct(ty) if ty.name == "meta/v1.ObjectMeta" => {
                let metadata = value.and_then(|value| value.get(&field.name));
                plain_fields(metadata, ty).into_iter().map(|(field, value)| Entry::Plain(field, value)).collect()
            }
            _ => vec![Entry::Field(field)],
        }
    }
}

/// A line of an internal struct, or several.
enum Entry<'v> {
    /// A field of the API's struct.
    Field(&'v Field),
    /// A field of another struct of the API, by its JSON name, and its zero value.
    Moved(&'static str, &'static str),
    /// A field with its JSON name.
    Plain(&'v Field, &'v Value),
}

/// The fields of a struct that are set, in order.
fn plain_fields<'v>(value: Option<&'v Value>, ty: &'v Struct) -> Vec<(&'v Field, &'v Value)> {
    ty.fields.iter().filter_map(|field| Some((field, value?.get(&field.name)?))).collect()
}

/// The JSON of a zero value.
fn zero(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::String => "\"\"",
        Scalar::Bool => "false",
        Scalar::Int32
        | Scalar::Int64
        | Scalar::Uint32
        | Scalar::Uint64
        | Scalar::Uint8
        | Scalar::Float64
        | Scalar::IntOrString => "0",
        Scalar::Quantity => "\"0\"",
        Scalar::Duration => "\"0s\"",
        Scalar::Bytes | Scalar::Time | Scalar::MicroTime | Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json => {
            "null"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    /// Every field of the API is in the table of its internal struct. The exceptions are the deprecated name of the
    /// service account and the fields in the security context.
    #[test]
    fn the_tables_have_all_fields() {
        let catalog = pintle_catalog::shared();
        for (name, fields) in ORDERS {
            let Some(Type::Struct(ty)) = catalog.struct_type(name).map(|id| catalog.types().get(id)) else {
                panic!("{name} is a struct")
            };
            for (field, zero) in fields {
                assert_eq!(zero.is_none(), ty.fields.iter().any(|known| known.name == *field), "{name} {field}");
            }
            let missing: Vec<&str> = ty.fields.iter().map(|field| field.name.as_str()).collect();
            let missing: Vec<&str> =
                missing.into_iter().filter(|name| !fields.iter().any(|(field, _)| field == name)).collect();
            let moved = ["serviceAccount", "hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];
            assert_eq!(missing, if name == "core/v1.PodSpec" { &moved[..] } else { &[] }, "{name}");
        }
    }

    #[test]
    fn structs_print_with_go_names_and_zero_values() {
        let check = |ty: &'static str, json: &str, expect: &str| {
            let compact: String = GoStruct(ty).print(&object(json)).lines().map(str::trim_start).collect();
            assert_eq!(compact.replace("\": ", "\":"), expect);
        };
        check("core/v1.SecretReference", "{}", r#"{"Name":"","Namespace":""}"#);
        check(
            "core/v1.PersistentVolumeClaimSpec",
            r#"{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"selector":{"matchLabels":{"a":"b"}}}"#,
            r#"{"AccessModes":["ReadWriteOnce"],"Selector":{"matchLabels":{"a":"b"}},"Resources":{"Limits":null,"Requests":{"storage":"1Gi"}},"VolumeName":"","StorageClassName":null,"VolumeMode":null,"DataSource":null,"DataSourceRef":null,"VolumeAttributesClassName":null}"#,
        );
        check(
            "core/v1.RBDVolumeSource",
            r#"{"image":"i","monitors":["m"]}"#,
            r#"{"CephMonitors":["m"],"RBDImage":"i","FSType":"","RBDPool":"","RadosUser":"","Keyring":"","SecretRef":null,"ReadOnly":false}"#,
        );
        check(
            "core/v1.PersistentVolumeClaimTemplate",
            r#"{"metadata":{"labels":{"a":"b"}},"spec":{}}"#,
            r#"{"labels":{"a":"b"},"Spec":{"AccessModes":null,"Selector":null,"Resources":{"Limits":null,"Requests":null},"VolumeName":"","StorageClassName":null,"VolumeMode":null,"DataSource":null,"DataSourceRef":null,"VolumeAttributesClassName":null}}"#,
        );
        check(
            "core/v1.Probe",
            r#"{"httpGet":{"port":80,"scheme":"HTTP"}}"#,
            r#"{"Exec":null,"HTTPGet":{"Path":"","Port":80,"Host":"","Scheme":"HTTP","HTTPHeaders":null},"TCPSocket":null,"GRPC":null,"InitialDelaySeconds":0,"TimeoutSeconds":0,"PeriodSeconds":0,"SuccessThreshold":0,"FailureThreshold":0,"TerminationGracePeriodSeconds":null}"#,
        );
    }
}
