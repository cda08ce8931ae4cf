//! `pintle store`: looks at the stored values of a running server, and changes how they are encrypted.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Subcommand;
use http::Method;
use pintle_value::Value;

use super::administrator::{Administrator, block_on, url_encoded};

/// The number of values that one request looks at, at most.
const VALUES_PER_REQUEST: u32 = 100;
/// How many values that cannot be written are named.
const MAX_NAMED: usize = 10;
/// The time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// `pintle store`.
#[derive(Subcommand)]
pub(crate) enum StoreCommand {
    /// Look at the encryption of stored values.
    #[command(subcommand)]
    Encryption(EncryptionCommand),
    /// Write all values again that are not encrypted with the current key of their resource. The server must be running.
    Reencrypt(ReencryptCommand),
    /// Encrypt the embedded store of a running server with a new data key, which the first key of --store-key-file, or
    /// the KMS plugin, wraps. Returns when nothing in the store is encrypted with earlier data keys.
    RotateKey(RotateKeyCommand),
}

/// `pintle store encryption`.
#[derive(Subcommand)]
pub(crate) enum EncryptionCommand {
    /// Count the stored values by resource and key. The server must be running.
    Status(StatusCommand),
}

/// The values that a command looks at.
#[derive(clap::Args)]
struct StoredValues {
    /// The data directory of the server.
    #[arg(long, value_name = "DIR", default_value = "pintle-data")]
    data_dir: PathBuf,
    /// Only the values of a resource, such as secrets or deployments.apps.
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
}

/// `pintle store encryption status`.
#[derive(clap::Args)]
pub(crate) struct StatusCommand {
    #[command(flatten)]
    values: StoredValues,
}

/// `pintle store reencrypt`.
#[derive(clap::Args)]
pub(crate) struct ReencryptCommand {
    #[command(flatten)]
    values: StoredValues,
    /// How many values to write in a second, at most.
    #[arg(long, value_name = "COUNT", default_value = "200", value_parser = clap::value_parser!(u32).range(1..))]
    per_second: u32,
}

impl StoreCommand {
    pub(crate) fn run(self) -> Result<String, String> {
        match self {
            Self::Encryption(EncryptionCommand::Status(command)) => block_on(command.run()),
            Self::Reencrypt(command) => block_on(command.run()),
            Self::RotateKey(command) => block_on(command.run()),
        }
    }
}

impl StoredValues {
    /// Sends one request after the other, each with the token from the last answer. `each` gets the answers.
    async fn visit<V: Future<Output = ()>>(
        &self,
        (method, path): (Method, &str),
        limit: u32,
        mut each: impl FnMut(Value) -> V,
    ) -> Result<(), String> {
        let administrator = Administrator::of(&self.data_dir)?;
        let resource = url_encoded(self.resource.as_deref().unwrap_or_default());
        let mut token = String::new();
        loop {
            let path = format!("{path}?resource={resource}&limit={limit}&continue={}", url_encoded(&token));
            let answer = administrator.call(method.clone(), &path, None).await?;
            answer.str_at(&["continue"]).clone_into(&mut token);
            each(answer).await;
            if token.is_empty() {
                return Ok(());
            }
        }
    }
}

/// The count in a field of an answer.
fn count(answer: &Value, field: &str) -> u64 {
    answer.get(field).and_then(Value::as_int).and_then(|count| count.try_into().ok()).unwrap_or_default()
}

/// The stored values with a key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct KeyUse {
    resource: String,
    provider: String,
    key: String,
    /// Whether new values get this key; empty if that is not known.
    current: &'static str,
}

impl StatusCommand {
    /// Returns a table.
    async fn run(self) -> Result<String, String> {
        let mut uses = std::collections::BTreeMap::<KeyUse, u64>::new();
        let each = |answer: Value| {
            for found in answer.get("counts").and_then(Value::as_array).into_iter().flatten() {
                let text = |field: &str| found.str_at(&[field]).to_owned();
                let current = match found.get("current").and_then(Value::as_bool) {
                    Some(true) => "yes",
                    Some(false) => "no",
                    None => "",
                };
                let (resource, provider, key) = (text("resource"), text("provider"), text("key"));
                *uses.entry(KeyUse { resource, provider, key, current }).or_default() += count(found, "objects");
            }
            std::future::ready(())
        };
        self.values.visit((Method::GET, "/debug/encryption/keys"), VALUES_PER_REQUEST, each).await?;
        let header = ["RESOURCE", "PROVIDER", "KEY", "OBJECTS", "CURRENT"].map(str::to_owned);
        let rows = uses.into_iter().map(|(KeyUse { resource, provider, key, current }, count)| {
            [resource, provider, key, count.to_string(), current.to_owned()]
        });
        Ok(table(&std::iter::once(header).chain(rows).collect::<Vec<_>>()))
    }
}

