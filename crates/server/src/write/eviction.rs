//! Evicts pods: creates of the subresource `pods/eviction` (upstream: `registry/core/pod/storage/eviction.go`). An
//! eviction deletes a pod if its PodDisruptionBudget allows that.

use std::sync::Arc;
use std::time::Duration;

use pintle_registry::{ApiError, GroupResource, GroupVersionKind, ObjectClient, Resource};
use pintle_value::{Errors, FieldPath, Value};
use tokio::time::Instant;

use super::delete::{delete_as_part_of, precondition_conflict};
use super::internal_client::InternalClient;
use super::update::{GuaranteedUpdate, ValidationRules};
use super::writer::Writer;
use crate::context::RequestContext;
use crate::http::random_share;
use crate::request::query::{DeleteOptions, IGNORE_READ_ERROR, Preconditions, WriteOptions};

/// The maximum number of attempts of a step while other writes conflict with it, and the pause between two attempts. Up
/// to a tenth is added to the pause (upstream: `EvictionsRetry`).
const MAX_ATTEMPTS: u32 = 20;
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The error for a pod that several budgets cover.
const SEVERAL_BUDGETS: &str =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";

fn budgets() -> GroupResource {
    GroupResource::new("policy", "poddisruptionbudgets")
}

/// Checks an `Eviction` after mutating admission, and gives its delete options the `dryRun` of the request. The two
/// values of `dryRun` may not contradict each other.
///
/// # Errors
/// The eviction is for another pod, or its options are not supported.
pub(super) fn prepare_eviction(request: &RequestContext, eviction: &mut Value) -> Result<(), ApiError> {
    if eviction.name() != request.info.name {
        return Err(ApiError::BadRequest("name in URL does not match name in Eviction object".to_owned()));
    }
    if eviction.bool_at(&["deleteOptions", IGNORE_READ_ERROR]) {
        let mut errors = Errors::new();
        let path = FieldPath::new("deleteOptions");
        let why = "can not be set for pod eviction, try after removing the option";
        errors.invalid(&path.child(IGNORE_READ_ERROR), true, why);
        let kind = GroupVersionKind::new("policy", "v1", "Eviction");
        return Err(ApiError::Invalid { kind, name: request.info.name.as_str().into(), errors });
    }
    let requested: Vec<&str> = request.query.all("dryRun").collect();
    let Some(options) = eviction.at_mut(&["deleteOptions"]).filter(|options| !options.is_null()) else {
        return Ok(());
    };
    let own = dry_run(options);
    if own.is_empty() && !requested.is_empty() {
        options.set("dryRun", requested);
    } else if !requested.is_empty() && own != requested {
        return Err(ApiError::Unclassified(format!(
            "Non-matching dry-run options in request and content: [{}] and [{}]",
            requested.join(" "),
            own.join(" ")
        )));
    }
    Ok(())
}

/// Evicts the pod of a request. `eviction` is prepared and admitted.
///
/// # Errors
/// The pod does not exist, its budget does not allow the eviction, or the delete options are invalid or fail a
/// precondition.
pub(super) async fn evict(
    request: &RequestContext,
    pods: &Arc<Resource>,
    eviction: &Value,
    write_options: &WriteOptions,
) -> Result<(), ApiError> {
    let given = eviction.at(&["deleteOptions"]).filter(|options| !options.is_null());
    let mut body = given.cloned().unwrap_or_else(Value::object);
    if given.is_none() && write_options.dry_run {
        body.set("dryRun", request.query.all("dryRun").collect::<Vec<_>>());
    }
    let options = DeleteOptions::from_body(&body, request.cluster.gates());
    let preconditions = Preconditions::from_body(&body).unwrap_or_default();
    let is_dry_run = !dry_run(&body).is_empty();
    Eviction { request, pods, write_options, options, preconditions, is_dry_run }.run().await
}

