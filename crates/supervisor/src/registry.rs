//! The background tasks of a server.

use pintle_locks::RwLock;

use crate::{BackgroundTask, RecoveryTimes};

/// The background tasks of a server, in the order in which they were added.
#[derive(Debug, Default)]
pub struct BackgroundTasks {
    tasks: RwLock<Vec<BackgroundTask>>,
    recovery: RecoveryTimes,
}

impl BackgroundTasks {
    /// No tasks yet. `recovery` applies to all tasks that will be added.
    #[must_use]
    pub fn new(recovery: RecoveryTimes) -> Self {
        Self { tasks: RwLock::default(), recovery }
    }

    /// Adds an existing task, unless there is a task with its name.
    pub fn add(&self, task: BackgroundTask) {
        task.set_recovery(self.recovery);
        let mut tasks = self.tasks.write();
        if tasks.iter().all(|known| known.name() != task.name()) {
            tasks.push(task);
        }
    }

    /// The task with a name. If there is none, it is added.
    #[must_use]
    pub fn task(&self, name: &'static str) -> BackgroundTask {
        let mut tasks = self.tasks.write();
        if let Some(task) = tasks.iter().find(|task| task.name() == name) {
            return task.clone();
        }
        let task = BackgroundTask::new(name);
        task.set_recovery(self.recovery);
        tasks.push(task.clone());
        task
    }

    /// All tasks.
    #[must_use]
    pub fn all(&self) -> Vec<BackgroundTask> {
        self.tasks.read().clone()
    }
}
