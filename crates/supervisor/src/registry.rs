//! The background tasks of a server.

use parking_lot::RwLock;

use crate::BackgroundTask;

/// The background tasks of a server, in the order in which they were added.
#[derive(Debug, Default)]
pub struct BackgroundTasks(RwLock<Vec<BackgroundTask>>);

impl BackgroundTasks {
    /// Adds a task that something else has created, unless there is one of its name.
    pub fn add(&self, task: BackgroundTask) {
        let mut tasks = self.0.write();
        if tasks.iter().all(|known| known.name() != task.name()) {
            tasks.push(task);
        }
    }

    /// The task of a name, which is added if there is none.
    #[must_use]
    pub fn task(&self, name: &'static str) -> BackgroundTask {
        let mut tasks = self.0.write();
        if let Some(task) = tasks.iter().find(|task| task.name() == name) {
            return task.clone();
        }
        let task = BackgroundTask::new(name);
        tasks.push(task.clone());
        task
    }

    /// All tasks.
    #[must_use]
    pub fn all(&self) -> Vec<BackgroundTask> {
        self.0.read().clone()
    }
}
