//! The indented JSON of structs of internal versions, with their Go names, in the order of `pkg/apis/core/types.go`,
//! all fields included. The internal structs have the fields of the served version in the same order, except for the
//! structs of the table. Structs of `metav1` print as in the API.

use std::sync::OnceLock;

use pintle_catalog::Catalog;
use pintle_schema::{Field, Omit, Scalar, Struct, Type, TypeId, Types};
use pintle_value::Value;
use pintle_versions::Minor;

use crate::go_json;

/// A struct by the name of its Go type (`core/v1.PodSpec`), as a version of Kubernetes has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoStruct(pub(crate) &'static str, pub(crate) Minor);

/// The structs that differ from the structs of the API.
const TABLE: &str = include_str!("../../data/go_structs.txt");

/// A line of the table: what it lists, a type, and words with their parts after an equals sign.
struct Line {
    sort: &'static str,
    ty: &'static str,
    words: Vec<(&'static str, Option<&'static str>)>,
}

impl Line {
    fn parse(line: &'static str) -> Option<Self> {
        let mut words = line.split(' ');
        let (sort, ty) = (words.next().filter(|sort| ["names", "fields"].contains(sort))?, words.next()?);
        let words = words.map(|word| word.split_once('=').map_or((word, None), |(name, text)| (name, Some(text))));
        Some(Self { sort, ty, words: words.collect() })
    }
}

fn lines(sort: &str) -> impl Iterator<Item = &'static Line> {
    static LINES: OnceLock<Vec<Line>> = OnceLock::new();
    LINES.get_or_init(|| TABLE.lines().filter_map(Line::parse).collect()).iter().filter(move |line| line.sort == sort)
}

/// The Go name of a field of an internal struct.
fn go_name(of: &Struct, name: &str) -> String {
    let of_type = lines("names").filter(|line| line.ty == "*" || of.name.starts_with(line.ty));
    let known = of_type.flat_map(|line| &line.words).find(|(json, _)| *json == name);
    known.and_then(|(_, go)| *go).map(str::to_owned).unwrap_or_else(|| {
        let mut letters = name.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
    })
}

impl GoStruct {
    /// A struct as the default version has it, or as the newest one has it.
    pub(crate) fn newest(name: &'static str) -> Self {
        let default = Self(name, Minor::DEFAULT);
        if default.catalog().struct_type(name).is_some() { default } else { Self(name, Minor::NEWEST) }
    }

    /// The JSON of a struct on one line.
    pub(crate) fn compact(self, value: Option<&Value>) -> String {
        self.printer(true).run(|printer| printer.value(value, self.id(), false))
    }

    /// The JSON of a struct.
    pub(super) fn print(self, value: &Value) -> String {
        self.printer(false).run(|printer| printer.value(Some(value), self.id(), false))
    }

    /// The JSON of a list of structs.
    pub(super) fn print_list(self, items: &[Value]) -> String {
        self.printer(false).run(|printer| printer.list(items, self.id(), false))
    }

    fn printer(self, is_compact: bool) -> Printer<'static> {
        Printer { types: self.catalog().types(), is_compact, out: String::new(), level: 0 }
    }

    /// The catalog that has the struct.
    fn catalog(self) -> &'static Catalog {
        let shared = pintle_catalog::shared_of(self.1);
        if shared.struct_type(self.0).is_some() { shared } else { pintle_catalog::complete_of(self.1) }
    }

    fn id(self) -> TypeId {
        self.catalog().struct_type(self.0).unwrap_or(TypeId(u32::MAX))
    }
}

/// Writes JSON, with one space of indentation per level unless it is compact.
struct Printer<'t> {
    types: &'t Types,
    is_compact: bool,
    out: String,
    level: usize,
}

impl<'t> Printer<'t> {
    fn run(mut self, print: impl FnOnce(&mut Self)) -> String {
        print(&mut self);
        self.out
    }

    fn new_line(&mut self) {
        if self.is_compact {
            return;
        }
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
        self.out.push_str(if self.is_compact { ":" } else { ": " });
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
        self.brackets(['{', '}'], fields, |printer: &mut Self, (field, value): (&Field, Option<&Value>)| {
            printer.key(&field.name);
            printer.value(value, field.ty, true);
        });
    }

