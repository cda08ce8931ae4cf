//! The texts of `/debug/api_priority_and_fairness` (upstream: `apf_controller_debug.go`): tables whose columns end with
//! commas.

use std::cmp::Reverse;

use pintle_value::Str;
use pintle_value::time::{Duration as GoDuration, Time};

use crate::Moment;
use crate::controller::{FlowController, Shared};
use crate::level::Level;
use crate::queue_set::{FlowUse, QueueSetDump, RequestDump};
use crate::seat_seconds::nanoseconds;

/// The minimum width of a column.
const MIN_WIDTH: usize = 8;
/// The time of a request whose execution has not begun, as Go prints it.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

const REQUEST_COLUMNS: [&str; 10] = [
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    // As upstream spells it.
    "FlowDistingsher",
    "ArriveTime",
    "InitialSeats",
    "FinalSeats",
    "AdditionalLatency",
    "StartTime",
];
const DETAIL_COLUMNS: &str = "UserName,\tVerb,\tAPIPath,\tNamespace,\tName,\tAPIVersion,\tResource,\tSubResource";

impl FlowController {
    /// The present state of a level.
    fn dump(&self, level: &Level) -> QueueSetDump {
        let now = self.shared().now();
        level.update(now, |state| {
            state.queues.advance(now);
            state.queues.dump()
        })
    }

    /// The text of `dump_priority_levels`: a line for each level.
    #[must_use]
    pub fn dump_priority_levels(&self) -> String {
        let mut table = Table::new(&[
            "PriorityLevelName",
            "ActiveQueues",
            "IsIdle",
            "IsQuiescing",
            "WaitingRequests",
            "ExecutingRequests",
            "DispatchedRequests",
            "RejectedRequests",
            "TimedoutRequests",
            "CancelledRequests",
        ]);
        for level in self.levels() {
            let dump = self.dump(&level);
            let is_idle = dump.waiting == 0 && dump.executing == 0;
            let is_quiescing = level.read(|state| state.is_quiescing);
            let active = dump.queues.iter().filter(|queue| !queue.waiting.is_empty()).count();
            table.add([
                level.name.to_string(),
                active.to_string(),
                is_idle.to_string(),
                is_quiescing.to_string(),
                dump.waiting.to_string(),
                dump.executing.to_string(),
                dump.dispatched.to_string(),
                dump.rejected.to_string(),
                // As in upstream, requests that have waited too long are counted as cancelled.
                "0".to_owned(),
                dump.cancelled.to_string(),
            ]);
        }
        table.into_text()
    }

    /// The text of `dump_queues`: a line for each queue.
    #[must_use]
    pub fn dump_queues(&self) -> String {
        let mut table = Table::new(&[
            "PriorityLevelName",
            "Index",
            "PendingRequests",
            "ExecutingRequests",
            "SeatsInUse",
            "NextDispatchR",
            "InitialSeatsSum",
            "MaxSeatsSum",
            "TotalWorkSum",
        ]);
        for level in self.levels() {
            let dump = self.dump(&level);
            for (index, queue) in dump.queues.iter().enumerate() {
                let initial: u64 = queue.waiting.iter().map(|request| request.estimate.initial_seats).sum();
                let max: u64 = queue.waiting.iter().map(|request| request.estimate.max_seats()).sum();
                table.add([
                    level.name.to_string(),
                    index.to_string(),
                    queue.waiting.len().to_string(),
                    queue.executing.len().to_string(),
                    queue.seats_in_use.to_string(),
                    queue.next_dispatch_r.to_string(),
                    initial.to_string(),
                    max.to_string(),
                    queue.waiting_work.to_string(),
                ]);
            }
        }
        table.into_text()
    }

