//! The strategy for Ingress (upstream: `pkg/apis/networking/validation`, `pkg/registry/networking/ingress`).

use pintle_gates::{Feature, Gates};
use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy, UnservedVersion};
use pintle_value::{Errors, FieldPath, Value, names};

use super::address::parse_ip;
use super::load_balancer::{LoadBalancerStatusStrategy, empty_status};
use super::{REFERENCE, stored};
use crate::generic::{SPEC, reset_status, set_generation};
use crate::validation::{invalid_each, str_field, strings_at};

/// The annotation that preceded `ingressClassName`.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
const BAD_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const BAD_ENDINGS: [&str; 2] = ["/..", "/."];

/// The strategy for Ingress.
pub(crate) struct IngressStrategy;

static STATUS: LoadBalancerStatusStrategy =
    LoadBalancerStatusStrategy { forbidden_reason: |_| None, check_ingress_point: |_, _, _| {} };

impl Strategy for IngressStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &stored::INGRESSES
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, empty_status());
        set_generation(object, old, SPEC);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = check_spec(object, IngressValidationOptions::of(&context.gates, old));
        let class = str_field(&object["spec"], "ingressClassName").filter(|_| old.is_none());
        if let (Some(annotation), Some(class)) = (object.annotation(CLASS_ANNOTATION), class)
            && annotation != class
        {
            let annotations = FieldPath::new("annotations");
            let problem = "must match `ingressClassName` when both are specified";
            errors.invalid(&annotations.child(CLASS_ANNOTATION), annotation, problem);
        }
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        let by_annotation =
            object.annotation(CLASS_ANNOTATION).is_some() && str_field(&object["spec"], "ingressClassName").is_none();
        if old.is_none() && by_annotation {
            let annotation = pintle_value::field::quote(CLASS_ANNOTATION);
            return vec![format!("annotation {annotation} is deprecated, please use 'spec.ingressClassName' instead")];
        }
        Vec::new()
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

/// Faults of the old object, which the new one may keep.
#[derive(Clone, Copy, Default)]
struct IngressValidationOptions {
    secret_names: bool,
    /// True if the names of services may begin with a digit.
    relaxed_service_names: bool,
    wildcard_rules: bool,
}

impl IngressValidationOptions {
    fn of(gates: &Gates, old: Option<&Value>) -> Self {
        let relaxed_service_names = gates.is_enabled(Feature::RELAXED_SERVICE_NAME_VALIDATION);
        let Some(old) = old else { return Self { relaxed_service_names, ..Self::default() } };
        let relaxed_service_names = relaxed_service_names || service_names(old).any(is_relaxed_name);
        let options = Self { relaxed_service_names, ..Self::default() };
        let secret_names = old
            .items_at(&["spec", "tls"])
            .iter()
            .any(|tls| !secret_name_errors(tls.str_at(&["secretName"])).is_empty());
        let wildcard_rules = old.items_at(&["spec", "rules"]).iter().any(|rule| {
            let mut errors = Errors::new();
            check_http(&mut errors, &FieldPath::root(), rule, options);
            rule.str_at(&["host"]).contains('*') && !errors.is_empty()
        });
        Self { secret_names, wildcard_rules, ..options }
    }
}

/// The names of the services to which an ingress refers.
fn service_names(ingress: &Value) -> impl Iterator<Item = &str> {
    let rules = ingress.items_at(&["spec", "rules"]).iter();
    let backends = rules.flat_map(|rule| rule.items_at(&["http", "paths"])).filter_map(|path| path.get("backend"));
    backends.chain(ingress.at(&["spec", "defaultBackend"])).map(|backend| backend.str_at(&["service", "name"]))
}

/// True for a name that services may only have since the rules for their names are relaxed.
fn is_relaxed_name(name: &str) -> bool {
    !name.is_empty()
        && names::dns1123_label_name(name, false).is_empty()
        && !names::dns1035_label_name(name, false).is_empty()
}

