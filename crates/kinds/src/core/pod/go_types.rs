//! How error messages print the structs of a pod: with the Go names of upstream's internal version, and all fields in
//! the order of `pkg/apis/core/types.go`.

use crate::go_json::Shape;

const TEXT: Shape = Shape::TEXT;
const NULL: Shape = Shape::NULL;

/// A container's security context.
pub(super) const SECURITY_CONTEXT: Shape = Shape::Struct(&[
    ("Capabilities", "capabilities", Shape::Pointer(&CAPABILITIES)),
    ("Privileged", "privileged", NULL),
    ("SELinuxOptions", "seLinuxOptions", Shape::Pointer(&SELINUX)),
    ("WindowsOptions", "windowsOptions", Shape::Pointer(&WINDOWS)),
    ("RunAsUser", "runAsUser", NULL),
    ("RunAsGroup", "runAsGroup", NULL),
    ("RunAsNonRoot", "runAsNonRoot", NULL),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", NULL),
    ("AllowPrivilegeEscalation", "allowPrivilegeEscalation", NULL),
    ("ProcMount", "procMount", NULL),
    ("SeccompProfile", "seccompProfile", Shape::Pointer(&PROFILE)),
    ("AppArmorProfile", "appArmorProfile", Shape::Pointer(&PROFILE)),
]);
const CAPABILITIES: Shape = Shape::Struct(&[("Add", "add", NULL), ("Drop", "drop", NULL)]);
const SELINUX: Shape =
    Shape::Struct(&[("User", "user", TEXT), ("Role", "role", TEXT), ("Type", "type", TEXT), ("Level", "level", TEXT)]);
const WINDOWS: Shape = Shape::Struct(&[
    ("GMSACredentialSpecName", "gmsaCredentialSpecName", NULL),
    ("GMSACredentialSpec", "gmsaCredentialSpec", NULL),
    ("RunAsUserName", "runAsUserName", NULL),
    ("HostProcess", "hostProcess", NULL),
]);

/// A seccomp profile or an AppArmor profile.
pub(super) const PROFILE: Shape =
    Shape::Struct(&[("Type", "type", TEXT), ("LocalhostProfile", "localhostProfile", NULL)]);

/// The terms of a node selector.
pub(super) const NODE_SELECTOR_TERMS: Shape = Shape::List(&NODE_SELECTOR_TERM);
/// One term of a node selector.
pub(super) const NODE_SELECTOR_TERM: Shape = Shape::Struct(&[
    ("MatchExpressions", "matchExpressions", Shape::List(&REQUIREMENT)),
    ("MatchFields", "matchFields", Shape::List(&REQUIREMENT)),
]);
const REQUIREMENT: Shape =
    Shape::Struct(&[("Key", "key", TEXT), ("Operator", "operator", TEXT), ("Values", "values", NULL)]);

/// The addresses of a pod or of its host.
pub(super) const ADDRESSES: Shape = Shape::List(&Shape::Struct(&[("IP", "ip", TEXT)]));
