//! A cluster of several etcd members. The other members reach each member's peer port through a proxy.

use crate::process::StartingProcess;
use crate::{EtcdProcess, EtcdSettings, Link, Proxy, ReservedPort};

/// A running cluster, which ends when this value is dropped.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    /// `None` only while the member is started again.
    process: Option<EtcdProcess>,
    /// The proxy through which the other members reach this member.
    peers: Proxy,
    /// The port for the other members.
    _port: ReservedPort,
}

impl EtcdCluster {
    /// Starts a cluster. The cluster serves when this function returns.
    ///
    /// # Panics
    /// Panics if the cluster does not start.
    #[must_use]
    pub fn start(members: usize, settings: &EtcdSettings) -> Self {
        let ports: Vec<ReservedPort> = (0..members).map(|_| ReservedPort::reserve()).collect();
        let proxies: Vec<Proxy> = ports.iter().map(|port| Proxy::start(port.address())).collect();
        let names: Vec<String> = (0..members).map(|number| format!("m{number}")).collect();
        let urls = names.iter().zip(&proxies).map(|(name, proxy)| format!("{name}={}", proxy.url()));
        let urls = urls.collect::<Vec<_>>().join(",");
        let starting: Vec<StartingProcess> = (0..members)
            .map(|number| {
                let listen = format!("http://{}", ports[number].address());
                let arguments = [
                    ["--name", &names[number]],
                    ["--listen-peer-urls", &listen],
                    ["--initial-advertise-peer-urls", &proxies[number].url()],
                    ["--initial-cluster", &urls],
                ];
                EtcdProcess::spawn(settings, arguments.as_flattened().iter().copied())
            })
            .collect();
        let processes = starting.into_iter().map(StartingProcess::serving);
        let members = processes.zip(proxies).zip(ports).map(|((process, peers), port)| Member {
            process: Some(process),
            peers,
            _port: port,
        });
        Self { members: members.collect() }
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True if the cluster has no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns a member.
    ///
    /// # Panics
    /// Panics if there is no such member.
    #[must_use]
    pub fn member(&self, number: usize) -> &EtcdProcess {
        self.members[number].process.as_ref().expect("a member")
    }

    /// Returns a member.
    ///
    /// # Panics
    /// Panics if there is no such member.
    #[must_use]
    pub fn member_mut(&mut self, number: usize) -> &mut EtcdProcess {
        self.members[number].process.as_mut().expect("a member")
    }

    /// Starts killed members again and waits until they serve. They serve only if most members of the cluster run.
    ///
    /// # Panics
    /// Panics if the members do not start.
    pub fn restart(&mut self, numbers: &[usize]) {
        let starting = numbers.iter().map(|number| {
            let process = self.members[*number].process.take().expect("a member");
            (*number, process.restarting())
        });
        for (number, starting) in starting.collect::<Vec<_>>() {
            self.members[number].process = Some(starting.serving());
        }
    }

    /// Changes how the other members reach a member.
    ///
    /// # Panics
    /// Panics if there is no such member.
    pub fn set_peer_link(&self, number: usize, link: Link) {
        self.members[number].peers.set(link);
    }

    /// Starts proxies before the client ports of all members, for one client.
    #[must_use]
    pub fn client_proxies(&self) -> Vec<Proxy> {
        (0..self.len()).map(|number| Proxy::start(self.member(number).address())).collect()
    }
}
