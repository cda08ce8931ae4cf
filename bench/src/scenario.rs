//! The scenario type, the list of all scenarios, and the context that each scenario receives. A scenario measures one
//! aspect on its own server, so it can run alone and does not affect other numbers. To measure the Go API server, the
//! runner runs the scenario again with another context.

use std::path::{Path, PathBuf};
use std::pin::Pin;

use crate::Result;
use crate::plan::Plan;
use crate::report::Report;
use crate::scenarios::{
    access, admission, aggregation, apply, audit, beside_large, big_list, cascading_delete, clusters, codecs,
    contention, conversion, crds, create, custom_objects, delete, encryption, etcd, fanout, filtered_watches, get,
    growth, hostile, instructions, lease_renewals, list, memory, million, mixed, open_loop, overload, pods, start,
    start_loaded, update,
};
use crate::target::{Server, ServerProcess, Target, over_etcd};

/// The future of a running scenario.
pub(crate) type ScenarioFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// One benchmark scenario.
pub(crate) struct Scenario {
    /// The name for `--only`.
    pub(crate) name: &'static str,
    /// One line for the help text.
    pub(crate) description: &'static str,
    /// True if the scenario cannot measure an existing server, because it starts servers itself or needs no server.
    pub(crate) requires_binary: bool,
    /// True if the Go API server (`tools/apiserver`) can serve the scenario. Then it is measured as well, directly
    /// afterwards.
    pub(crate) on_go_api_server: bool,
    /// Runs the scenario and adds rows to the report.
    pub(crate) run: for<'a> fn(&'a mut ScenarioContext) -> ScenarioFuture<'a>,
}

/// All scenarios, in the order of the report.
pub(crate) const ALL: &[Scenario] = &[
    codecs::SCENARIO,
    start::SCENARIO,
    start_loaded::SCENARIO,
    clusters::SCENARIO,
    crds::SCENARIO,
    memory::SCENARIO,
    million::SCENARIO,
    get::SCENARIO,
    access::SCENARIO,
    admission::SCENARIO,
    list::SCENARIO,
    big_list::SCENARIO,
    create::SCENARIO,
    update::SCENARIO,
    apply::SCENARIO,
    pods::SCENARIO,
    lease_renewals::SCENARIO,
    aggregation::SCENARIO,
    audit::SCENARIO,
    encryption::SCENARIO,
    instructions::SCENARIO,
    custom_objects::SCENARIO,
    conversion::SCENARIO,
    delete::SCENARIO,
    cascading_delete::SCENARIO,
    fanout::SCENARIO,
    filtered_watches::SCENARIO,
    open_loop::SCENARIO,
    beside_large::SCENARIO,
    mixed::SCENARIO,
    growth::SCENARIO,
    growth::INSTRUCTIONS,
    contention::SCENARIO,
    hostile::SCENARIO,
    overload::SCENARIO,
    etcd::SCENARIO,
];

/// The source of the servers for scenarios.
pub(crate) enum ServerSource {
    /// A server binary, started on an empty data directory for each scenario.
    Binary(PathBuf),
    /// The Go API server's program, started with etcd on an empty data directory for each scenario.
    GoApiServer(PathBuf),
    /// An existing server that this program does not manage.
    Existing(Server),
}

/// The plan, the report and the server source for a scenario.
pub(crate) struct ScenarioContext {
    /// The durations and sizes of the run.
    pub(crate) plan: Plan,
    /// The report that the scenario adds rows to.
    pub(crate) report: Report,
    /// The program that times apimachinery's serializers, if it was built.
    pub(crate) go_codecs: Option<PathBuf>,
    /// The program that is a KMS plugin with the argument `serve`, if it was built.
    pub(crate) kms_plugin: Option<PathBuf>,
    /// The directory where profiles are left.
    pub(crate) profiles: Option<PathBuf>,
    source: ServerSource,
    scratch: PathBuf,
    /// The number of targets requested so far. It makes names unique.
    targets: usize,
}

impl ScenarioContext {
    /// Creates the context that all scenarios of a run share. `scratch` is a directory on the measured disk.
    pub(crate) fn new(plan: Plan, report: Report, source: ServerSource, scratch: &Path) -> Self {
        let scratch = scratch.to_owned();
        Self { plan, report, go_codecs: None, kms_plugin: None, profiles: None, source, scratch, targets: 0 }
    }

    /// A directory for temporary files.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// The server binary, for a scenario that starts the server itself.
    ///
    /// # Errors
    /// Returns an error if the source is another server.
    pub(crate) fn binary(&self) -> Result<PathBuf> {
        match &self.source {
            ServerSource::Binary(path) => Ok(path.clone()),
            _ => Err("the scenario requires --binary".into()),
        }
    }

    /// True if the context measures an existing server.
    pub(crate) fn has_existing_server(&self) -> bool {
        matches!(self.source, ServerSource::Existing(_))
    }

    /// True if the context measures the Go API server.
    pub(crate) fn is_on_go_api_server(&self) -> bool {
        matches!(self.source, ServerSource::GoApiServer(_))
    }

    /// Starts the server with a data directory, for a scenario that starts the server itself.
    ///
    /// # Errors
    /// Returns an error if the source is an existing server.
    pub(crate) async fn start_server(&self, folder: &Path) -> Result<ServerProcess> {
        match &self.source {
            ServerSource::Binary(path) => ServerProcess::pintle(path, folder).await,
            ServerSource::GoApiServer(path) => ServerProcess::go_api_server(path, folder).await,
            ServerSource::Existing(_) => Err("the scenario requires --binary".into()),
        }
    }

    /// Starts a server on an empty data directory, over an etcd or with its own store.
    ///
    /// # Errors
    /// Returns an error if the source is an existing server.
    pub(crate) async fn target_over(&mut self, etcd: Option<&str>) -> Result<Target> {
        let Some(etcd) = etcd else { return self.target().await };
        match &self.source {
            ServerSource::GoApiServer(_) => self.target_with(&["--etcd-servers", etcd]).await,
            _ => self.target_with(&over_etcd(etcd)).await,
        }
    }

    /// Starts a server with options on an empty data directory.
    ///
    /// # Errors
    /// Returns an error if the source is an existing server.
    pub(crate) async fn target_with(&mut self, options: &[&str]) -> Result<Target> {
        self.targets += 1;
        let folder = self.scratch.join(format!("data-{}", self.targets));
        let process = match &self.source {
            ServerSource::Binary(path) => ServerProcess::pintle_with(path, &folder, options).await?,
            ServerSource::GoApiServer(path) => ServerProcess::go_api_server_with(path, &folder, options).await?,
            ServerSource::Existing(_) => return Err("the scenario requires --binary".into()),
        };
        Ok(Target::started(process, !self.is_on_go_api_server()))
    }

    /// Returns a server to measure: a new process with options, or the existing server, which has its own options.
    pub(crate) async fn target_or_existing(&mut self, options: &[&str]) -> Result<Target> {
        match &self.source {
            ServerSource::Existing(_) => self.target().await,
            _ => self.target_with(options).await,
        }
    }

    /// Returns a server to measure: a new process on an empty data directory, or the existing server.
    pub(crate) async fn target(&mut self) -> Result<Target> {
        self.targets += 1;
        if let ServerSource::Existing(server) = &self.source {
            let prefix = format!("bench-{}-{}", std::process::id(), self.targets);
            return Ok(Target::existing(server.clone(), prefix));
        }
        let folder = self.scratch.join(format!("data-{}", self.targets));
        Ok(Target::started(self.start_server(&folder).await?, !self.is_on_go_api_server()))
    }
}
