//! The command line.

use std::path::PathBuf;

use crate::Result;
use crate::plan::Plan;
use crate::scenario::ALL;

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct Options {
    /// The server binary to start and measure.
    pub(crate) binary: Option<PathBuf>,
    /// The kubeconfig of an existing server that is measured instead.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. The default is the current context.
    pub(crate) context: Option<String>,
    /// The process IDs of the existing server, for CPU time and memory.
    pub(crate) processes: Vec<u32>,
    /// The durations and sizes of the run.
    pub(crate) plan: Plan,
    /// The names of the scenarios to run. Empty means all.
    pub(crate) only: Vec<String>,
    /// The directory for stores and temporary files.
    pub(crate) folder: Option<PathBuf>,
    /// The program that times apimachinery's serializers (`tools/codec-timings`).
    pub(crate) go_codecs: Option<PathBuf>,
    /// The Go API server's program (`tools/apiserver`), which is measured in the same run.
    pub(crate) go_api_server: Option<PathBuf>,
    /// The output file of the report for each format.
    pub(crate) json: Option<PathBuf>,
    pub(crate) markdown: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
    /// The directory in which the scenario `instructions` leaves its profiles.
    pub(crate) profiles: Option<PathBuf>,
}

impl Options {
    /// Parses the arguments that follow the program's name.
    pub(crate) fn read(arguments: &[String]) -> Result<Self> {
        let mut options = Self {
            binary: None,
            kubeconfig: None,
            context: None,
            processes: Vec::new(),
            plan: Plan::FULL,
            only: Vec::new(),
            folder: None,
            go_codecs: None,
            go_api_server: None,
            json: None,
            markdown: None,
            svg: None,
            profiles: None,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--quick" => options.plan = Plan::QUICK,
                "--only" => options.only = value()?.split(',').map(parse_scenario).collect::<Result<_>>()?,
                "--binary" => options.binary = Some(value()?.into()),
                "--kubeconfig" => options.kubeconfig = Some(value()?.into()),
                "--context" => options.context = Some(value()?.clone()),
                "--pid" => {
                    for process in value()?.split(',') {
                        options.processes.push(process.parse().map_err(|_| format!("{process} is not a process ID"))?);
                    }
                }
                "--folder" => options.folder = Some(value()?.into()),
                "--go-codecs" => options.go_codecs = Some(value()?.into()),
                "--go-apiserver" => options.go_api_server = Some(value()?.into()),
                "--json" => options.json = Some(value()?.into()),
                "--markdown" => options.markdown = Some(value()?.into()),
                "--svg" => options.svg = Some(value()?.into()),
                "--profiles" => options.profiles = Some(value()?.into()),
                "--help" => return Err(usage().into()),
                other => return Err(format!("unknown argument {other}\n{}", usage()).into()),
            }
        }
        if options.kubeconfig.is_none() && options.binary.is_none() {
            return Err(usage().into());
        }
        if options.kubeconfig.is_none() && (options.context.is_some() || !options.processes.is_empty()) {
            return Err("--context and --pid require --kubeconfig".into());
        }
        Ok(options)
    }

    /// The program that is a KMS plugin (`tools/encryption`), if it was built beside the Go API server.
    pub(crate) fn kms_plugin(&self) -> Option<PathBuf> {
        let program =
            self.go_api_server.as_ref()?.with_file_name(format!("encryption{}", std::env::consts::EXE_SUFFIX));
        program.exists().then_some(program)
    }

    /// True if the scenario is selected by `--only`.
    pub(crate) fn is_selected(&self, scenario: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == scenario)
    }
}

fn parse_scenario(name: &str) -> Result<String> {
    if ALL.iter().any(|scenario| scenario.name == name) {
        return Ok(name.to_owned());
    }
    Err(format!("unknown scenario {name}\n{}", usage()).into())
}

fn usage() -> String {
    let mut text = String::from(
        "usage: pintle-bench (--binary FILE | --kubeconfig FILE [--context NAME] [--pid N[,N]]) [--quick]\n\
         \x20                   [--only NAME[,NAME]] [--folder DIR] [--go-codecs FILE] [--go-apiserver FILE]\n\
         \x20                   [--json FILE] [--markdown FILE] [--svg FILE] [--profiles DIR]\n\
         scenarios:",
    );
    for scenario in ALL {
        let only = if scenario.requires_binary { " (requires --binary)" } else { "" };
        let both = if scenario.on_go_api_server { " (also on the Go API server)" } else { "" };
        text.push_str(&format!("\n  {:19} {}{only}{both}", scenario.name, scenario.description));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: std::result::Result<&str, &str>) {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let read = Options::read(&arguments).map(|options| {
            let Options { plan, only, processes, .. } = &options;
            format!("{} {} {processes:?} {}", plan.name, only.join("+"), options.is_selected("get"))
        });
        let read = read.map_err(|error| error.to_string());
        let read = read.as_deref().map_err(|error| error.lines().next().unwrap_or_default());
        assert_eq!(read, expect, "{line}");
    }

    #[test]
    fn command_lines() {
        check("--binary p", Ok("full  [] true"));
        check("--binary p --quick --only list,create", Ok("quick list+create [] false"));
        check("--kubeconfig k --pid 1,2 --pid 3 --only get", Ok("full get [1, 2, 3] true"));
        check("--binary p --only lists", Err("unknown scenario lists"));
        check("--binary p --pid 1", Err("--context and --pid require --kubeconfig"));
        check("--kubeconfig k --pid one", Err("one is not a process ID"));
        check("--kubeconfig", Err("--kubeconfig needs a value"));
        check("--binary p --fast", Err("unknown argument --fast"));
    }
}
