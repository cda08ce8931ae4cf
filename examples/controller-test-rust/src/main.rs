//! The controller as a program. It takes the cluster from the kubeconfig, or from the pod in which it runs. With the
//! argument `crd` it prints its CRD.

use std::io::Write as _;

use kube::{Client, CustomResourceExt as _};
use website_controller::{Website, run};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("crd") {
        let crd = serde_json::to_string_pretty(&Website::crd())?;
        return Ok(writeln!(std::io::stdout(), "{crd}")?);
    }
    run(Client::try_default().await?).await;
    Ok(())
}
