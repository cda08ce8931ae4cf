//! Repairs the allocations of services: cluster IPs, which IPAddress objects record, and node ports (upstream:
//! `pkg/registry/core/service/{ipallocator,portallocator}/controller`). A crash between an allocation and the write of
//! its service leaks the allocation. The deletion of an IPAddress makes its address available to a second service.
//!
//! kube-apiserver runs these controllers, so they never stand by.

mod addresses;
mod node_ports;

use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_cache::{Event, KeyRange, WatchScope};
use pintle_registry::GroupResource;
use pintle_value::Str;

use self::addresses::{AddressRepair, parent_key, services};
pub(crate) use self::addresses::{ip_addresses, is_managed_address};
use self::node_ports::NodePortRepair;
use crate::ClusterClient;
use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::{tree, watch_cache_of};
use crate::work_queue::{WorkQueue, retry_changed};

/// How often everything is checked again.
const REPAIR_INTERVAL: Duration = Duration::from_secs(180);
/// How many items are repaired at the same time.
const MAX_CONCURRENT: usize = 10;
/// The name of the work queue in metrics.
const QUEUE: &str = "service_allocation_repair";
const FAILURE: &str = "Failed to repair the allocations of services, will retry";

/// An item of the repair queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RepairItem {
    /// The addresses of a service, by its key.
    Service(Str),
    /// An IPAddress, by its name.
    Address(Str),
    /// The node ports of all services.
    NodePorts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RepairSource {
    Services,
    Addresses,
}

impl RepairSource {
    fn item(self, key: &str) -> RepairItem {
        match self {
            RepairSource::Services => RepairItem::Service(key.into()),
            RepairSource::Addresses => RepairItem::Address(key.into()),
        }
    }

    fn resource(self) -> GroupResource {
        match self {
            RepairSource::Services => services(),
            RepairSource::Addresses => ip_addresses(),
        }
    }
}

/// Repairs allocations until the cluster is gone: all allocations at the start and periodically, and an object's
/// allocations when it changes.
pub(crate) async fn run(client: Weak<dyn ClusterClient>) {
    let sources = [RepairSource::Services, RepairSource::Addresses]
        .map(|source| InformerSource::new(source, source.resource(), WatchScope::All))
        .into();
    let Some(strong) = client.upgrade() else { return };
    let mut informer = Informer::new(&strong, sources);
    let mut queue = WorkQueue::<RepairItem>::new(MAX_CONCURRENT, strong.work_queues().queue(QUEUE));
    drop(strong);
    let (addresses, node_ports) = (Arc::new(AddressRepair::new()), Arc::new(NodePortRepair::new()));
    queue.add(RepairItem::NodePorts);
    let Some(mut pause) = client.upgrade().map(|client| client.sleep(REPAIR_INTERVAL)) else { return };
    loop {
        queue.start_with(&client, FAILURE, |client, item| {
            let (addresses, node_ports) = (addresses.clone(), node_ports.clone());
            async move {
                retry_changed(match &item {
                    RepairItem::Service(key) => addresses.repair_service(&client, key).await,
                    RepairItem::Address(name) => addresses.repair_address(&client, name).await,
                    RepairItem::NodePorts => node_ports.repair(&client).await,
                })
            }
        });
        tokio::select! {
            event = informer.next() => match event {
                Some(event) => enqueue(&mut queue, &event),
                None => return,
            },
            _ = queue.wait() => {}
            () = &mut pause => {
                let Some(client) = client.upgrade() else { return };
                enqueue_all(&mut queue, &client);
                pause = client.sleep(REPAIR_INTERVAL);
            }
        }
    }
}

fn enqueue(queue: &mut WorkQueue<RepairItem>, event: &InformerEvent<RepairSource>) {
    match event {
        InformerEvent::Added(source, objects) => {
            objects.iter().for_each(|object| queue.add(source.item(&object.key)));
        }
        InformerEvent::Changed(events) => {
            for (source, event) in events {
                queue.add(source.item(&event.key));
                if *source == RepairSource::Addresses {
                    deleted_parent(event).into_iter().for_each(|key| queue.add(RepairItem::Service(key)));
                }
            }
        }
        // The list after the reset enqueues all objects.
        InformerEvent::Reset(_) => {}
    }
}

/// The key of the service whose IPAddress was deleted. It may still have the address. Upstream notices that at the next
/// periodic check only.
fn deleted_parent(event: &Event) -> Option<Str> {
    let deleted = event.previous.as_ref().filter(|_| event.object.is_none())?;
    parent_key(&tree(deleted)?)
}

fn enqueue_all(queue: &mut WorkQueue<RepairItem>, client: &Arc<dyn ClusterClient>) {
    for source in [RepairSource::Services, RepairSource::Addresses] {
        let watch_cache = watch_cache_of(client, &source.resource());
        let objects = watch_cache.iter().flat_map(|watch_cache| watch_cache.objects(KeyRange::All));
        objects.for_each(|object| queue.add(source.item(&object.key)));
    }
    queue.add(RepairItem::NodePorts);
}
