//! The connectors of subresources. They determine how clients are connected with a node, pod or service.

/// The backend with which a subresource connects its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connector {
    /// The log of a container, from the kubelet. It is a read, not a connection (upstream: `rest.GetterWithOptions`).
    Logs,
    /// A command that is run in a container.
    Exec,
    /// The process that runs in a container.
    Attach,
    /// Ports of a pod.
    PortForward,
    /// The HTTP server of a pod.
    PodProxy,
    /// The HTTP server of a service.
    ServiceProxy,
    /// The HTTP server of a node, by default the kubelet.
    NodeProxy,
}

impl Connector {
    /// The connector with this name in the catalog's facts.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "logs" => Connector::Logs,
            "exec" => Connector::Exec,
            "attach" => Connector::Attach,
            "port-forward" => Connector::PortForward,
            "pod-proxy" => Connector::PodProxy,
            "service-proxy" => Connector::ServiceProxy,
            "node-proxy" => Connector::NodeProxy,
            _ => return None,
        })
    }

    /// True if the connector serves paths below its own path.
    #[must_use]
    pub fn has_path(self) -> bool {
        matches!(self, Connector::PodProxy | Connector::ServiceProxy | Connector::NodeProxy)
    }

    /// True if requests for the connector may have this method (upstream: `ConnectMethods`).
    #[must_use]
    pub fn serves(self, method: &str) -> bool {
        match self {
            Connector::Logs => method == "GET",
            Connector::Exec | Connector::Attach | Connector::PortForward => matches!(method, "GET" | "POST"),
            Connector::PodProxy | Connector::ServiceProxy | Connector::NodeProxy => {
                matches!(method, "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" | "OPTIONS")
            }
        }
    }
}
