//! The charges of a write to the quotas of its namespace, or the reason of its refusal (upstream: `CheckRequest` of
//! `apiserver/pkg/admission/plugin/resourcequota`).

use std::collections::BTreeSet;

use pintle_kinds::ResourceList;
use pintle_registry::GroupResource;
use pintle_value::Value;

use crate::evaluator::UnsetResources;
use crate::resource_list::{add, mask, print, subtract};
use crate::{EvaluatorRef, ObjectScopes, QuotaContext, QuotaFeatures, QuotaWrite, ResourceQuota, ScopeRequirement};

/// A resource that may not be used without a quota for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitedResource {
    /// The kind.
    pub resource: GroupResource,
    /// Texts in the names of the limited resources.
    pub match_contains: Vec<String>,
    /// Scopes that may not be used without a quota for the scope.
    pub match_scopes: Vec<ScopeRequirement>,
}

/// The usage of an object, and its scopes.
#[derive(Clone, Debug)]
struct Measurement {
    usage: ResourceList,
    scopes: ObjectScopes,
}

/// The properties of a write that matter for quotas.
pub struct MeasuredWrite {
    evaluator: EvaluatorRef,
    new: Measurement,
    old: Option<Measurement>,
    unset: UnsetResources,
    features: QuotaFeatures,
    is_of_status: bool,
}

/// Why a write is refused, with upstream's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaRefusal {
    /// The write is forbidden.
    Forbidden(String),
    /// The error has no status in upstream.
    Unclassified(String),
}

/// The usage that a write adds to a quota.
#[derive(Clone, Debug, PartialEq)]
pub struct Charge {
    /// The index of the quota.
    pub quota: usize,
    /// The added usage.
    pub usage: ResourceList,
}

impl MeasuredWrite {
    /// Measures a write.
    #[must_use]
    pub fn of(evaluator: EvaluatorRef, write: QuotaWrite<'_>, context: &dyn QuotaContext) -> Self {
        let measure =
            |object: &Value| Measurement { usage: evaluator.usage(object, context), scopes: evaluator.scopes(object) };
        let (new, old) = (measure(write.object), write.old.map(measure));
        let features = context.features();
        let unset = evaluator.unset_resources(write.object, features);
        Self { evaluator, new, old, unset, features, is_of_status: write.subresource == "status" }
    }

    /// True if objects of the kind that meet the requirements of a quota count towards one of its limits.
    fn is_counted(&self, object: &Measurement, quota: &ResourceQuota) -> Result<bool, String> {
        let is_limited = quota.counted_by(&*self.evaluator, self.features).next().is_some();
        Ok(object.scopes.match_all(&quota.requirements)? && is_limited)
    }

    /// The usage that the write adds to a quota that counts its new object.
    fn delta(&self, quota: &ResourceQuota) -> Result<ResourceList, String> {
        let delta = match &self.old {
            Some(old) if self.is_counted(old, quota)? => subtract(&self.new.usage, &old.usage),
            _ => self.new.usage.clone(),
        };
        Ok(without_zeros(delta))
    }

    /// The usage that the write adds to the namespace.
    fn delta_without_quota(&self) -> ResourceList {
        without_zeros(match &self.old {
            Some(old) => subtract(&self.new.usage, &old.usage),
            None => self.new.usage.clone(),
        })
    }

    /// The resources that the write uses although they may not be used without a quota.
    fn limited_names(&self, limited: &[LimitedResource]) -> BTreeSet<&str> {
        let kind = self.evaluator.resource();
        let mut names = BTreeSet::new();
        for limited in limited.iter().filter(|limited| limited.resource == kind) {
            let used = self.new.usage.iter().filter(|(_, quantity)| quantity.sign() > 0).map(|(name, _)| name.as_str());
            names.extend(used.filter(|name| limited.match_contains.iter().any(|text| name.contains(text))));
        }
        names
    }

    /// Checks that the containers set the resources that a quota limits.
    fn check_constraints(&self, limits: &BTreeSet<&str>) -> Result<(), String> {
        let unset = self.unset.iter().filter(|(limit, _)| limits.contains(*limit));
        let join = |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        let unset: Vec<String> = unset.map(|(limit, names)| format!("{limit} for: {}", join(names))).collect();
        if unset.is_empty() { Ok(()) } else { Err(format!("must specify {}", unset.join("; "))) }
    }
}

fn without_zeros(mut list: ResourceList) -> ResourceList {
    list.retain(|_, quantity| !quantity.is_zero());
    list
}

