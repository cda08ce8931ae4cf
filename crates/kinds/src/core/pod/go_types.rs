//! How error messages print the structs of a pod: with the Go names of upstream's internal version, and all fields in
//! the order of `pkg/apis/core/types.go`.

use crate::go_json::GoType;

const STRING: GoType = GoType::STRING;
const NULLABLE: GoType = GoType::NULLABLE;

/// A container's security context.
pub(super) const SECURITY_CONTEXT: GoType = GoType::Struct(&[
    ("Capabilities", "capabilities", GoType::Pointer(&CAPABILITIES)),
    ("Privileged", "privileged", NULLABLE),
    ("SELinuxOptions", "seLinuxOptions", GoType::Pointer(&SELINUX)),
    ("WindowsOptions", "windowsOptions", GoType::Pointer(&WINDOWS)),
    ("RunAsUser", "runAsUser", NULLABLE),
    ("RunAsGroup", "runAsGroup", NULLABLE),
    ("RunAsNonRoot", "runAsNonRoot", NULLABLE),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", NULLABLE),
    ("AllowPrivilegeEscalation", "allowPrivilegeEscalation", NULLABLE),
    ("ProcMount", "procMount", NULLABLE),
    ("SeccompProfile", "seccompProfile", GoType::Pointer(&PROFILE)),
    ("AppArmorProfile", "appArmorProfile", GoType::Pointer(&PROFILE)),
]);
const CAPABILITIES: GoType = GoType::Struct(&[("Add", "add", NULLABLE), ("Drop", "drop", NULLABLE)]);
const SELINUX: GoType = GoType::Struct(&[
    ("User", "user", STRING),
    ("Role", "role", STRING),
    ("Type", "type", STRING),
    ("Level", "level", STRING),
]);
const WINDOWS: GoType = GoType::Struct(&[
    ("GMSACredentialSpecName", "gmsaCredentialSpecName", NULLABLE),
    ("GMSACredentialSpec", "gmsaCredentialSpec", NULLABLE),
    ("RunAsUserName", "runAsUserName", NULLABLE),
    ("HostProcess", "hostProcess", NULLABLE),
]);

/// A seccomp profile or an AppArmor profile.
pub(super) const PROFILE: GoType =
    GoType::Struct(&[("Type", "type", STRING), ("LocalhostProfile", "localhostProfile", NULLABLE)]);

/// The terms of a node selector.
pub(super) const NODE_SELECTOR_TERMS: GoType = GoType::List(&NODE_SELECTOR_TERM);
/// One term of a node selector.
pub(super) const NODE_SELECTOR_TERM: GoType = GoType::Struct(&[
    ("MatchExpressions", "matchExpressions", GoType::List(&REQUIREMENT)),
    ("MatchFields", "matchFields", GoType::List(&REQUIREMENT)),
]);
const REQUIREMENT: GoType =
    GoType::Struct(&[("Key", "key", STRING), ("Operator", "operator", STRING), ("Values", "values", NULLABLE)]);

/// The addresses of a pod or of its host.
pub(super) const ADDRESSES: GoType = GoType::List(&GoType::Struct(&[("IP", "ip", STRING)]));
