//! Other API servers behind both servers: the same APIServices, whose requests both servers pass on to the same API
//! servers of this process. An APIService of each kind of failure is among them.

mod backend;
mod differences;
mod documents;
mod projection;

use std::time::{Duration, Instant};

use pintle_integration::HttpsServer;
use serde_json::{Value, json};

use crate::exchange::{Answer, send};
use crate::sequence::Request;
use crate::server::{Servers, Side};
pub(crate) use differences::{has, is_accepted};
pub(crate) use projection::{is_projected, projected};

/// The addresses of services. 127.0.0.1 is one of them, but not the first, which is of the service `kubernetes`.
pub(crate) const SERVICE_RANGE: &str = "126.0.0.0/7";
const NAMESPACE: &str = "backends";
/// A port on which no program listens.
const REFUSED: u16 = 9;
/// How long both servers may take until they know the API servers.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// How an APIService trusts its API server.
#[derive(Clone, Copy)]
enum Trust {
    /// The right authority.
    Right,
    /// An authority that has not signed the certificate.
    Wrong,
    /// The authorities of the system.
    System,
    /// No verification.
    Skipped,
}

/// The API server of an APIService.
#[derive(Clone, Copy)]
enum Port {
    /// The API server over HTTP/1.1.
    Http1,
    /// The API server over HTTP/2.
    Http2,
    /// Any other port.
    Number(u16),
}

/// An APIService.
struct ApiService {
    version: &'static str,
    /// The first label of the group. The rest is `example.com`.
    group: &'static str,
    priorities: (u16, u16),
    service: &'static str,
    port: Port,
    trust: Trust,
}

const fn service(group: &'static str) -> ApiService {
    ApiService { version: "v1", group, priorities: (1000, 15), service: "api", port: Port::Http1, trust: Trust::Right }
}

const SERVICES: &[ApiService] = &[
    ApiService { priorities: (1500, 15), ..service("echo") },
    ApiService { port: Port::Http2, ..service("modern") },
    ApiService { service: "external", ..service("external") },
    ApiService { trust: Trust::Skipped, ..service("skipped") },
    ApiService { version: "v1", priorities: (100, 10), ..service("many") },
    ApiService { version: "v2", priorities: (50, 10), ..service("many") },
    ApiService { version: "v1beta1", priorities: (5000, 20), ..service("many") },
    ApiService { version: "v2alpha1", priorities: (100, 10), ..service("many") },
    ApiService { version: "v10", priorities: (100, 10), ..service("many") },
    ApiService { version: "foo", priorities: (100, 10), ..service("many") },
    ApiService { service: "none", ..service("noservice") },
    ApiService { service: "noendpoints", ..service("noendpoints") },
    ApiService { service: "notready", ..service("notready") },
    ApiService { service: "headless", ..service("headless") },
    ApiService { service: "misnamed", ..service("misnamed") },
    ApiService { port: Port::Number(8443), ..service("noport") },
    ApiService { port: Port::Number(REFUSED), ..service("refused") },
    ApiService { trust: Trust::Wrong, ..service("wrongca") },
    ApiService { trust: Trust::System, ..service("noca") },
    service("status401"),
    service("status403"),
    service("status404"),
    service("status500"),
    service("status503"),
    service("redirect"),
    service("nocontent"),
    service("html"),
    service("nojson"),
    service("closed"),
    service("hang"),
];

