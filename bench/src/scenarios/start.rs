//! The start time of a server, until it prints its URL and until the first response over TLS. It is measured with an
//! empty data directory, with a directory from an earlier start, and with the store in memory. The time to stop, and
//! the memory and processor time of an idle server, are measured too.

use std::time::{Duration, Instant};

use super::megabytes;
use crate::Result;
use crate::load::median;
use crate::report::Report;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::ServerProcess;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "start",
    description: "start time with an empty store, memory and CPU while idle",
    requires_binary: true,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The times of repeated starts, in milliseconds.
#[derive(Default)]
pub(super) struct StartTimes {
    until_url: Vec<f64>,
    until_response: Vec<f64>,
}

impl StartTimes {
    /// Adds the times of a start.
    pub(super) fn add(&mut self, server: &ServerProcess) {
        self.until_url.push(server.time_to_address.as_secs_f64() * 1e3);
        self.until_response.push(server.time_to_first_response.as_secs_f64() * 1e3);
    }

    fn is_empty(&self) -> bool {
        self.until_url.is_empty()
    }

    /// Reports the median start time. `limit` is its budget in milliseconds.
    pub(super) fn report(self, name: &str, limit: f64, report: &mut Report) {
        let note = format!("first response over TLS after {:.1} ms", median(self.until_response));
        report.row(name, median(self.until_url), "ms").at_most(limit).note(note);
    }
}

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let (mut first, mut second, mut memory) = (StartTimes::default(), StartTimes::default(), StartTimes::default());
    let (mut stops, mut idle, mut idle_cpu) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..bench.plan.starts {
        let folder = bench.scratch().join(format!("start-{round}"));
        let server = bench.start_server(&folder).await?;
        first.add(&server);
        let stopping = Instant::now();
        server.stop().await?;
        stops.push(stopping.elapsed().as_secs_f64() * 1e3);
        let process = bench.start_server(&folder).await?;
        second.add(&process);
        if round < bench.plan.rounds {
            let meter = &process.server.meter;
            tokio::time::sleep(bench.plan.idle).await;
            idle.extend(meter.resident_bytes()?.map(megabytes));
            let (before, rest) = (meter.cpu_time()?, Instant::now());
            tokio::time::sleep(bench.plan.idle).await;
            let share = |cpu: Duration| cpu.as_secs_f64() / rest.elapsed().as_secs_f64() * 100.0;
            idle_cpu.extend(meter.cpu_time_since(before)?.map(share));
        }
        process.stop().await?;
        if let Ok(binary) = bench.binary() {
            let server = ServerProcess::pintle_in_memory(&binary, &folder).await?;
            memory.add(&server);
            server.stop().await?;
        }
    }
    let name = format!("idle server, {:.0} s after the start", bench.plan.idle.as_secs_f64());
    let report = &mut bench.report;
    report.section("start to ready");
    first.report("empty data directory, first start (generates certificates)", 100.0, report);
    second.report("empty store, second start", 100.0, report);
    if !memory.is_empty() {
        memory.report("store in memory", 30.0, report);
    }
    report.row("stop", median(stops), "ms").at_most(20.0);
    report.section("idle");
    report.row(format!("{name}: memory"), median(idle), "MB").at_most(30.0);
    if !idle_cpu.is_empty() {
        report.row(format!("{name}: CPU"), median(idle_cpu), "% of a core").at_most(0.1);
    }
    Ok(())
}
