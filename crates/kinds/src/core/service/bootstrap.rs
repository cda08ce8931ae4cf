//! The initial objects for services: the ServiceCIDR and the service of the API server itself (upstream:
//! `pkg/controlplane/controller/{defaultservicecidr,kubernetesservice}`).

use std::net::IpAddr;

use pintle_registry::GroupResource;
use pintle_value::{Object, Value};

use super::addresses::first_address;
use super::addresses::service_cidrs;
use super::network::ServiceNetwork;

/// The name of the ServiceCIDR of the server's ranges.
pub const DEFAULT_SERVICE_CIDR: &str = "kubernetes";

impl ServiceNetwork {
    /// Returns the objects that must exist before services can be created: the ServiceCIDR `kubernetes`. The server
    /// creates each of them unless it exists.
    #[must_use]
    pub fn bootstrap_objects(&self) -> Vec<(GroupResource, Value)> {
        vec![(service_cidrs(), self.service_cidr())]
    }

    fn service_cidr(&self) -> Value {
        let mut object = named("networking.k8s.io/v1", "ServiceCIDR");
        let cidrs: Vec<Value> = self.range_texts().into_iter().map(Value::from).collect();
        object.set_at(&["spec", "cidrs"], cidrs);
        object
    }

    /// Returns the address ranges as texts, the default family first.
    #[must_use]
    pub fn range_texts(&self) -> Vec<String> {
        self.ranges().iter().map(ToString::to_string).collect()
    }

    /// Returns the cluster IP of the service `kubernetes`: the first address of the first range.
    #[must_use]
    pub fn kubernetes_address(&self) -> Option<IpAddr> {
        self.ranges().first().map(first_address)
    }

    /// Returns the service `kubernetes`, through which clients in the cluster reach the API server. The server creates
    /// it after the ServiceCIDR. It has the first address of the range, and its target port is `secure_port`.
    #[must_use]
    pub fn kubernetes_service(&self, secure_port: u16) -> (GroupResource, Value) {
        let mut object = named("v1", "Service");
        object.set_at(&["metadata", "namespace"], "default");
        object.set_at(
            &["metadata", "labels"],
            Object::from_iter([("component", "apiserver"), ("provider", "kubernetes")]),
        );
        let port = Object::from_iter([
            ("name", Value::from("https")),
            ("port", Value::from(443)),
            ("protocol", Value::from("TCP")),
            ("targetPort", Value::from(secure_port)),
        ]);
        let mut spec = Object::from_iter([
            ("ports", Value::from(vec![Value::from(port)])),
            ("ipFamilyPolicy", Value::from("SingleStack")),
            ("sessionAffinity", Value::from("None")),
            ("type", Value::from("ClusterIP")),
        ]);
        if let Some(range) = self.ranges().first() {
            spec.insert("clusterIP", first_address(range).to_string());
        }
        object.set("spec", spec);
        (GroupResource::new("", "services"), object)
    }
}

fn named(api_version: &str, kind: &str) -> Value {
    let mut object = Value::object();
    object.set("apiVersion", api_version);
    object.set("kind", kind);
    object.set_at(&["metadata", "name"], DEFAULT_SERVICE_CIDR);
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn bootstrap_objects_are_a_service_cidr_and_the_kubernetes_service() {
        let mut objects = ServiceNetwork::default().bootstrap_objects();
        objects.push(ServiceNetwork::default().kubernetes_service(6443));
        assert_eq!(objects[0].0.to_string(), "servicecidrs.networking.k8s.io");
        assert_eq!(
            objects[0].1,
            object(
                r#"{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.0.0.0/24"]}}"#
            )
        );
        assert_eq!(
            objects[1].1,
            object(
                r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"kubernetes","namespace":"default","labels":{"component":"apiserver","provider":"kubernetes"}},
                "spec":{"clusterIP":"10.0.0.1","ipFamilyPolicy":"SingleStack","sessionAffinity":"None","type":"ClusterIP",
                "ports":[{"name":"https","port":443,"protocol":"TCP","targetPort":6443}]}}"#
            )
        );
    }
}