/// Starts the API servers, registers them with both servers, and waits until both know all about them.
///
/// # Panics
/// Panics if a server refuses an object.
pub(crate) async fn register(servers: &Servers) {
    let names =
        ["api", "external", "noendpoints", "notready", "headless"].map(|name| format!("{name}.{NAMESPACE}.svc"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (http1, http2) = tokio::join!(backend::start(&names), backend::start_over_http2(&names));
    for (path, object) in objects(&http1, &http2) {
        let create = Request::new("POST", path).json(object.to_string());
        let (pintle, go) = tokio::join!(send(servers, Side::Pintle, &create), send(servers, Side::Go, &create));
        assert_eq!((pintle.status(), go.status()), (201, 201), "{create}: {:?} {:?}", pintle.json(), go.json());
    }
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    wait_for_conditions(servers, deadline).await;
    let get = |path: &str| Request::new("GET", path);
    for request in [get("/apis").header("accept", AGGREGATED), get("/openapi/v2"), get("/openapi/v3")] {
        while Instant::now() < deadline {
            let (pintle, go) = tokio::join!(send(servers, Side::Pintle, &request), send(servers, Side::Go, &request));
            if pintle.json() == go.json() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Waits until all APIServices have a condition on both servers, and the same one.
async fn wait_for_conditions(servers: &Servers, deadline: Instant) {
    let request = Request::new("GET", API_SERVICES);
    let conditions = |answer: &Answer| -> Vec<Value> {
        let list = answer.json().unwrap_or_default();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().map(|item| item["status"]["conditions"][0]["message"].clone()).collect()
    };
    while Instant::now() < deadline {
        let (pintle, go) = tokio::join!(send(servers, Side::Pintle, &request), send(servers, Side::Go, &request));
        let (pintle, go) = (conditions(&pintle), conditions(&go));
        if pintle == go && pintle.len() == SERVICES.len() && pintle.iter().all(Value::is_string) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The objects to create, with the paths of their collections.
fn objects(http1: &HttpsServer, http2: &HttpsServer) -> Vec<(String, Value)> {
    let ports = [("http1", http1.port), ("http2", http2.port), ("refused", REFUSED)];
    let ports = ports.map(|(name, port)| json!({"name": name, "port": port, "protocol": "TCP", "targetPort": port}));
    let slice = |name: &str, is_ready: bool| {
        let endpoint = json!({"addresses": ["10.1.2.3"], "conditions": {"ready": is_ready}});
        json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}}, "addressType": "IPv4",
            "ports": ports.iter().map(|port| json!({"name": port["name"], "port": port["port"], "protocol": "TCP"})).collect::<Vec<_>>(),
            "endpoints": [endpoint],
        })
    };
    let of_address = |name: &str, address: &str| {
        let spec = json!({
            "type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ports": ports,
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
        });
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let of_name =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    let mut objects = vec![("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": NAMESPACE}}))];
    let services = [
        of_address("api", "127.0.0.1"),
        of_address("noendpoints", "127.0.0.5"),
        of_address("notready", "127.0.0.6"),
        of_address("headless", "None"),
        of_name("external"),
        of_name("misnamed"),
    ];
    objects.extend(services.map(|service| (format!("/api/v1/namespaces/{NAMESPACE}/services"), service)));
    let slices = [slice("api", true), slice("notready", false), slice("headless", true)];
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices");
    objects.extend(slices.map(|slice| (path.clone(), slice)));
    objects.extend(SERVICES.iter().map(|service| (API_SERVICES.to_owned(), service.object(http1, http2))));
    objects
}

impl ApiService {
    fn object(&self, http1: &HttpsServer, http2: &HttpsServer) -> Value {
        let group = format!("{}.example.com", self.group);
        let own = match self.port {
            Port::Http2 => http2,
            Port::Http1 | Port::Number(_) => http1,
        };
        let port = match self.port {
            Port::Number(port) => port,
            Port::Http1 | Port::Http2 => own.port,
        };
        let mut object = json!({
            "metadata": {"name": format!("{}.{group}", self.version)},
            "spec": {
                "group": group, "version": self.version, "groupPriorityMinimum": self.priorities.0,
                "versionPriority": self.priorities.1,
                "service": {"namespace": NAMESPACE, "name": self.service, "port": port},
            },
        });
        match self.trust {
            Trust::Right => object["spec"]["caBundle"] = own.ca_bundle().into(),
            Trust::Wrong => object["spec"]["caBundle"] = other_authority().into(),
            Trust::System => {}
            Trust::Skipped => object["spec"]["insecureSkipTLSVerify"] = true.into(),
        }
        object
    }
}

/// The `caBundle` of an authority with another name than the certificates have. So upstream does not report that it has
/// tried the authority.
fn other_authority() -> String {
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).expect("no names");
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "another authority");
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = parameters.self_signed(&key).expect("a certificate").pem();
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, certificate)
}