    fn internal_struct(&mut self, value: Option<&Value>, ty: &'t Struct) {
        let of_api = |name: &str| ty.fields.iter().find(|field| field.name == name);
        let entries: Vec<Entry<'_>> = match lines("fields").find(|line| line.ty == ty.name.as_str()) {
            Some(line) => {
                let entry = |(name, zero): &(&'static str, Option<&'static str>)| match zero {
                    Some(zero) => Some(Entry::WithZero(name, zero)),
                    None => of_api(name).map(Entry::Field),
                };
                line.words.iter().filter_map(entry).collect()
            }
            None => ty.fields.iter().flat_map(|field| self.entries(value, field)).collect(),
        };
        self.brackets(['{', '}'], entries, |printer: &mut Self, entry| match entry {
            Entry::Field(field) => {
                printer.key(&go_name(ty, &field.name));
                printer.field(value, field);
            }
            Entry::WithZero(name, zero) => {
                printer.key(&go_name(ty, name));
                let set = value.and_then(|value| value.get(name));
                printer.out.push_str(&set.map_or_else(|| zero.to_owned(), go_json::print));
            }
            Entry::Plain(field, value) => {
                printer.key(&field.name);
                printer.value(value, field.ty, true);
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
    /// The JSON name of a scalar field, and its zero value.
    WithZero(&'static str, &'static str),
    /// A field with its JSON name.
    Plain(&'v Field, Option<&'v Value>),
}

/// The fields of a struct in JSON, in order. A field is there if it is set or is never omitted.
fn plain_fields<'v>(value: Option<&'v Value>, ty: &'v Struct) -> Vec<(&'v Field, Option<&'v Value>)> {
    let fields = ty.fields.iter().map(|field| (field, value.and_then(|value| value.get(&field.name))));
    fields.filter(|(field, value)| value.is_some() || field.omit == Omit::Never).collect()
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
        for Line { ty: name, words: fields, .. } in lines("fields") {
            let Some(Type::Struct(ty)) = catalog.struct_type(name).map(|id| catalog.types().get(id)) else {
                panic!("{name} is a struct")
            };
            for (field, zero) in fields {
                assert!(zero.is_some() || ty.fields.iter().any(|known| known.name == *field), "{name} {field}");
            }
            let missing: Vec<&str> = ty.fields.iter().map(|field| field.name.as_str()).collect();
            let missing: Vec<&str> =
                missing.into_iter().filter(|name| !fields.iter().any(|(field, _)| field == name)).collect();
            let moved = ["serviceAccount", "hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];
            assert_eq!(missing, if *name == "core/v1.PodSpec" { &moved[..] } else { &[] }, "{name}");
        }
    }

    #[test]
    fn structs_print_with_go_names_and_zero_values() {
        let check = |ty: &'static str, json: &str, expect: &str| {
            let compact: String =
                GoStruct(ty, Minor::DEFAULT).print(&object(json)).lines().map(str::trim_start).collect();
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
            "storage/v1.CSINodeDriver",
            r#"{"name":"d","allocatable":{"count":5}}"#,
            r#"{"Name":"d","NodeID":"","TopologyKeys":null,"Allocatable":{"Count":5}}"#,
        );
        let migration = "storagemigration/v1beta1.StorageVersionMigrationSpec";
        check(migration, r#"{"resource":{"resource":"r"}}"#, r#"{"Resource":{"group":"","resource":"r"}}"#);
        check("apps/v1.RollingUpdateDeployment", "{}", r#"{"MaxUnavailable":0,"MaxSurge":0}"#);
        check(
            "core/v1.Probe",
            r#"{"httpGet":{"port":80,"scheme":"HTTP"}}"#,
            r#"{"Exec":null,"HTTPGet":{"Path":"","Port":80,"Host":"","Scheme":"HTTP","HTTPHeaders":null},"TCPSocket":null,"GRPC":null,"InitialDelaySeconds":0,"TimeoutSeconds":0,"PeriodSeconds":0,"SuccessThreshold":0,"FailureThreshold":0,"TerminationGracePeriodSeconds":null}"#,
        );
    }
}
