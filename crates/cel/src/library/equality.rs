//! Cost estimates of `==` for the types of Kubernetes (upstream: `apiserver/pkg/cel/library/cost.go`).

use super::Library;
use crate::cost::{CallEstimate, CostEstimate, EstimatedCall, STRING_TRAVERSAL_COST_FACTOR, SizeEstimate};
use crate::function::Function;
use crate::types::Type;

/// The maximum size of a named format.
const MAX_FORMAT_SIZE: u64 = 64;

pub(super) fn library() -> Library {
    Library::of(vec![Function::new("_==_").cost_estimator(estimate)])
}

fn estimate(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let [a, b] = call.args else { return None };
    if a.ty != b.ty {
        return None;
    }
    let text = |max| SizeEstimate { min: 1, max }.times_factor(STRING_TRAVERSAL_COST_FACTOR);
    let cost = match &a.ty {
        Type::Opaque(name, _) if matches!(&**name, "net.IP" | "net.CIDR") => CostEstimate::fixed(1),
        Type::Object(name) => match &**name {
            "kubernetes.Quantity" | "kubernetes.Semver" => CostEstimate::fixed(1),
            "kubernetes.NamedFormat" => text(MAX_FORMAT_SIZE),
            "kubernetes.URL" => text(call.computed_size(b).map_or(1, |size| size.max)),
            name if name.starts_with("kubernetes.authorization.") => CostEstimate::fixed(1),
            _ => return None,
        },
        _ => return None,
    };
    Some(CallEstimate::cost(cost))
}
