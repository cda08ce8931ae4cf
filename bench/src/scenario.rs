//! What a scenario is, which there are, and what they are given. A scenario measures one thing on a server of its own,
//! so that it can run alone and that none changes the numbers of another.

use std::path::{Path, PathBuf};
use std::pin::Pin;

use crate::Result;
use crate::plan::Plan;
use crate::report::Report;
use crate::scenarios::{
    apply, big_list, codecs, conversion, create, custom, definitions, delete, deletion, fanout, get, list, memory,
    mixed, narrow, open, start, stored, update,
};
use crate::target::{Process, Server, Target};

/// A scenario at work.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// One thing that is measured.
pub(crate) struct Scenario {
    /// What `--only` calls it.
    pub(crate) name: &'static str,
    /// What it measures.
    pub(crate) does: &'static str,
    /// True if it starts servers itself, and so cannot measure one that others run.
    pub(crate) starts_servers: bool,
    /// Measures.
    pub(crate) run: for<'a> fn(&'a mut Bench) -> Running<'a>,
}

/// All there are, in the order of the report.
pub(crate) const ALL: &[Scenario] = &[
    codecs::SCENARIO,
    start::SCENARIO,
    stored::SCENARIO,
    definitions::SCENARIO,
    memory::SCENARIO,
    get::SCENARIO,
    list::SCENARIO,
    big_list::SCENARIO,
    create::SCENARIO,
    update::SCENARIO,
    apply::SCENARIO,
    custom::SCENARIO,
    conversion::SCENARIO,
    delete::SCENARIO,
    deletion::SCENARIO,
    fanout::SCENARIO,
    narrow::SCENARIO,
    open::SCENARIO,
    mixed::SCENARIO,
];

/// Whom scenarios measure.
pub(crate) enum Subject {
    /// A server binary, started on an empty folder for each.
    Binary(PathBuf),
    /// A server that others run.
    Given(Server),
}

/// What a scenario is given.
pub(crate) struct Bench {
    /// How much to measure.
    pub(crate) plan: Plan,
    /// Where numbers go.
    pub(crate) report: Report,
    /// The program that times Go's codecs, if there is one.
    pub(crate) go_codecs: Option<PathBuf>,
    subject: Subject,
    scratch: PathBuf,
    /// How many servers were asked for.
    targets: usize,
}

impl Bench {
    /// What all scenarios of a run share. `scratch` is a folder on the disk that is measured.
    pub(crate) fn new(plan: Plan, report: Report, subject: Subject, scratch: &Path) -> Self {
        Self { plan, report, go_codecs: None, subject, scratch: scratch.to_owned(), targets: 0 }
    }

    /// A folder for files.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// The server binary, for a scenario that starts it itself.
    pub(crate) fn binary(&self) -> Result<PathBuf> {
        match &self.subject {
            Subject::Binary(path) => Ok(path.clone()),
            Subject::Given(_) => Err("there is no binary to start".into()),
        }
    }

    /// A server to measure: a new one on an empty folder, or the given one.
    pub(crate) async fn target(&mut self) -> Result<Target> {
        self.targets += 1;
        match &self.subject {
            Subject::Binary(path) => {
                let folder = self.scratch.join(format!("data-{}", self.targets));
                Ok(Target::started(Process::pintle(path, &folder).await?))
            }
            Subject::Given(server) => {
                let prefix = format!("bench-{}-{}", std::process::id(), self.targets);
                Ok(Target::given(server.clone(), prefix))
            }
        }
    }
}