fn secret_name_errors(name: &str) -> Vec<String> {
    if name.is_empty() { Vec::new() } else { names::dns1123_subdomain_name(name, false) }
}

fn check_spec(ingress: &Value, options: IngressValidationOptions) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    let spec = &ingress["spec"];
    let rules = spec.items_at(&["rules"]);
    let default_backend = spec.get("defaultBackend");
    if rules.is_empty() && default_backend.is_none() {
        errors.invalid(&path, Value::Null, "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(backend) = default_backend {
        check_backend(&mut errors, &path.child("defaultBackend"), backend, options);
    }
    let rules_path = path.child("rules");
    for (i, rule) in rules.iter().enumerate() {
        let path = rules_path.index(i);
        let host = rule.str_at(&["host"]);
        check_host(&mut errors, &path.child("host"), host);
        if !(host.contains('*') && options.wildcard_rules) {
            check_http(&mut errors, &path, rule, options);
        }
    }
    let tls_path = path.child("tls");
    for (i, tls) in spec.items_at(&["tls"]).iter().enumerate() {
        let path = tls_path.index(i);
        let hosts = path.child("hosts");
        for (i, host) in strings_at(tls, &["hosts"]).into_iter().enumerate() {
            invalid_each(&mut errors, &hosts.index(i), host, host_name_errors(host));
        }
        if !options.secret_names {
            let name = tls.str_at(&["secretName"]);
            invalid_each(&mut errors, &path.child("secretName"), name, secret_name_errors(name));
        }
    }
    if let Some(class) = str_field(spec, "ingressClassName") {
        let problems = names::dns1123_subdomain_name(class, false);
        invalid_each(&mut errors, &path.child("ingressClassName"), class, problems);
    }
    errors
}

fn host_name_errors(host: &str) -> Vec<String> {
    if host.contains('*') { names::wildcard_dns1123_subdomain(host) } else { names::dns1123_subdomain(host) }
}

fn check_host(errors: &mut Errors, path: &FieldPath<'_>, host: &str) {
    if host.is_empty() {
        return;
    }
    if parse_ip(host).is_some() {
        errors.invalid(path, host, "must be a DNS name, not an IP address");
    }
    invalid_each(errors, path, host, host_name_errors(host));
}

fn check_http(errors: &mut Errors, path: &FieldPath<'_>, rule: &Value, options: IngressValidationOptions) {
    let Some(http) = rule.get("http") else { return };
    let http_path = path.child("http");
    let paths_path = http_path.child("paths");
    let paths = http.items_at(&["paths"]);
    if paths.is_empty() {
        errors.required(&paths_path, "");
    }
    for (i, item) in paths.iter().enumerate() {
        check_path(errors, &paths_path.index(i), item, options);
    }
}

fn check_path(errors: &mut Errors, path: &FieldPath<'_>, item: &Value, options: IngressValidationOptions) {
    let Some(kind) = str_field(item, "pathType") else {
        errors.required(&path.child("pathType"), "pathType must be specified");
        return;
    };
    let url = item.str_at(&["path"]);
    let url_path = path.child("path");
    match kind {
        "Exact" | "Prefix" => {
            if !url.starts_with('/') {
                errors.invalid(&url_path, url, "must be an absolute path");
            }
            for bad in BAD_SEQUENCES.into_iter().filter(|bad| url.contains(bad)) {
                errors.invalid(&url_path, url, format!("must not contain '{bad}'"));
            }
            for bad in BAD_ENDINGS.into_iter().filter(|bad| url.ends_with(bad)) {
                errors.invalid(&url_path, url, format!("cannot end with '{bad}'"));
            }
        }
        "ImplementationSpecific" => {
            if !url.is_empty() && !url.starts_with('/') {
                errors.invalid(&url_path, url, "must be an absolute path");
            }
        }
        _ => errors.not_supported(&path.child("pathType"), kind, &PATH_TYPES),
    }
    check_backend(errors, &path.child("backend"), &item["backend"], options);
}

