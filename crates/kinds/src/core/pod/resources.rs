//! Compute resources of containers and pods: valid names, requests and limits, and the sum over the containers of a
//! pod. (Upstream: `validateResourceRequirements`, `validatePodResources`, and `AggregateContainerRequests` of
//! component-helpers.)

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use pintle_gates::{Change, Gates};
use pintle_value::quantity::Quantity;
use pintle_value::{ErrorKind, Errors, FieldError, FieldPath, Value, names};

use super::options::{PodOptions, is_sidecar};
use super::visitor::all_containers;
use crate::validation::{invalid_each, validate_dns_label};

/// The resources that may be set at the pod level; the item that ends in a dash is a prefix.
const POD_LEVEL: &[&str] = &["cpu", "hugepages-", "memory"];
const HUGE_PAGES: &str = "hugepages-";
pub(crate) const INTEGER_RESOURCES: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
const STANDARD_RESOURCES: &[&str] = &[
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "storage",
];

/// Quantities by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Returns a quantity of a normalized object; zero for any other value.
pub(crate) fn quantity(value: &Value) -> Quantity {
    Quantity::from_value(value).unwrap_or_default()
}

/// Returns true if a quantity is negative.
pub(crate) fn is_negative(value: &Value) -> bool {
    quantity(value).sign() < 0
}

/// Returns true if a quantity is not a whole number.
pub(crate) fn is_fractional(value: &Value) -> bool {
    quantity(value).milli_value() % 1000 != 0
}

/// Returns the resource list at a path.
#[must_use]
pub fn resource_list(object: &Value, path: &[&str]) -> ResourceList {
    object.entries_at(path).map(|(name, value)| (name.to_owned(), quantity(value))).collect()
}

/// Returns true for native resource names, which have no domain or the domain `kubernetes.io`.
#[must_use]
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Returns true for extended resources, such as devices of plugins.
#[must_use]
pub fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Returns true if the requests of the resource may be lower than its limits.
pub(crate) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

/// Returns true if the resource may be set at the pod level.
#[must_use]
pub fn is_pod_level(name: &str) -> bool {
    POD_LEVEL.contains(&name) || name.starts_with(HUGE_PAGES)
}

fn is_standard(name: &str) -> bool {
    INTEGER_RESOURCES.contains(&name)
        || STANDARD_RESOURCES.contains(&name)
        || name.starts_with(HUGE_PAGES)
        || name.starts_with("requests.hugepages-")
}

fn is_divisible(name: &str, amount: &Quantity) -> bool {
    let Some(Ok(page)) = name.strip_prefix(HUGE_PAGES).map(Quantity::parse) else { return false };
    page.sign() > 0
        && page.milli_value() % 1000 == 0
        && amount.value().checked_rem(page.value()).is_some_and(|rest| rest == 0)
}

/// Returns true if a container or the overhead has a quantity of huge pages that is no multiple of the page size.
pub(crate) fn has_indivisible_huge_pages(spec: &Value) -> bool {
    let broken = |object: &Value, path: &[&str]| {
        object
            .entries_at(path)
            .any(|(name, value)| name.starts_with(HUGE_PAGES) && !is_divisible(name, &quantity(value)))
    };
    broken(spec, &["overhead"])
        || all_containers(spec).any(|c| broken(c, &["resources", "limits"]) || broken(c, &["resources", "requests"]))
}

pub(crate) fn validate_name(errors: &mut Errors, name: &str, path: &FieldPath<'_>) -> bool {
    let problems = names::qualified_name(name);
    let qualified = problems.is_empty();
    invalid_each(errors, path, name, problems);
    if qualified && !name.contains('/') && !is_standard(name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
        return false;
    }
    qualified
}

