//! The forms of cells that `data/tables.txt` names. Most read the value at a path, and show another word if there is none.

use pintle_value::Value;
use pintle_value::time::{self, Time};

use super::{apps, autoscaling, batch, cells, core, networking, resource, services, small_groups, storage};

/// The sources of a cell.
#[derive(Clone, Copy)]
pub(super) struct Cell<'c> {
    pub(super) object: &'c Value,
    pub(super) now: Time,
    /// The first word after the name of the form, as a path.
    pub(super) path: &'c [&'static str],
    /// The words after the name of the form.
    pub(super) words: &'c [&'static str],
}

/// Builds a cell.
pub(super) type Form = fn(Cell<'_>) -> Value;

impl<'c> Cell<'c> {
    /// The value at the path.
    fn value(self) -> Option<&'c Value> {
        self.object.at(self.path)
    }

    fn items(self) -> &'c [Value] {
        self.object.items_at(self.path)
    }

    /// A word; empty if there is none.
    pub(super) fn word(self, index: usize) -> &'static str {
        self.words.get(index).copied().unwrap_or_default()
    }
}

/// The name of the object.
pub(super) fn name(c: Cell<'_>) -> Value {
    c.object.name().into()
}

/// The creation time. Without one, Go prints its zero time.
pub(super) fn created(c: Cell<'_>) -> Value {
    c.object.time_at(&["metadata", "creationTimestamp"]).unwrap_or(Time::ZERO).rfc3339().into()
}

/// The form with a name.
pub(super) fn form(name: &str) -> Option<Form> {
    shared_form(name).or_else(|| special_form(name))
}

/// The forms of many kinds.
fn shared_form(name: &str) -> Option<Form> {
    Some(match name {
        "access-modes" => |c| cells::access_modes(c.object, c.path).into(),
        "age" => |c| time::age(c.object, c.now),
        "bool" => |c| c.object.bool_at(c.path).into(),
        "containers" => |c| cells::of_containers(c.value(), "name").into(),
        "count" => |c| cells::count(c.object, c.path).into(),
        "images" => |c| cells::of_containers(c.value(), "image").into(),
        "int" => |c| cells::int(c.object, c.path).into(),
        // A number if the struct is set, a text otherwise.
        "int-in" => |c| c.value().map_or(c.word(2).into(), |part| cells::int(part, &[c.word(1)]).into()),
        "labels" => |c| cells::labels(c.object, c.path).into(),
        "list" => |c| cells::or_placeholder(&cells::strings(c.object, c.path).join(","), c.word(1)).into(),
        "load-balancer" => |c| cells::load_balancer_addresses(c.items()).into(),
        "name" => self::name,
        // The words are annotations that mark an object as the default.
        "name-or-default" => |c| {
            let is_default = c.words.iter().any(|key| c.object.annotation(key) == Some("true"));
            format!("{}{}", c.object.name(), if is_default { " (default)" } else { "" }).into()
        },
        "not-false" => |c| c.value().and_then(Value::as_bool).unwrap_or(true).into(),
        "pair" => |c| match c.value() {
            Some(part) => format!("{}/{}", part.str_at(&[c.word(1)]), part.str_at(&[c.word(2)])).into(),
            None => c.word(3).into(),
        },
        "scalar" => |c| c.value().map_or_else(|| c.word(1).to_owned(), cells::scalar).into(),
        "selector" => |c| cells::format_selector(c.object, c.path).into(),
        "set" => |c| cells::string_or(c.object, c.path, c.word(1)).into(),
        "since" => |c| match c.value() {
            Some(_) => time::since(c.object.time_at(c.path), c.now).into(),
            None => c.word(1).into(),
        },
        "text" => |c| cells::or_placeholder(c.object.str_at(c.path), c.word(1)).into(),
        "text-in" => |c| {
            let field: Vec<&str> = c.word(1).split('.').collect();
            c.value().map_or(c.word(2), |part| part.str_at(&field)).into()
        },
        _ => return None,
    })
}

