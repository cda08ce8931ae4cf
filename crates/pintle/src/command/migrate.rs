//! `pintle migrate`: copies all objects from the embedded store into etcd, or back.

use std::path::PathBuf;

use clap::ValueEnum;
use pintle::{MigrationOptions, MigrationReport, MigrationTarget, migrate};
use pintle_value::threads::{TREE_STACK, thread_builder};

use super::logging::{self, LoggingFormat};
use super::serve::{EncryptionFlags, EtcdStoreFlags, StoreEncryptionFlags};

/// The target of the copy.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// From the data directory into etcd.
    Etcd3,
    /// From etcd into the data directory.
    Embedded,
}

/// `pintle migrate`. It has the flags of `pintle serve`.
#[derive(clap::Args)]
pub(crate) struct MigrateCommand {
    /// The target of the copy, by its name for --storage-backend. It must have no objects.
    #[arg(long, value_enum)]
    to: Target,
    /// The data directory with the embedded store. Certificates and keys in it stay as they are.
    #[arg(long, value_name = "DIR", default_value = "pintle-data")]
    data_dir: PathBuf,
    #[command(flatten)]
    etcd: EtcdStoreFlags,
    #[command(flatten)]
    encryption: EncryptionFlags,
    #[command(flatten)]
    store_encryption: StoreEncryptionFlags,
    /// The log format.
    #[arg(long, value_enum, default_value = "text")]
    logging_format: LoggingFormat,
}

impl MigrateCommand {
    /// Copies the objects, and returns a report.
    pub(crate) fn run(self) -> Result<String, String> {
        logging::init(0, self.logging_format);
        let options = MigrationOptions {
            target: match self.to {
                Target::Etcd3 => MigrationTarget::Etcd,
                Target::Embedded => MigrationTarget::Embedded,
            },
            data_dir: self.data_dir,
            etcd: self.etcd.config()?,
            encryption: self.encryption.options()?,
            store_encryption: self.store_encryption.options()?,
        };
        let run = move || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.thread_stack_size(TREE_STACK).enable_all().build();
            let migrated = runtime.map_err(|error| error.to_string())?.block_on(migrate(&options));
            migrated.map_err(|error| error.to_string())
        };
        let thread = thread_builder("migrate").spawn(run).map_err(|error| error.to_string())?;
        let report = thread.join().map_err(|_| "the migration panicked".to_owned())??;
        Ok(summary(&report))
    }
}

fn summary(report: &MigrationReport) -> String {
    let MigrationReport { source, target, keys, bytes, expired, source_revision, target_revision, duration } = report;
    format!(
        "copied:    {keys} keys with {bytes} bytes of JSON, in {:.1} s; all were compared\n\
         expired:   {expired} keys meanwhile\n\
         from:      {source}, revision {source_revision}\n\
         to:        {target}, revision {target_revision}\n",
        duration.as_secs_f64()
    )
}