pub(crate) fn validate_container_resource_name(errors: &mut Errors, name: &str, path: &FieldPath<'_>) {
    validate_name(errors, name, path);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !name.starts_with(HUGE_PAGES) {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

fn validate_pod_resource_name(errors: &mut Errors, name: &str, path: &FieldPath<'_>) {
    if validate_name(errors, name, path) && !is_pod_level(name) {
        errors.not_supported(path, name, POD_LEVEL);
    }
}

/// Rejects negative quantities, and fractions of integer resources.
pub(crate) fn validate_quantity(errors: &mut Errors, name: &str, amount: &Quantity, path: &FieldPath<'_>) {
    if amount.sign() < 0 {
        errors.invalid(path, amount.to_string(), "must be greater than or equal to 0");
    }
    if (INTEGER_RESOURCES.contains(&name) || is_extended(name)) && amount.milli_value() % 1000 != 0 {
        errors.invalid(path, amount.to_string(), "must be an integer");
    }
}

/// Validates the resources of a container.
pub(crate) fn validate_container_resources(
    errors: &mut Errors,
    resources: &Value,
    claims: &BTreeSet<&str>,
    options: &PodOptions,
    path: &FieldPath<'_>,
) {
    validate_requirements(errors, resources, validate_container_resource_name, claims, options, path);
}

/// Validates the overhead of a pod. Like upstream, treats it as the limits of a container.
pub(crate) fn validate_overhead(errors: &mut Errors, overhead: &Value, options: &PodOptions, path: &FieldPath<'_>) {
    let mut requirements = Value::object();
    requirements.set("limits", overhead.clone());
    validate_container_resources(errors, &requirements, &BTreeSet::new(), options, path);
}

fn validate_requirements(
    errors: &mut Errors,
    resources: &Value,
    validate_name: fn(&mut Errors, &str, &FieldPath<'_>),
    claims: &BTreeSet<&str>,
    options: &PodOptions,
    path: &FieldPath<'_>,
) {
    let quantities = |kind| -> Vec<(&str, Quantity)> {
        resources.entries_at(&[kind]).map(|(name, value)| (name, quantity(value))).collect()
    };
    let (limits, requests) = (quantities("limits"), quantities("requests"));
    let limits_path = path.child("limits");
    let requests_path = path.child("requests");
    let whole_pages = |errors: &mut Errors, name: &str, amount: &Quantity, path: &FieldPath<'_>| {
        if name.starts_with(HUGE_PAGES) && !options.indivisible_huge_pages && !is_divisible(name, amount) {
            let detail = format!("{amount} is not positive integer multiple of {name}");
            errors.invalid(path, amount.to_string(), detail);
        }
    };
    for (name, amount) in &limits {
        let path = limits_path.key(name);
        validate_name(errors, name, &path);
        validate_quantity(errors, name, amount, &path);
        whole_pages(errors, name, amount, &path);
    }
    for (name, amount) in &requests {
        let path = requests_path.key(name);
        validate_name(errors, name, &path);
        validate_quantity(errors, name, amount, &path);
        let limit = limits.binary_search_by_key(name, |(limited, _)| limited).ok().map(|i| &limits[i].1);
        match limit {
            Some(limit) => {
                let order = amount.cmp(limit);
                let relation = if order != Ordering::Equal && !is_overcommit_allowed(name) {
                    Some("equal to")
                } else if order == Ordering::Greater {
                    Some("less than or equal to")
                } else {
                    None
                };
                if let Some(relation) = relation {
                    let detail = format!("must be {relation} {name} limit of {limit}");
                    errors.invalid(&requests_path, amount.to_string(), detail);
                }
            }
            None if !is_overcommit_allowed(name) => {
                errors.required(&limits_path, "Limit must be set for non overcommitable resources");
            }
            None => {}
        }
        whole_pages(errors, name, amount, &path);
    }
    let has = |wanted: &dyn Fn(&str) -> bool| limits.iter().chain(&requests).any(|(name, _)| wanted(name));
    if has(&|name| name.starts_with(HUGE_PAGES)) && !has(&|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
    validate_claim_names(errors, resources.items_at(&["claims"]), claims, &path.child("claims"));
}

/// Validates that the claims that a container refers to exist in the pod and are unique.
fn validate_claim_names(errors: &mut Errors, claims: &[Value], known: &BTreeSet<&str>, list: &FieldPath<'_>) {
    /// The maximum number of errors that list all valid names. Further errors omit the list, which may be long.
    const MAX_ERRORS_WITH_NAMES: usize = 32;
    let names = || known.iter().copied().collect::<Vec<_>>().join(", ");
    // The claims that are referenced as a whole, and the referenced requests of the other claims.
    let mut whole: BTreeSet<&str> = BTreeSet::new();
    let mut requests: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut unknown = 0;
    for (i, claim) in claims.iter().enumerate() {
        let path = list.index(i);
        let name = claim.str_at(&["name"]);
        let request = claim.str_at(&["request"]);
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        if whole.contains(name) {
            errors.duplicate(&path, name);
        } else if request.is_empty() {
            // Every earlier reference to a request of the claim conflicts with the reference to the whole claim.
            for _ in requests.get(name).into_iter().flatten() {
                errors.duplicate(&path, name);
            }
            whole.insert(name);
        } else {
            validate_dns_label(errors, &path.child("request"), request);
            if !requests.entry(name).or_default().insert(request) {
                errors.duplicate(&path, format!("{name}/{request}"));
            }
        }
        if !known.contains(name) {
            unknown += 1;
            let mut detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            if known.is_empty() {
                detail.push_str(" which is empty");
            } else if unknown <= MAX_ERRORS_WITH_NAMES {
                detail = format!("{detail}: {}", names());
            }
            errors.push(FieldError::new(ErrorKind::NotFound, &path, name, detail));
        }
    }
}

/// Validates the pod-level resources.
pub(crate) fn validate_pod_resources(
    errors: &mut Errors,
    spec: &Value,
    claims: &BTreeSet<&str>,
    options: &PodOptions,
    spec_path: &FieldPath<'_>,
) {
    let Some(resources) = spec.get("resources").filter(|_| !options.any_pod_resources) else { return };
    let path = spec_path.child("resources");
    if spec.str_at(&["os", "name"]) == "windows" {
        errors.forbidden(&path, "may not be set for a windows pod");
        return;
    }
    if resources.get("claims").is_some() {
        errors.forbidden(&path.child("claims"), "claims may not be set for Resources at pod-level");
    }
    validate_requirements(errors, resources, validate_pod_resource_name, claims, options, &path);

    let requests = resource_list(resources, &["requests"]);
    let limits = resource_list(resources, &["limits"]);
    let requests_path = path.child("requests");
    for (name, sum) in aggregate_container_resources(spec, "requests") {
        if let Some(whole) = requests.get(&name).filter(|whole| sum.cmp(whole) == Ordering::Greater) {
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.invalid(&requests_path.key(&name), whole.to_string(), detail);
        }
    }
    let limits_path = path.child("limits");
    for (name, sum) in
        aggregate_container_resources(spec, "limits").into_iter().filter(|(name, _)| name.starts_with(HUGE_PAGES))
    {
        if let Some(whole) = limits.get(&name).filter(|whole| sum.cmp(whole) == Ordering::Greater) {
            let detail = format!("must be greater than or equal to aggregate container limits of {sum}");
            errors.invalid(&limits_path.key(&name), whole.to_string(), detail);
        }
    }
    let containers = path.child("containers");
    for (i, container) in spec.items_at(&["containers"]).iter().enumerate() {
        for (name, limit) in resource_list(container, &["resources", "limits"]) {
            if let Some(whole) = limits.get(&name).filter(|whole| limit.cmp(whole) == Ordering::Greater) {
                let path = containers.index(i);
                let path = path.key(&name);
                let detail = format!("must be less than or equal to pod limits of {whole}");
                errors.invalid(&path.child("limits"), limit.to_string(), detail);
            }
        }
    }
}

/// Returns the resources that the containers of a pod need together. They are the sum of the containers that run in
/// parallel. If an init container and the sidecars before it need more, that requirement counts. `kind` is `requests`
/// or `limits`.
#[must_use]
pub fn aggregate_container_resources(spec: &Value, kind: &str) -> ResourceList {
    aggregate_resources(spec, |container, _| resource_list(container, &["resources", kind]))
}

/// Like [`aggregate_container_resources`], with the resources that `resources_of` returns for each container. Its
/// second argument says whether the container runs as long as the pod.
pub fn aggregate_resources(spec: &Value, resources_of: impl Fn(&Value, bool) -> ResourceList) -> ResourceList {
    let mut total = ResourceList::new();
    for container in spec.items_at(&["containers"]) {
        add_resource_list(&mut total, &resources_of(container, true));
    }
    let mut sidecars = ResourceList::new();
    let mut starting = ResourceList::new();
    for container in spec.items_at(&["initContainers"]) {
        let is_sidecar = is_sidecar(container);
        let own = resources_of(container, is_sidecar);
        if is_sidecar {
            add_resource_list(&mut total, &own);
            add_resource_list(&mut sidecars, &own);
            max_resource_list(&mut starting, &sidecars);
        } else {
            let mut here = own;
            add_resource_list(&mut here, &sidecars);
            max_resource_list(&mut starting, &here);
        }
    }
    max_resource_list(&mut total, &starting);
    total
}

fn add_resource_list(list: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        match list.get_mut(name) {
            Some(sum) => sum.add(amount),
            None => {
                list.insert(name.clone(), amount.clone());
            }
        }
    }
}

/// Replaces quantities by the greater quantities of another list.
pub fn max_resource_list(list: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        if list.get(name).is_none_or(|present| amount.cmp(present) == Ordering::Greater) {
            list.insert(name.clone(), amount.clone());
        }
    }
}

/// The resources that decide the quality of service.
const QOS_RESOURCES: [&str; 2] = ["cpu", "memory"];

/// True if a pod has requests or limits as a whole.
pub(crate) fn has_pod_resources(spec: &Value) -> bool {
    ["requests", "limits"].iter().any(|kind| spec.at(&["resources", kind]).is_some_and(|list| !list.is_empty()))
}

/// Returns the quality of service class of a pod (upstream: `ComputePodQOS`).
#[must_use]
pub fn qos_class(gates: &Gates, spec: &Value) -> &'static str {
    let mut guaranteed = true;
    let mut totals: [[Option<Quantity>; 2]; 2] = Default::default();
    let mut count = |resources: &Value, limits_decide: bool| {
        for (total, kind) in totals.iter_mut().zip(["requests", "limits"]) {
            for (sum, name) in total.iter_mut().zip(QOS_RESOURCES) {
                let amount = resources.at(&[kind, name]).map(quantity).filter(|amount| amount.sign() > 0);
                match (sum, amount) {
                    (Some(sum), Some(amount)) => sum.add(&amount),
                    (sum, Some(amount)) => *sum = Some(amount),
                    (_, None) => guaranteed &= kind != "limits" || !limits_decide,
                }
            }
        }
    };
    let counts = |_: &&Value| has_pod_resources(spec) || !gates.has(Change::EMPTY_POD_RESOURCES_DO_NOT_COUNT);
    if let Some(resources) = spec.get("resources").filter(counts) {
        let has_limits = resources.get("limits").is_some_and(|limits| !limits.is_empty());
        count(resources, has_limits);
    } else {
        for container in spec.items_at(&["containers"]).iter().chain(spec.items_at(&["initContainers"])) {
            count(&container["resources"], true);
        }
    }
    let [requests, limits] = totals;
    if requests.iter().chain(&limits).all(Option::is_none) {
        return "BestEffort";
    }
    let is_equal = |(request, limit): (&Option<Quantity>, &Option<Quantity>)| match (request, limit) {
        (Some(request), Some(limit)) => request.cmp(limit) == Ordering::Equal,
        (request, limit) => request.is_none() && limit.is_none(),
    };
    if guaranteed && requests.iter().zip(&limits).all(is_equal) { "Guaranteed" } else { "Burstable" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context_of, messages, object};

    #[test]
    fn qos_class_matches_upstream() {
        let check =
            |spec: &str, expect: &str| assert_eq!(qos_class(&Gates::default(), &object(spec)), expect, "{spec}");
        check(r#"{"containers":[{"resources":{}}]}"#, "BestEffort");
        check(r#"{"containers":[{"resources":{"requests":{"cpu":"0","nvidia.com/gpu":"1"}}}]}"#, "BestEffort");
        check(r#"{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}"#, "Burstable");
        let full = r#"{"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1000m","memory":"1Gi"}}}"#;
        check(&format!(r#"{{"containers":[{full}]}}"#), "Guaranteed");
        check(&format!(r#"{{"containers":[{full},{{"resources":{{}}}}]}}"#), "Burstable");
        check(r#"{"containers":[{}],"resources":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}}"#, "Burstable");
        check(
            r#"{"containers":[{}],"resources":{"limits":{"cpu":"1","memory":"1"},"requests":{"cpu":"1","memory":"1"}}}"#,
            "Guaranteed",
        );
    }

    #[test]
    fn empty_pod_resources_do_not_count_since_1_37() {
        for resources in ["{}", r#"{"requests":{}}"#, r#"{"limits":{}}"#] {
            let spec = object(&format!(
                r#"{{"containers":[{{"resources":{{"requests":{{"cpu":"1"}}}}}}],"resources":{resources}}}"#
            ));
            for (minor, expect) in [(36, "BestEffort"), (37, "Burstable")] {
                assert_eq!(qos_class(&context_of(minor, &[]).gates, &spec), expect, "{resources} in {minor}");
            }
        }
    }

    #[test]
    fn aggregation_includes_init_containers() {
        let check = |spec: &str, expect: &str| {
            let sum = aggregate_container_resources(&object(spec), "requests");
            assert_eq!(sum.get("cpu").map(ToString::to_string).unwrap_or_default(), expect, "{spec}");
        };
        let c = |cpu: &str| format!(r#"{{"resources":{{"requests":{{"cpu":"{cpu}"}}}}}}"#);
        let sidecar = |cpu: &str| c(cpu).replacen('{', r#"{"restartPolicy":"Always","#, 1);
        check(&format!(r#"{{"containers":[{},{}]}}"#, c("1"), c("500m")), "1500m");
        check(&format!(r#"{{"containers":[{}],"initContainers":[{}]}}"#, c("1"), c("3")), "3");
        check(&format!(r#"{{"containers":[{}],"initContainers":[{},{}]}}"#, c("1"), sidecar("1"), c("3")), "4");
        check(&format!(r#"{{"containers":[{}],"initContainers":[{},{}]}}"#, c("1"), c("1"), sidecar("1")), "2");
    }

    #[test]
    fn requirements() {
        let check = |resources: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            let known = BTreeSet::from(["a"]);
            let options = PodOptions::default();
            validate_container_resources(&mut errors, &object(resources), &known, &options, &FieldPath::new("r"));
            assert_eq!(messages(&errors), expect, "{resources}");
        };
        check(r#"{"limits":{"cpu":"1","example.com/x":"1"},"requests":{"cpu":"1","example.com/x":"1"}}"#, &[]);
        check(
            r#"{"limits":{"cpu":"1"},"requests":{"cpu":"2"}}"#,
            &["r.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"],
        );
        check(
            r#"{"limits":{"cpus":"-1"}}"#,
            &[
                "r.limits[cpus]: Invalid value: \"cpus\": must be a standard resource type or fully qualified",
                "r.limits[cpus]: Invalid value: \"cpus\": must be a standard resource for containers",
                "r.limits[cpus]: Invalid value: \"-1\": must be greater than or equal to 0",
            ],
        );
        check(
            r#"{"requests":{"example.com/x":"500m"}}"#,
            &[
                "r.requests[example.com/x]: Invalid value: \"500m\": must be an integer",
                "r.limits: Required value: Limit must be set for non overcommitable resources",
            ],
        );
        check(
            r#"{"limits":{"hugepages-2Mi":"3Mi"}}"#,
            &[
                "r.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                "r: Forbidden: HugePages require cpu or memory",
            ],
        );
        check(
            r#"{"claims":[{"name":"a"},{"name":"a"},{"name":"b","request":"r"}]}"#,
            &[
                "r.claims[1]: Duplicate value: \"a\"",
                "r.claims[2]: Not found: \"b\": must be one of the names in pod.spec.resourceClaims: a",
            ],
        );
    }
}
