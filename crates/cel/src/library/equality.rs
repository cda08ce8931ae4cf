//! What `==` may cost for the types of Kubernetes.

use super::Library;
use crate::cost::{CallEstimate, CallSizes, CostEstimate, PER_CHARACTER, SizeEstimate};
use crate::function::Function;
use crate::types::Type;

/// The longest that a named format counts as.
const LONGEST_FORMAT: u64 = 64;

pub(super) fn library() -> Library {
    Library::of(vec![Function::new("_==_").estimate(estimate)])
}

fn estimate(call: &CallSizes<'_>) -> Option<CallEstimate> {
    let [a, b] = call.args else { return None };
    if a.t != b.t {
        return None;
    }
    let text = |max| SizeEstimate { min: 1, max }.per_unit(PER_CHARACTER);
    let cost = match &a.t {
        Type::Opaque(name, _) if matches!(&**name, "net.IP" | "net.CIDR") => CostEstimate::fixed(1),
        Type::Object(name) => match &**name {
            "kubernetes.Quantity" | "kubernetes.Semver" => CostEstimate::fixed(1),
            "kubernetes.NamedFormat" => text(LONGEST_FORMAT),
            "kubernetes.URL" => text(call.known(b).map_or(1, |size| size.max)),
            name if name.starts_with("kubernetes.authorization.") => CostEstimate::fixed(1),
            _ => return None,
        },
        _ => return None,
    };
    Some(CallEstimate::cost(cost))
}
