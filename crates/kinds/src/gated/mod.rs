//! Drops the fields of disabled features from written objects, unless the old object uses the feature. (Upstream:
//! `DropDisabledPodFields`, `DropDisabledTemplateFields` and the functions `dropDisabledFields` of the strategies.) The
//! fields are data: see `fields.txt`. A strategy drops further fields by its own rules.

mod path;

use std::sync::OnceLock;

use pintle_gates::{GateId, Gates};
use pintle_value::Value;
use pintle_versions::{MinorRange, split_range};

use self::path::Path;

const TABLE: &str = include_str!("fields.txt");

/// The part of an object at which the paths of the table begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The spec of a pod or of a pod template.
    PodSpec,
    /// A pod.
    Pod,
    /// The spec of a PersistentVolumeClaim.
    ClaimSpec,
    /// A PersistentVolumeClaim whose status is written.
    Claim,
    /// A Node.
    Node,
    /// A ReplicaSet or Deployment.
    Replicas,
    /// A StatefulSet.
    StatefulSet,
    /// The spec of a Job or of the template of a CronJob.
    JobSpec,
    /// A HorizontalPodAutoscaler.
    Autoscaler,
    /// A Lease.
    Lease,
    /// A CSIDriver.
    CsiDriver,
    /// A CSINode.
    CsiNode,
    /// A DeviceClass.
    DeviceClass,
    /// The spec of a ResourceClaim or of a ResourceClaimTemplate.
    DeviceClaim,
    /// A ResourceClaim whose status is written.
    ClaimStatus,
    /// A ResourceSlice.
    ResourceSlice,
    /// The spec of a PodGroup, or a template of a Workload.
    PodGroup,
    /// The spec of a CompositePodGroup, or a composite template of a Workload.
    CompositePodGroup,
    /// A PodGroup whose status is written.
    PodGroupStatus,
}

impl Part {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "pod-spec" => Part::PodSpec,
            "pod" => Part::Pod,
            "claim-spec" => Part::ClaimSpec,
            "claim" => Part::Claim,
            "node" => Part::Node,
            "replicas" => Part::Replicas,
            "stateful-set" => Part::StatefulSet,
            "job-spec" => Part::JobSpec,
            "autoscaler" => Part::Autoscaler,
            "lease" => Part::Lease,
            "csi-driver" => Part::CsiDriver,
            "csi-node" => Part::CsiNode,
            "device-class" => Part::DeviceClass,
            "device-claim" => Part::DeviceClaim,
            "claim-status" => Part::ClaimStatus,
            "resource-slice" => Part::ResourceSlice,
            "pod-group" => Part::PodGroup,
            "composite-pod-group" => Part::CompositePodGroup,
            "pod-group-status" => Part::PodGroupStatus,
            _ => return None,
        })
    }
}

/// The fields of a feature in a part of objects.
#[derive(Debug)]
struct GatedFields {
    part: Part,
    gate: GateId,
    fields: Vec<Path>,
    /// The paths that tell whether an object uses the feature.
    used: Option<Vec<Path>>,
    /// The versions that have the fields.
    versions: MinorRange,
}

impl GatedFields {
    fn parse(line: &'static str) -> Option<Self> {
        let (line, versions) = split_range(line);
        let mut words = line.split(' ');
        let (part, gate) = (Part::parse(words.next()?)?, GateId::of(words.next()?)?);
        let (mut fields, mut used) = (Vec::new(), None);
        for word in words {
            match word.strip_prefix("used=") {
                Some("") => used = Some(Vec::new()),
                Some(paths) => used = Some(paths.split(',').map(Path::parse).collect::<Option<_>>()?),
                None => fields.push(Path::parse(word)?),
            }
        }
        (!fields.is_empty()).then_some(Self { part, gate, fields, used, versions })
    }

    fn is_used(&self, object: &Value) -> bool {
        self.used.as_ref().unwrap_or(&self.fields).iter().any(|path| path.is_used(object))
    }
}

fn table() -> &'static [GatedFields] {
    static GATED: OnceLock<Vec<GatedFields>> = OnceLock::new();
    // Malformed lines are skipped; the test below detects them.
    GATED.get_or_init(|| lines().filter_map(GatedFields::parse).collect())
}

fn lines() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter(|line| !line.starts_with('#'))
}

/// The gates that have a line in the table, in its order.
pub fn gates_of_fields() -> impl Iterator<Item = &'static str> {
    table().iter().map(|fields| fields.gate.name())
}

/// Drops the fields of features that are off from a part of an object, unless the part of the old object uses the
/// feature.
pub(crate) fn drop_disabled(gates: &Gates, part: Part, object: &mut Value, old: Option<&Value>) {
    let is_unchanged = old.is_some_and(|old| object.shares_members(old));
    let minor = gates.version().binary();
    let of_part = table().iter().filter(|gated| gated.part == part && gated.versions.contains(minor));
    for gated in of_part.filter(|gated| !gates.is_enabled_by_id(gated.gate)) {
        // Then the old object uses every field that could be dropped: stored objects have no empty lists.
        if is_unchanged && gated.used.is_none() {
            continue;
        }
        if !old.is_some_and(|old| gated.is_used(old)) {
            gated.fields.iter().for_each(|path| path.remove(object));
        }
    }
}

#[cfg(test)]
mod tests;