fn join<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(",")
}

/// Checks a write against the quotas of its namespace, and returns its charges. Quotas for which `is_charged` is true
/// have been charged already. They cover the write, and their limits are not checked again.
///
/// # Errors
/// The write is refused.
pub fn check_write(
    write: &MeasuredWrite,
    quotas: &[ResourceQuota],
    limited: &[LimitedResource],
    is_charged: impl Fn(&ResourceQuota) -> bool,
) -> Result<Vec<Charge>, QuotaRefusal> {
    let forbidden = |why: String| Err(QuotaRefusal::Forbidden(why));
    let unclassified = QuotaRefusal::Unclassified;
    let mut limited_scopes = Vec::new();
    for limited in limited {
        // Upstream admits the write if a selector of the configuration is invalid.
        match write.new.scopes.matching(&limited.match_scopes) {
            Ok(scopes) => limited_scopes.extend(scopes),
            Err(_) => return Ok(Vec::new()),
        }
    }
    let (mut covered_names, mut covered_scopes) = (BTreeSet::new(), BTreeSet::new());
    let mut matching = Vec::new();
    for (index, quota) in quotas.iter().enumerate() {
        let failed = |why| unclassified(format!("error matching scopes of quota {}, err: {why}", quota.name));
        let scopes = write.new.scopes.matching(&quota.requirements).map_err(failed)?;
        covered_scopes.extend(scopes.iter().map(|requirement| &requirement.scope));
        if !write.is_counted(&write.new, quota).map_err(unclassified)? {
            continue;
        }
        let limits: BTreeSet<&str> = quota.counted_by(&*write.evaluator, write.features).collect();
        if let Err(why) = write.check_constraints(&limits) {
            return forbidden(format!("failed quota: {}: {why}", quota.name));
        }
        if limits.iter().any(|limit| !quota.used.contains_key(*limit)) {
            return forbidden(format!("status unknown for quota: {}, resources: {}", quota.name, join(limits)));
        }
        covered_names.extend(limits);
        matching.push((index, quota));
    }
    let negative = write.new.usage.iter().filter(|(_, quantity)| quantity.sign() < 0);
    let negative: Vec<&str> = negative.map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        return forbidden(format!("quota usage is negative for resource(s): {}", join(negative)));
    }
    let mut deltas = Vec::new();
    for (index, quota) in &matching {
        let delta = write.delta(quota).map_err(unclassified)?;
        if !delta.is_empty() {
            deltas.push((*index, *quota, delta));
        }
    }
    let uses_nothing = match matching.is_empty() {
        true => write.delta_without_quota().is_empty(),
        false => deltas.is_empty(),
    };
    if uses_nothing {
        return Ok(Vec::new());
    }
    let uncovered: Vec<&str> =
        write.limited_names(limited).into_iter().filter(|name| !covered_names.contains(name)).collect();
    if !uncovered.is_empty() {
        return forbidden(format!("insufficient quota to consume: {}", join(uncovered)));
    }
    let uncovered: Vec<String> = limited_scopes
        .into_iter()
        .filter(|requirement| !covered_scopes.contains(&requirement.scope))
        .map(ToString::to_string)
        .collect();
    if !uncovered.is_empty() {
        return Err(unclassified(format!("insufficient quota to match these scopes: [{}]", uncovered.join(" "))));
    }
    let mut charges = Vec::new();
    for (index, quota, delta) in deltas {
        let usage = mask(&delta, |name| quota.hard.contains_key(name));
        if usage.is_empty() || is_charged(quota) {
            continue;
        }
        // Writes of a status are charged, but not refused.
        if !write.is_of_status {
            check_limits(quota, &usage).map_err(QuotaRefusal::Forbidden)?;
        }
        charges.push(Charge { quota: index, usage });
    }
    Ok(charges)
}

/// Checks that a quota has enough left for a request.
fn check_limits(quota: &ResourceQuota, requested: &ResourceList) -> Result<(), String> {
    let mut used = quota.used.clone();
    add(&mut used, requested);
    let is_exceeded = |name: &str| requested.contains_key(name) && used.get(name) > quota.hard.get(name);
    let exceeded = |list: &ResourceList| print(&mask(list, is_exceeded));
    if !requested.keys().any(|name| is_exceeded(name)) {
        return Ok(());
    }
    Err(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name,
        exceeded(requested),
        exceeded(&quota.used),
        exceeded(&quota.hard)
    ))
}

#[cfg(test)]
mod tests;
