//! How long a start takes, until the server says where it is and until a client has its first answer over TLS: on an
//! empty folder, on one that has been used. And what an idle server weighs.

use super::megabytes;
use crate::Result;
use crate::load::middle;
use crate::report::Report;
use crate::scenario::{Bench, Scenario};
use crate::target::Process;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "start",
    does: "start to ready on an empty store, idle memory",
    starts_servers: true,
    run: |bench| Box::pin(run(bench)),
};

/// Times of one kind of start, in milliseconds.
#[derive(Default)]
pub(super) struct Times {
    line: Vec<f64>,
    answer: Vec<f64>,
}

impl Times {
    /// Adds a start.
    pub(super) fn add(&mut self, server: &Process) {
        self.line.push(server.until_line.as_secs_f64() * 1e3);
        self.answer.push(server.until_answer.as_secs_f64() * 1e3);
    }

    /// Reports what starts take; `limit` in milliseconds.
    pub(super) fn report(self, name: &str, limit: f64, report: &mut Report) {
        let note = format!("first answer over TLS after {:.1} ms", middle(self.answer));
        report.row(name, middle(self.line), "ms").at_most(limit).note(note);
    }
}

async fn run(bench: &mut Bench) -> Result<()> {
    let binary = bench.binary()?;
    let (mut first, mut second, mut idle) = (Times::default(), Times::default(), Vec::new());
    for round in 0..bench.plan.starts {
        let folder = bench.scratch().join(format!("start-{round}"));
        let server = Process::pintle(&binary, &folder).await?;
        first.add(&server);
        server.stop().await?;
        let process = Process::pintle(&binary, &folder).await?;
        second.add(&process);
        if round < bench.plan.rounds {
            tokio::time::sleep(bench.plan.idle).await;
            idle.extend(process.server.meter.resident()?.map(megabytes));
        }
        process.stop().await?;
    }
    let name = format!("idle, {:.0} s after the start", bench.plan.idle.as_secs_f64());
    let report = &mut bench.report;
    report.section("start to ready");
    first.report("empty folder, first start (makes certificates)", 100.0, report);
    second.report("empty store, second start", 100.0, report);
    report.section("memory");
    report.row(name, middle(idle), "MB").at_most(30.0).note("the peer with etcd: 98 MB");
    Ok(())
}
