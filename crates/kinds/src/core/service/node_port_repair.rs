//! Repairs the node port allocator: allocates the ports of services that lack an allocation, releases leaked ports, and
//! reports conflicts (upstream: `pkg/registry/core/service/portallocator/controller/repair.go`).

use std::collections::BTreeSet;

use pintle_registry::{AllocationProblem, AllocationRepair};
use pintle_value::Value;

use super::accessors::{health_check_node_port, node_port, ports};
use super::node_ports::NodePortAllocator;

/// The number of repairs in a row in which a port has to seem leaked before it is released. A port is allocated before
/// its service is stored, so it may only seem leaked.
const REPAIRS_BEFORE_RELEASE: u32 = 3;

impl NodePortAllocator {
    /// See [`pintle_registry::AllocationHooks::repair`].
    pub(super) fn repair(&self, services: &mut dyn Iterator<Item = Value>) -> AllocationRepair {
        // The state from before the services are read, so that a port that is released meanwhile does not seem to lack
        // an allocation.
        let before = self.state().allocated();
        let (mut used, mut problems) = (BTreeSet::new(), Vec::new());
        for service in services {
            for port in requested_ports(&service) {
                if let Some((reason, message)) = self.check_port(port, before.as_ref(), &mut used) {
                    problems.push(AllocationProblem { object: service.clone(), reason, message });
                }
            }
        }
        let released = self.release_leaks(before.unwrap_or_default().difference(&used));
        AllocationRepair { problems, released: released.into_iter().map(|port| port.to_string()).collect() }
    }

    /// Records a port of a service, and allocates it if it is not allocated. Returns the reason and the message of the
    /// event about a problem.
    fn check_port(
        &self,
        requested: i64,
        before: Option<&BTreeSet<u16>>,
        used: &mut BTreeSet<u16>,
    ) -> Option<(&'static str, String)> {
        let Some(port) = self.in_range(requested) else {
            let (start, end) = (self.range.start(), self.range.end());
            let message =
                format!("Port {requested} is not within the port range {start}-{end}; please recreate service");
            return Some(("PortOutOfRange", message));
        };
        if !used.insert(port) {
            let message = format!("Port {port} was assigned to multiple services; please recreate service");
            return Some(("PortAlreadyAllocated", message));
        }
        let is_missing = before.is_some_and(|before| !before.contains(&port));
        // The port may have been allocated for a new service meanwhile.
        let repaired = is_missing && self.state().claim(port);
        repaired.then(|| ("PortNotAllocated", format!("Port {port} is not allocated; repairing")))
    }

    /// Releases ports that no service has and that have seemed leaked for long enough. Returns them.
    fn release_leaks<'p>(&self, unused: impl Iterator<Item = &'p u16>) -> Vec<i64> {
        let mut leaks = self.leaks.lock();
        let known = std::mem::take(&mut *leaks);
        let mut leaked = Vec::new();
        for port in unused {
            match known.get(port).copied().unwrap_or(REPAIRS_BEFORE_RELEASE - 1) {
                0 => leaked.push(i64::from(*port)),
                repairs => drop(leaks.insert(*port, repairs - 1)),
            }
        }
        self.release(leaked.iter().copied());
        leaked
    }
}

/// The node ports that a service requests. Ports with one number and different protocols share one.
fn requested_ports(service: &Value) -> Vec<i64> {
    let mut requested: Vec<(i64, &str)> = Vec::new();
    let mut found = Vec::new();
    for port in ports(service) {
        let (number, protocol) = (node_port(port), port.str_at(&["protocol"]));
        let is_shared = requested.iter().any(|(other, _)| *other == number);
        if number != 0 && (!is_shared || requested.contains(&(number, protocol))) {
            found.push(number);
        }
        requested.push((number, protocol));
    }
    let health_check = health_check_node_port(service);
    let is_shared = requested.iter().any(|(other, _)| *other == health_check);
    if health_check != 0 && (!is_shared || requested.contains(&(health_check, "TCP"))) {
        found.push(health_check);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    fn service(ports: &str) -> Value {
        object(&format!(r#"{{"spec":{{"ports":{ports}}}}}"#))
    }

    /// An allocator with these ports.
    fn allocator(ports: &[u16]) -> NodePortAllocator {
        NodePortAllocator::with_recorded(30000..=32767, ports.iter().copied().collect())
    }

    /// Repairs, and expects these problems and then these allocated ports.
    fn check(allocator: &NodePortAllocator, services: &[&str], problems: &[&str], allocated: &[u16]) {
        let mut services = services.iter().map(|ports| service(ports));
        let found = allocator.repair(&mut services);
        let found = found.problems.into_iter().map(|problem| format!("{}: {}", problem.reason, problem.message));
        let found: Vec<String> = found.collect();
        assert_eq!(found, problems);
        let ports = allocator.state().allocated().unwrap_or_default();
        assert_eq!(ports.into_iter().collect::<Vec<_>>(), allocated);
    }

    #[test]
    fn a_leaked_port_is_released_after_three_repairs() {
        let allocator = allocator(&[30001, 30002]);
        let services = [r#"[{"nodePort":30001}]"#];
        check(&allocator, &services, &[], &[30001, 30002]);
        check(&allocator, &services, &[], &[30001, 30002]);
        check(&allocator, &services, &[], &[30001]);
        assert!(allocator.leaks.lock().is_empty());
    }

    #[test]
    fn a_port_whose_service_is_stored_late_is_not_leaked() {
        let allocator = allocator(&[30001]);
        check(&allocator, &[], &[], &[30001]);
        check(&allocator, &[], &[], &[30001]);
        check(&allocator, &[r#"[{"nodePort":30001}]"#], &[], &[30001]);
        // The count starts again.
        check(&allocator, &[], &[], &[30001]);
        check(&allocator, &[], &[], &[30001]);
        check(&allocator, &[], &[], &[]);
    }

    #[test]
    fn problems_with_node_ports_are_reported() {
        let repairing = "PortNotAllocated: Port 30005 is not allocated; repairing";
        check(&allocator(&[]), &[r#"[{"nodePort":30005},{"port":1}]"#], &[repairing], &[30005]);
        let duplicate = "PortAlreadyAllocated: Port 30001 was assigned to multiple services; please recreate service";
        let one = r#"[{"nodePort":30001,"protocol":"TCP"},{"nodePort":30001,"protocol":"UDP"}]"#;
        check(&allocator(&[30001]), &[one], &[], &[30001]);
        check(&allocator(&[30001]), &[one, one], &[duplicate], &[30001]);
        let outside = "PortOutOfRange: Port 80 is not within the port range 30000-32767; please recreate service";
        check(&allocator(&[]), &[r#"[{"nodePort":80}]"#], &[outside], &[]);
    }

    #[test]
    fn an_allocator_that_is_not_loaded_stays_so() {
        let allocator = NodePortAllocator::new(30000..=32767);
        let problems = allocator.repair(&mut [service(r#"[{"nodePort":30005}]"#)].into_iter());
        assert!(problems.problems.is_empty() && allocator.state().allocated().is_none());
    }
}