/// The forms of one kind.
fn special_form(name: &str) -> Option<Form> {
    Some(match name {
        "api-service-available" => |c| small_groups::api_service_available(c.object).into(),
        "autoscaler-targets" => |c| autoscaling::targets(c.object).into(),
        "binding-parameters" => |c| small_groups::binding_parameters(c.object).into(),
        "claim-access-modes" => |c| core::claim_access_modes(c.object).into(),
        "claim-capacity" => |c| core::claim_capacity(c.object).into(),
        "component-field" => |c| core::component_condition(c.object).map_or("", |part| part.str_at(c.path)).into(),
        "component-status" => |c| core::component_status(c.object).into(),
        "config-map-data" => |c| (cells::count(c.object, &["data"]) + cells::count(c.object, &["binaryData"])).into(),
        "created" => self::created,
        "cron-job-suspend" => |c| batch::cron_job_suspend(c.object).into(),
        "csi-token-requests" => |c| storage::token_requests(c.object).into(),
        "definition-established" => |c| {
            let conditions = c.object.items_at(&["status", "conditions"]);
            conditions.iter().any(|c| c.str_at(&["type"]) == "Established" && c.str_at(&["status"]) == "True").into()
        },
        "definition-versions" => |c| small_groups::definition_versions(c.object).into(),
        "deployment-selector" => |c| {
            // Unlike in other kinds, an empty selector prints as an empty string and an invalid one as `<invalid>`.
            cells::selector(c.value()).unwrap_or_else(|| "<invalid>".to_owned()).into()
        },
        "endpoint-slice-addresses" => |c| small_groups::endpoint_slice_addresses(c.object).into(),
        "endpoint-slice-ports" => |c| small_groups::endpoint_slice_ports(c.object).into(),
        "endpoints-addresses" => |c| services::addresses(c.object.items_at(&["subsets"])).into(),
        "event-count" => |c| core::event_count(c.object).into(),
        "event-first-seen" => |c| time::since(core::event_first_seen(c.object), c.now).into(),
        "event-last-seen" => |c| time::since(core::event_last_seen(c.object), c.now).into(),
        "event-message" => |c| c.object.str_at(&["message"]).trim().into(),
        "event-object" => |c| core::event_object(c.object).into(),
        "event-source" => |c| core::event_source(c.object).into(),
        "flow-schema-dangling" => |c| small_groups::flow_schema_dangling(c.object).into(),
        "ingress-class-parameters" => |c| networking::class_parameters(c.object).into(),
        "ingress-hosts" => |c| networking::hosts(c.object.items_at(&["spec", "rules"])).into(),
        "ingress-ports" => |c| if c.object.items_at(&["spec", "tls"]).is_empty() { "80" } else { "80, 443" }.into(),
        "ip-address-parent" => |c| networking::address_parent(c.object).into(),
        "job-completions" => |c| batch::job_completions(c.object).into(),
        "job-duration" => |c| batch::job_duration(c.object, c.now).into(),
        "job-status" => |c| batch::job_status(c.object).into(),
        "migration-resource" => |c| small_groups::migration_resource(c.object).into(),
        "migration-status" => |c| small_groups::migration_status(c.object).into(),
        "node-address" => |c| core::address(c.items(), c.word(1)).into(),
        "node-kernel" => |c| core::node_kernel(c.object).into(),
        "node-roles" => |c| core::node_roles(c.object).into(),
        "node-status" => |c| core::node_status(c.object).into(),
        "pod-certificate-state" => |c| {
            let last = c.object.items_at(&["status", "conditions"]).last();
            last.map_or("Pending", |condition| condition.str_at(&["type"])).into()
        },
        "pod-group-policy" => {
            |c| if c.object.at(&["spec", "schedulingPolicy", "gang"]).is_some() { "Gang" } else { "Basic" }.into()
        }
        "pod-group-status" => |c| small_groups::pod_group_status(c.object).into(),
        "pool-devices" => |c| resource::pool_devices(c.object, c.word(0)).into(),
        "pool-errors" => |c| resource::pool_errors(c.object).into(),
        "pool-request-completed" => |c| resource::pool_request_completed(c.object, c.now).into(),
        "pool-request-status" => |c| resource::pool_request_status(c.object).into(),
        "quota-limits" => |c| core::quotas(c.object, true).into(),
        "quota-requests" => |c| core::quotas(c.object, false).into(),
        "ready-replicas" => |c| {
            let (ready, wanted) = (&["status", "readyReplicas"], &["spec", "replicas"]);
            format!("{}/{}", cells::int(c.object, ready), cells::int(c.object, wanted)).into()
        },
        "resource-claim-state" => |c| resource::claim_state(c.object).into(),
        "revision-controller" => |c| apps::revision_controller(c.object).into(),
        "service-cluster-ip" => |c| services::cluster_ip(c.object).into(),
        "service-external-ip" => |c| services::external_ip(c.object).into(),
        "service-ports" => |c| services::ports(c.object).into(),
        "signing-request-duration" => |c| small_groups::signing_request_duration(c.object).into(),
        "signing-request-state" => |c| small_groups::signing_request_state(c.object).into(),
        "storage-class" => |c| core::storage_class(c.object).into(),
        "storage-versions" => |c| small_groups::storage_versions(c.object).into(),
        "subjects" => |c| small_groups::subjects(c.object, c.word(0)).into(),
        "volume-phase" => |c| core::volume_phase(c.object).into(),
        _ => return None,
    })
}
