//! A cluster of several members of etcd, with a proxy before the port by which the others reach each.

use crate::process::StartingProcess;
use crate::{EtcdProcess, EtcdSettings, Link, Proxy, ReservedPort};

/// A running cluster, which ends when this is dropped.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    /// `None` only while it is started again.
    process: Option<EtcdProcess>,
    /// Leads the other members to this one.
    peers: Proxy,
    /// The port for the other members.
    _port: ReservedPort,
}

impl EtcdCluster {
    /// Starts a cluster. It answers when this returns.
    ///
    /// # Panics
    /// Panics if it does not start.
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

    /// True if it has no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// A member.
    ///
    /// # Panics
    /// Panics if there is no such member.
    #[must_use]
    pub fn member(&self, number: usize) -> &EtcdProcess {
        self.members[number].process.as_ref().expect("a member")
    }

    /// A member.
    ///
    /// # Panics
    /// Panics if there is no such member.
    #[must_use]
    pub fn member_mut(&mut self, number: usize) -> &mut EtcdProcess {
        self.members[number].process.as_mut().expect("a member")
    }

    /// Starts members again that have been killed. Waits until they serve, for which most members have to run.
    ///
    /// # Panics
    /// Panics if they do not start.
    pub fn restart(&mut self, numbers: &[usize]) {
        let starting = numbers.iter().map(|number| {
            let process = self.members[*number].process.take().expect("a member");
            (*number, process.restarting())
        });
        for (number, starting) in starting.collect::<Vec<_>>() {
            self.members[number].process = Some(starting.serving());
        }
    }

    /// Changes how the others reach a member.
    ///
    /// # Panics
    /// Panics if there is no such member.
    pub fn set_peer_link(&self, number: usize, link: Link) {
        self.members[number].peers.set(link);
    }

    /// Proxies before the clients' ports of all members, for one client.
    #[must_use]
    pub fn client_proxies(&self) -> Vec<Proxy> {
        (0..self.len()).map(|number| Proxy::start(self.member(number).address())).collect()
    }
}