/// Checks preconditions that are not empty. The delete checks them again, with the same errors.
fn check_preconditions(pods: &Resource, preconditions: &Preconditions, pod: &Value) -> Result<(), ApiError> {
    let is_set = |wanted: &&String| !wanted.is_empty();
    for (what, wanted, stored, possible_cause) in [
        ("UID", &preconditions.uid, pod.uid(), "deleted and then recreated"),
        ("ResourceVersion", &preconditions.version, pod.resource_version(), "modified"),
    ] {
        if let Some(wanted) = wanted.as_ref().filter(is_set)
            && wanted != stored
        {
            return Err(precondition_conflict(pods, pod.name(), (what, wanted, stored), possible_cause));
        }
    }
    Ok(())
}

/// The values of the option `dryRun`.
fn dry_run(options: &Value) -> Vec<String> {
    options.items_at(&["dryRun"]).iter().map(|value| value.as_str().unwrap_or_default().to_owned()).collect()
}

fn is_conflict(error: &ApiError) -> bool {
    matches!(error, ApiError::Conflict { .. })
}

/// The eviction of one pod.
struct Eviction<'a> {
    request: &'a RequestContext,
    pods: &'a Arc<Resource>,
    write_options: &'a WriteOptions,
    /// The delete options. As in upstream, invalid options are an error only when the pod would be deleted. Unlike
    /// upstream, nothing is stored before this error.
    options: Result<DeleteOptions, ApiError>,
    preconditions: Preconditions,
    is_dry_run: bool,
}