    /// The text of `dump_requests`: a line for each request. `details` adds its user and its target
    /// (`includeRequestDetails`).
    #[must_use]
    pub fn dump_requests(&self, details: bool) -> String {
        let mut headers = REQUEST_COLUMNS.to_vec();
        if details {
            headers.extend(DETAIL_COLUMNS.split(",\t"));
        }
        let mut table = Table::new(&headers);
        for level in self.levels() {
            let dump = self.dump(&level);
            let mut add = |queue: Option<usize>, place: Option<usize>, request: &RequestDump| {
                let index = |index: Option<usize>| index.map_or("-1".to_owned(), |index| index.to_string());
                let mut cells = vec![level.name.to_string()];
                cells.extend(request_cells(self.shared(), request, index(queue), index(place)));
                if details {
                    cells.extend(request.details.columns().split(",\t").map(str::to_owned));
                }
                table.add(cells);
            };
            for (index, queue) in dump.queues.iter().enumerate() {
                for (place, request) in queue.waiting.iter().enumerate() {
                    add(Some(index), Some(place), request);
                }
                queue.executing.iter().for_each(|request| add(Some(index), None, request));
            }
            dump.executing_without_queue.iter().for_each(|request| add(None, None, request));
        }
        table.into_text()
    }

    /// The text of `dump_flows`, which upstream does not have: a line for each flow, with the flows that have really
    /// taken most before the others.
    #[must_use]
    pub fn dump_flows(&self) -> String {
        let mut table = Table::new(&[
            "PriorityLevelName",
            "FlowSchemaName",
            "FlowDistinguisher",
            "ExecutedRequests",
            "RejectedRequests",
            "SeatsInUse",
            "EstimatedSeatSeconds",
            "ActualSeatSeconds",
            "LatestRequest",
        ]);
        let mut flows: Vec<(Str, FlowUse)> = Vec::new();
        for level in self.levels() {
            level.read(|state| flows.extend(state.queues.flow_uses().map(|flow| (level.name.clone(), flow.clone()))));
        }
        flows.sort_by_key(|(_, flow)| Reverse(flow.actual));
        for (level, flow) in flows {
            table.add([
                level.to_string(),
                flow.schema.name.to_string(),
                flow.distinguisher.to_string(),
                flow.executed.to_string(),
                flow.rejected.to_string(),
                flow.seats_in_use.to_string(),
                format!("{:.6}", flow.estimated.as_f64()),
                format!("{:.6}", flow.actual.as_f64()),
                wall_time(self.shared(), flow.latest),
            ]);
        }
        table.into_text()
    }
}

fn request_cells(shared: &Shared, request: &RequestDump, queue: String, place: String) -> [String; 9] {
    let estimate = &request.estimate;
    [
        request.flow_schema.to_string(),
        queue,
        place,
        request.distinguisher.to_string(),
        wall_time(shared, request.arrived),
        estimate.initial_seats.to_string(),
        estimate.final_seats.to_string(),
        GoDuration(nanoseconds(estimate.additional_latency)).to_string(),
        request.started.map_or(NO_TIME.to_owned(), |started| wall_time(shared, started)),
    ]
}

/// A time of the controller as Go's `RFC3339Nano`, in UTC.
fn wall_time(shared: &Shared, now: Moment) -> String {
    let time = shared.unix_time(now);
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Time { seconds, nanos: time.subsec_nanos() }.rfc3339_nano()
}

/// A table as Go's `text/tabwriter` aligns it. Each cell is as wide as its column. Each cell but the last of a row ends
/// with a comma.
struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(headers: &[&str]) -> Self {
        Self { rows: vec![headers.iter().map(|header| (*header).to_owned()).collect()] }
    }

    fn add(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn into_text(self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |cell: &String| cell.chars().count() + ", ".len();
        let widths: Vec<usize> = (0..columns)
            .map(|column| self.rows.iter().filter_map(|row| row.get(column)).map(width).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                text.push_str(cell);
                if column + 1 < row.len() {
                    text.push(',');
                    let padding = (*width).max(MIN_WIDTH).saturating_sub(cell.chars().count() + 1);
                    text.extend(std::iter::repeat_n(' ', padding));
                }
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests;
