//! The tests use clusters as authors of controllers do.

mod clock;
mod controller;
mod dump;
mod faults;
mod forks;
mod requests;
mod resources;
mod runtimes;
mod users;

/// The CRD of `gadgets.example.com`, a custom resource without a Rust type.
const GADGETS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets, singular: gadget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
";
