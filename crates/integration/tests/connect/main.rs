//! Connections with pods, services and nodes through a cluster whose node is the program `tools/kubelet`, which serves
//! them with upstream's streaming library.

mod admission;
mod api_server_ends;
mod api_servers;
mod authorization;
mod egress;
mod kubectl;
mod locations;
mod logs;
mod proxies;
mod upgrades;
mod websockets;
