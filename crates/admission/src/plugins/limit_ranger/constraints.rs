//! The constraints of an item of a limit range: minimum, maximum, and the ratio of limit to request. Quantities are
//! compared as 64-bit integers, as in upstream. They are compared in thousandths if all of them are small enough.

use pintle_kinds::{ResourceList, resource_list};
use pintle_value::Value;
use pintle_value::quantity::Quantity;

/// The largest quantity whose thousandths fit 64 bits (`resource.MaxMilliValue`).
const MAX_MILLI_VALUE: i64 = i64::MAX / 1000;

/// The quantities as integers of the same unit. A missing quantity is zero.
fn comparable<const N: usize>(quantities: [Option<&Quantity>; N]) -> [i64; N] {
    let values = quantities.map(|quantity| quantity.map_or(0, Quantity::value));
    if values.iter().all(|value| *value <= MAX_MILLI_VALUE) {
        return quantities.map(|quantity| quantity.map_or(0, Quantity::milli_value));
    }
    values
}

/// The requests and the limits of an object.
pub(super) struct Usage<'a> {
    /// The type of the limit range items that apply: `Container`, `Pod` or `PersistentVolumeClaim`.
    pub(super) limit_type: &'a str,
    pub(super) requests: ResourceList,
    pub(super) limits: ResourceList,
}

impl Usage<'_> {
    /// Checks all constraints of an item.
    pub(super) fn check(&self, item: &Value, errors: &mut Vec<String>) {
        self.each(item, "min", Self::check_min, errors);
        self.each(item, "max", Self::check_max, errors);
        self.each(item, "maxLimitRequestRatio", Self::check_ratio, errors);
    }

    /// Checks the minimum and the maximum of an item, for requests only.
    pub(super) fn check_requests(&self, item: &Value, errors: &mut Vec<String>) {
        self.each(item, "min", Self::check_min, errors);
        self.each(item, "max", Self::check_max_request, errors);
    }

    fn each(
        &self,
        item: &Value,
        field: &str,
        check: fn(&Self, &str, &Quantity) -> Result<(), String>,
        errors: &mut Vec<String>,
    ) {
        for (name, enforced) in resource_list(item, &[field]) {
            errors.extend(check(self, &name, &enforced).err());
        }
    }

    fn check_min(&self, name: &str, enforced: &Quantity) -> Result<(), String> {
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let [request_value, limit_value, enforced_value] = comparable([request, limit, Some(enforced)]);
        let introduction = format!("minimum {name} usage per {} is {enforced}", self.limit_type);
        match (request, limit) {
            (None, _) => Err(format!("{introduction}.  No request is specified")),
            (Some(request), _) if request_value < enforced_value => {
                Err(format!("{introduction}, but request is {request}"))
            }
            (_, Some(limit)) if limit_value < enforced_value => Err(format!("{introduction}, but limit is {limit}")),
            _ => Ok(()),
        }
    }

    fn check_max(&self, name: &str, enforced: &Quantity) -> Result<(), String> {
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let [request_value, limit_value, enforced_value] = comparable([request, limit, Some(enforced)]);
        let introduction = format!("maximum {name} usage per {} is {enforced}", self.limit_type);
        match (request, limit) {
            (_, None) => Err(format!("{introduction}.  No limit is specified")),
            (_, Some(limit)) if limit_value > enforced_value => Err(format!("{introduction}, but limit is {limit}")),
            (Some(request), _) if request_value > enforced_value => {
                Err(format!("{introduction}, but request is {request}"))
            }
            _ => Ok(()),
        }
    }

    fn check_max_request(&self, name: &str, enforced: &Quantity) -> Result<(), String> {
        let request = self.requests.get(name);
        let [request_value, enforced_value] = comparable([request, Some(enforced)]);
        let introduction = format!("maximum {name} usage per {} is {enforced}", self.limit_type);
        match request {
            None => Err(format!("{introduction}.  No request is specified")),
            Some(request) if request_value > enforced_value => Err(format!("{introduction}, but request is {request}")),
            Some(_) => Ok(()),
        }
    }

    fn check_ratio(&self, name: &str, enforced: &Quantity) -> Result<(), String> {
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let [request, limit, _] = comparable([request, limit, Some(enforced)]);
        let introduction = format!("{name} max limit to request ratio per {} is {enforced}", self.limit_type);
        if request == 0 {
            return Err(format!("{introduction}, but no request is specified or request is 0"));
        }
        if limit == 0 {
            return Err(format!("{introduction}, but no limit is specified or limit is 0"));
        }
        let ratio = as_float(limit) / as_float(request);
        let (compared, max) = match enforced.value() {
            ..=MAX_MILLI_VALUE => (ratio * 1000.0, enforced.milli_value()),
            value => (ratio, value),
        };
        if compared > as_float(max) {
            return Err(format!("{introduction}, but provided ratio is {ratio:.6}"));
        }
        Ok(())
    }
}

/// The nearest float.
#[allow(clippy::cast_precision_loss)] // as upstream compares
fn as_float(value: i64) -> f64 {
    value as f64
}