fn check_backend(errors: &mut Errors, path: &FieldPath<'_>, backend: &Value, options: IngressValidationOptions) {
    match (backend.get("resource"), backend.get("service")) {
        (Some(_), Some(_)) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (Some(resource), None) => REFERENCE.validate_part(errors, resource, &path.child("resource")),
        (None, Some(service)) => check_service(errors, path, service, options),
        (None, None) => errors.invalid(path, "", "resource or service backend is required"),
    }
}

/// Validates a service and its port. `path` is the path of the backend, at which upstream reports a missing port.
fn check_service(errors: &mut Errors, path: &FieldPath<'_>, service: &Value, options: IngressValidationOptions) {
    let service_path = path.child("service");
    let name = service.str_at(&["name"]);
    if name.is_empty() {
        errors.required(&service_path.child("name"), "");
    } else {
        let problems = match options.relaxed_service_names {
            true => names::dns1123_label_name(name, false),
            false => names::dns1035_label_name(name, false),
        };
        invalid_each(errors, &service_path.child("name"), name, problems);
    }
    let port_path = service_path.child("port");
    let port_name = service.str_at(&["port", "name"]);
    let number = service.int_at(&["port", "number"]).unwrap_or(0);
    match (!port_name.is_empty(), number != 0) {
        (true, true) => errors.invalid(path, "", "cannot set both port name & port number"),
        (true, false) => invalid_each(errors, &port_path.child("name"), port_name, names::port_name(port_name)),
        (false, true) => invalid_each(errors, &port_path.child("number"), number, names::port_number(number)),
        (false, false) => errors.required(path, "port name or number is required"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, gated_context, messages, object};

    fn check(json: &str, expect: &[&str]) {
        assert_eq!(messages(&IngressStrategy.validate(&context(), &object(json))), expect, "{json}");
    }

    #[test]
    fn names_of_services_follow_their_gate() {
        let ingress = |name: &str| {
            let backend = format!(r#"{{"service":{{"name":"{name}","port":{{"number":80}}}}}}"#);
            object(&format!(r#"{{"spec":{{"defaultBackend":{backend}}}}}"#))
        };
        let off = gated_context(&[("RelaxedServiceNameValidation", false)]);
        assert!(IngressStrategy.validate(&context(), &ingress("1a")).is_empty());
        let errors = messages(&IngressStrategy.validate(&off, &ingress("1a")));
        assert!(errors[0].starts_with("spec.defaultBackend.service.name: Invalid value: \"1a\": a DNS-1035 label"));
        assert!(!IngressStrategy.validate_update(&off, &ingress("1a"), &ingress("a")).is_empty());
        assert!(IngressStrategy.validate_update(&off, &ingress("2a"), &ingress("1a")).is_empty());
    }

    #[test]
    fn an_ingress_requires_a_backend() {
        check(r#"{"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}"#, &[]);
        check(r#"{"spec":{}}"#, &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]);
        check(
            r#"{"spec":{"defaultBackend":{}}}"#,
            &["spec.defaultBackend: Invalid value: \"\": resource or service backend is required"],
        );
        check(
            r#"{"spec":{"defaultBackend":{"service":{"name":"s","port":{}},"resource":{}}}}"#,
            &["spec.defaultBackend: Invalid value: \"\": cannot set both resource and service backends"],
        );
        check(
            r#"{"spec":{"defaultBackend":{"service":{"name":"","port":{}}}}}"#,
            &[
                "spec.defaultBackend.service.name: Required value",
                "spec.defaultBackend: Required value: port name or number is required",
            ],
        );
        check(
            r#"{"spec":{"defaultBackend":{"service":{"name":"1s","port":{"number":70000,"name":"x"}}}}}"#,
            &["spec.defaultBackend: Invalid value: \"\": cannot set both port name & port number"],
        );
        check(
            r#"{"spec":{"defaultBackend":{"resource":{"kind":"","name":"a/b"}}}}"#,
            &[
                "spec.defaultBackend.resource.kind: Required value",
                "spec.defaultBackend.resource.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        );
    }

    #[test]
    fn paths() {
        let with = |path: &str| {
            format!(
                r#"{{"spec":{{"rules":[{{"host":"*.example.com","http":{{"paths":[{{{path}"backend":{{"service":{{"name":"s","port":{{"name":"http"}}}}}}}}]}}}}]}}}}"#
            )
        };
        let check = |path: &str, expect: &[&str]| {
            let expect: Vec<String> = expect.iter().map(|e| format!("spec.rules[0].http.paths[0].{e}")).collect();
            check(&with(path), &expect.iter().map(String::as_str).collect::<Vec<_>>());
        };
        check(r#""pathType":"Prefix","path":"/","#, &[]);
        check("", &["pathType: Required value: pathType must be specified"]);
        check(
            r#""pathType":"Regex","#,
            &[
                "pathType: Unsupported value: \"Regex\": supported values: \"Exact\", \"ImplementationSpecific\", \"Prefix\"",
            ],
        );
        check(
            r#""pathType":"Exact","path":"a//b/..","#,
            &[
                "path: Invalid value: \"a//b/..\": must be an absolute path",
                "path: Invalid value: \"a//b/..\": must not contain '//'",
                "path: Invalid value: \"a//b/..\": cannot end with '/..'",
            ],
        );
        check(r#""pathType":"ImplementationSpecific","#, &[]);
    }

    #[test]
    fn hosts_and_classes() {
        let backend = r#""defaultBackend":{"service":{"name":"s","port":{"number":80}}}"#;
        check(
            &format!(r#"{{"spec":{{{backend},"rules":[{{"host":"10.0.0.1"}}]}}}}"#),
            &["spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address"],
        );
        let classes = format!(
            r#"{{"metadata":{{"annotations":{{"kubernetes.io/ingress.class":"a"}}}},"spec":{{{backend},"ingressClassName":"b"}}}}"#
        );
        check(
            &classes,
            &[
                "annotations.kubernetes.io/ingress.class: Invalid value: \"a\": must match `ingressClassName` when both are specified",
            ],
        );
        let by_annotation = object(r#"{"metadata":{"annotations":{"kubernetes.io/ingress.class":"a"}},"spec":{}}"#);
        assert_eq!(
            IngressStrategy.warnings(&context(), &by_annotation, None),
            ["annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead",]
        );
    }

    #[test]
    fn the_status_subresource_is_validated() {
        let old = object(r#"{"spec":{"a":1},"status":{"loadBalancer":{"ingress":[{"ip":"10.0.0.01"}]}}}"#);
        let mut new = object(
            r#"{"spec":{"a":2},"status":{"loadBalancer":{"ingress":[{"ip":"10.0.0.01"},{"ip":"x"},{"hostname":"10.0.0.1"}]}}}"#,
        );
        STATUS.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new["spec"], old["spec"]);
        assert_eq!(
            messages(&STATUS.validate_update(&context(), &new, &old)),
            [
                "status.loadBalancer.ingress[1].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "status.loadBalancer.ingress[2].hostname: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address",
            ]
        );
        assert_eq!(
            STATUS.warnings(&context(), &new, &old),
            ["status.loadBalancer.ingress[0]: non-standard IP address \"10.0.0.01\" is invalid: use \"10.0.0.1\"",]
        );
        let mut created = object(r#"{"spec":{},"status":{"loadBalancer":{"ingress":[{}]}}}"#);
        IngressStrategy.prepare_for_create(&context(), &mut created);
        assert_eq!(created, object(r#"{"metadata":{"generation":1},"spec":{},"status":{"loadBalancer":{}}}"#));
    }

    #[test]
    fn invalid_values_of_the_old_object_are_tolerated() {
        let old = object(r#"{"spec":{"rules":[{"host":"*.a.b","http":{"paths":[]}}],"tls":[{"secretName":"UPPER"}]}}"#);
        assert!(IngressStrategy.validate_update(&context(), &old, &old).is_empty());
        assert_eq!(IngressStrategy.validate(&context(), &old).count(), 2);
    }
}