/// Aligns the columns of a table.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}   ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The sums of the answers so far.
#[derive(Default)]
struct Progress {
    examined: u64,
    rewritten: u64,
    expiring: u64,
    unreadable: u64,
    failed: u64,
    /// The keys of values that could not be written, with the reasons.
    failures: Vec<String>,
}

impl Progress {
    fn add(&mut self, answer: &Value) {
        self.examined += count(answer, "examined");
        self.rewritten += count(answer, "rewritten");
        self.expiring += count(answer, "expiring");
        self.unreadable += count(answer, "unreadable");
        self.failed += count(answer, "failed");
        let failures = answer.get("failures").and_then(Value::as_array).into_iter().flatten();
        self.failures.extend(failures.filter_map(|failure| Some(failure.as_str()?.to_owned())));
        self.failures.truncate(MAX_NAMED);
    }

    fn text(&self) -> String {
        let mut text = format!("{} values examined, {} written again", self.examined, self.rewritten);
        if self.expiring > 0 {
            let _ = write!(text, ", {} left to expire", self.expiring);
        }
        if self.unreadable > 0 {
            let _ = write!(text, ", {} that cannot be decrypted", self.unreadable);
        }
        if self.failed > 0 {
            let _ = write!(text, ", {} that cannot be written:", self.failed);
            for failure in &self.failures {
                let _ = write!(text, "\n  {failure}");
            }
        }
        text
    }
}

impl ReencryptCommand {
    /// Prints progress to standard error, and returns the result.
    async fn run(self) -> Result<String, String> {
        let started = Instant::now();
        let (mut progress, mut printed) = (Progress::default(), started);
        let each = |answer: Value| {
            progress.add(&answer);
            if printed.elapsed() >= PROGRESS_INTERVAL {
                printed = Instant::now();
                let _ = writeln!(std::io::stderr(), "{}", progress.text());
            }
            // The rate counts from the start, so that slow answers are made up for.
            let due = Duration::from_secs_f64(progress.rewritten as f64 / f64::from(self.per_second));
            tokio::time::sleep(due.saturating_sub(started.elapsed()))
        };
        let limit = self.per_second.min(VALUES_PER_REQUEST);
        self.values.visit((Method::POST, "/debug/encryption/reencrypt"), limit, each).await?;
        match progress.unreadable + progress.failed {
            0 => Ok(progress.text() + "\n"),
            _ => Err(progress.text()),
        }
    }
}

/// `pintle store rotate-key`.
#[derive(clap::Args)]
pub(crate) struct RotateKeyCommand {
    /// The data directory of the server.
    #[arg(long, value_name = "DIR", default_value = "pintle-data")]
    data_dir: PathBuf,
}

impl RotateKeyCommand {
    async fn run(self) -> Result<String, String> {
        let administrator = Administrator::of(&self.data_dir)?;
        let mut answer = administrator.call(Method::POST, "/debug/encryption/store/rotate-key", None).await?;
        let newest = newest_data_key(&answer).ok_or("the server's answer has no data key")?.0;
        let mut printed = Instant::now();
        loop {
            let keys = answer.get("dataKeys").and_then(Value::as_array).into_iter().flatten();
            let earlier: Vec<&Value> = keys.filter(|key| count(key, "id") < newest).collect();
            if earlier.is_empty() {
                let wrapped_with = newest_data_key(&answer).map(|(_, id)| id).unwrap_or_default();
                return Ok(format!("data key {newest} encrypts the whole store, wrapped with {wrapped_with}\n"));
            }
            let problem = answer.str_at(&["problem"]);
            if !problem.is_empty() {
                return Err(format!("data key {newest} encrypts the store, but {problem}"));
            }
            if printed.elapsed() >= PROGRESS_INTERVAL {
                printed = Instant::now();
                let records: u64 = earlier.iter().map(|key| count(key, "records")).sum();
                let _ = writeln!(std::io::stderr(), "{records} records left under earlier data keys");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            answer = administrator.call(Method::GET, "/debug/encryption/store", None).await?;
        }
    }
}

/// The id of the newest data key, and of the key-encryption key that wraps it.
fn newest_data_key(answer: &Value) -> Option<(u64, String)> {
    let newest = answer.get("dataKeys")?.as_array()?.last()?;
    Some((count(newest, "id"), newest.str_at(&["wrappedWith"]).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["A", "BB", ""], ["secrets", "x", "yes"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "A         BB\nsecrets   x    yes\n");
    }

    #[test]
    fn progress_names_what_is_left() {
        let mut progress = Progress { examined: 10, rewritten: 3, ..Progress::default() };
        assert_eq!(progress.text(), "10 values examined, 3 written again");
        progress.add(&pintle_value::object! { "examined": 2, "expiring": 1, "unreadable": 1 });
        let expect = "12 values examined, 3 written again, 1 left to expire, 1 that cannot be decrypted";
        assert_eq!(progress.text(), expect);
    }
}