impl Eviction<'_> {
    async fn run(&self) -> Result<(), ApiError> {
        let mut attempts = Attempts::new(self.request);
        let pod = loop {
            let pod = self.read(&self.pods.group_resource(), &self.request.info.name).await?;
            if !pintle_kinds::is_evicted_without_budget(&pod) {
                break pod;
            }
            // Only the client's own resourceVersion makes a conflict final.
            let has_version = self.preconditions.version.is_some();
            let pins_version = !has_version && pintle_kinds::may_become_ready(&pod);
            let deleted = self.mark_and_delete(pins_version.then(|| pod.resource_version())).await;
            let may_retry = !has_version && deleted.as_ref().is_err_and(is_conflict);
            if !may_retry || !attempts.wait_for_next().await {
                return deleted;
            }
        };
        let Some(budget) = self.budget_of(&pod).await? else { return self.mark_and_delete(None).await };
        if !pintle_kinds::budget_spares(&budget, &pod) {
            self.count_disruption(budget, pod.name()).await?;
            return self.mark_and_delete(None).await;
        }
        // The pod must not have become healthy since it was read. As in upstream, this precondition replaces the
        // client's precondition.
        let deleted = self.mark_and_delete(Some(pod.resource_version())).await;
        match deleted {
            Err(error) if is_conflict(&error) && self.preconditions.version.is_none() => {
                Err(pintle_kinds::budget_not_observed(budget.name()))
            }
            deleted => deleted,
        }
    }

    /// The current state of an object in the namespace of the request.
    async fn read(&self, resource: &GroupResource, name: &str) -> Result<Value, ApiError> {
        let cluster = &self.request.cluster;
        crate::cluster::check_key(name)?;
        cluster.catch_up().await?;
        let found = cluster.get_object(resource, &self.request.info.namespace, name)?;
        found.ok_or_else(|| ApiError::NotFound { resource: resource.clone(), name: name.into() })
    }

    /// The budget that covers a pod, if there is one.
    ///
    /// # Errors
    /// Several budgets cover the pod, or budgets are not served.
    async fn budget_of(&self, pod: &Value) -> Result<Option<Value>, ApiError> {
        let cluster = &self.request.cluster;
        // If budgets are not served, the server cannot check them. This is no reason to allow the eviction.
        cluster.hub_of(&budgets())?;
        cluster.catch_up().await?;
        let mut found = None;
        for budget in cluster.read_objects(&budgets(), &self.request.info.namespace)? {
            let budget = budget.decode()?;
            if pintle_kinds::is_covered_by(pod, &budget) && found.replace(budget).is_some() {
                return Err(ApiError::Unclassified(SEVERAL_BUDGETS.to_owned()));
            }
        }
        Ok(found)
    }

    /// Takes a disruption from a budget and stores the budget's status. From the status, the disruption controller
    /// learns of the pod, which it no longer counts as healthy.
    async fn count_disruption(&self, mut budget: Value, pod: &str) -> Result<(), ApiError> {
        let client = InternalClient(self.request.cluster.clone());
        let mut attempts = Attempts::new(self.request);
        loop {
            let mut counted = budget.clone();
            pintle_kinds::count_disruption(
                self.request.cluster.gates(),
                &mut counted,
                pod,
                self.request.cluster.now(),
            )?;
            if self.is_dry_run || self.options.is_err() {
                return Ok(());
            }
            match client.update_status(&budgets(), counted).await {
                Ok(_) => return Ok(()),
                Err(error) => {
                    if !is_conflict(&error) || !attempts.wait_for_next().await {
                        return Err(error);
                    }
                }
            }
            budget = self.read(&budgets(), budget.name()).await?;
        }
    }

    /// Sets the condition with the reason of the pod's end, and deletes the pod. `revision` is the required
    /// resourceVersion, if it differs from the client's.
    async fn mark_and_delete(&self, revision: Option<&str>) -> Result<(), ApiError> {
        let mut preconditions = self.preconditions.clone();
        if let Some(revision) = revision {
            preconditions.version = Some(revision.to_owned());
        }
        if !self.is_dry_run {
            let revision = self.mark(&preconditions).await?;
            if preconditions.version.is_some() {
                preconditions.version = Some(revision.to_string());
            }
        }
        let options = DeleteOptions { preconditions, ..self.options.clone()? };
        delete_as_part_of(self.writer(), self.pods, self.target(), &options).await
    }

    /// Sets the condition of the pod. Returns the new revision.
    async fn mark(&self, preconditions: &Preconditions) -> Result<u64, ApiError> {
        let update = GuaranteedUpdate {
            subresource: "status",
            rules: ValidationRules::Subresource,
            ..GuaranteedUpdate::new(self.writer(), self.pods, self.target())
        };
        let now = self.request.cluster.now();
        let marked = update.run(|pod| {
            check_preconditions(self.pods, preconditions, pod)?;
            if let Err(error) = &self.options {
                return Err(error.clone());
            }
            let mut pod = pod.clone();
            pintle_kinds::mark_evicted(&mut pod, now);
            Ok(pod)
        });
        Ok(marked.await?.revision)
    }

    /// Admission ran for the eviction, so it does not run for the writes of the pod. They are writes of the server
    /// itself, so a shortage of memory does not keep pods from being deleted.
    fn writer(&self) -> Writer<'_> {
        let writer = Writer::for_request(self.request, self.write_options, self.is_dry_run);
        Writer { request: None, ..writer.without_admission() }
    }

    fn target(&self) -> (&str, &str) {
        (&self.request.info.namespace, &self.request.info.name)
    }
}

/// The remaining attempts of a step.
struct Attempts<'a> {
    left: u32,
    request: &'a RequestContext,
}

impl<'a> Attempts<'a> {
    fn new(request: &'a RequestContext) -> Self {
        Self { left: MAX_ATTEMPTS, request }
    }

    /// Waits for the next attempt. Returns false if there is none, or if the request would end before it.
    async fn wait_for_next(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        let next = Instant::now() + RETRY_PAUSE + RETRY_PAUSE.mul_f64(random_share() / 10.0);
        if self.left == 0 || self.request.deadline.min(next) < next {
            return false;
        }
        tokio::time::sleep_until(next).await;
        true
    }
}
