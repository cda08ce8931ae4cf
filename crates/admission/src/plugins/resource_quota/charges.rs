//! Charges writes to quotas, by updates of the quotas' status under a compare of their resourceVersion (upstream:
//! `quotaEvaluator.checkQuotas`). Gives the charges of failed writes back.

use std::sync::{Arc, LazyLock};

use pintle_codec::json::Projection;
use pintle_kinds::ResourceList;
use pintle_locks::Mutex;
use pintle_quota::{Charge, LimitedResource, MeasuredWrite, QuotaRefusal, ResourceQuota, check_write, resource_list};
use pintle_registry::{ApiError, BoxFuture, GroupResource, ObjectClient, StoredObject};
use pintle_value::{Str, Value};

use crate::Reservation;

/// How often a conflict with other writers of a quota is resolved.
const RETRIES: usize = 3;
/// The number of attempts to give a charge back. If all fail, the next recalculation of the quota corrects its usage.
const RELEASE_ATTEMPTS: usize = 16;

/// The fields of a quota that a decision needs.
static FIELDS: LazyLock<Projection> =
    LazyLock::new(|| Projection::of(["metadata.name", "metadata.uid", "spec", "status"]));

pub(super) fn quotas() -> GroupResource {
    GroupResource::new("", "resourcequotas")
}

/// Why a write is not admitted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum QuotaError {
    Refused(QuotaRefusal),
    /// The quotas cannot be read or written.
    Failed(ApiError),
}

/// The decision about a write.
pub(super) type Decision = Result<(), QuotaError>;

/// A write that is charged to quotas. Its charges are its reservation.
pub(super) struct ChargedWrite {
    namespace: Str,
    measured: MeasuredWrite,
    charges: Mutex<Vec<QuotaCharge>>,
}

/// The charge of a write to a quota.
#[derive(Clone, Debug)]
struct QuotaCharge {
    name: Str,
    uid: Str,
    usage: ResourceList,
}

/// The quotas of a namespace as they are stored, and as they are with the charges of a batch.
pub(super) struct NamespaceQuotas {
    stored: Vec<Box<dyn StoredObject>>,
    pub(super) quotas: Vec<ResourceQuota>,
}

impl NamespaceQuotas {
    /// Decodes quotas.
    ///
    /// # Errors
    /// A quota cannot be read. The error has upstream's message.
    pub(super) fn decode(stored: Vec<Box<dyn StoredObject>>) -> Result<Self, ApiError> {
        let mut quotas = Vec::with_capacity(stored.len());
        for quota in &stored {
            quotas.push(ResourceQuota::of(&quota.decode_fields(&FIELDS).map_err(unresolved)?));
        }
        Ok(Self { stored, quotas })
    }

    /// Charges the quota at an index in the store.
    async fn store(&self, client: &dyn ObjectClient, index: usize) -> Result<(), ApiError> {
        let quota = with_usage(self.stored[index].decode()?, &self.quotas[index].used);
        client.update_status(&quotas(), quota).await.map(drop)
    }
}

/// Reads the quotas of a namespace, without decoding them.
///
/// # Errors
/// The quotas cannot be read. The error has upstream's message.
pub(super) fn read_quotas(client: &dyn ObjectClient, namespace: &str) -> Result<Vec<Box<dyn StoredObject>>, ApiError> {
    client.read_all(&quotas(), namespace).map(Iterator::collect).map_err(unresolved)
}

fn unresolved(error: ApiError) -> ApiError {
    ApiError::Unclassified(format!("error resolving quota: {error}"))
}

fn with_usage(mut quota: Value, used: &ResourceList) -> Value {
    quota.set_at(&["status", "used"], resource_list::to_value(used));
    quota
}

impl ChargedWrite {
    pub(super) fn new(namespace: &str, measured: MeasuredWrite) -> Self {
        Self { namespace: namespace.into(), measured, charges: Mutex::default() }
    }

    fn is_charged(&self, quota: &ResourceQuota) -> bool {
        self.charges.lock().iter().any(|charge| charge.uid == quota.uid)
    }

    /// The charges of the write to the quotas of its namespace.
    ///
    /// # Errors
    /// The write is refused.
    pub(super) fn check(
        &self,
        quotas: &[ResourceQuota],
        limited: &[LimitedResource],
    ) -> Result<Vec<Charge>, QuotaRefusal> {
        check_write(&self.measured, quotas, limited, |quota| self.is_charged(quota))
    }
}

/// Decides the writes of a batch, which are all in one namespace, and charges the admitted writes.
pub(super) async fn charge(
    client: &dyn ObjectClient,
    limited: &[LimitedResource],
    writes: Vec<Arc<ChargedWrite>>,
) -> Vec<Decision> {
    let mut decisions: Vec<Option<Decision>> = vec![None; writes.len()];
    let mut retries = RETRIES;
    while decisions.iter().any(Option::is_none) {
        match charge_undecided(client, limited, &writes, &mut decisions).await {
            Ok(()) => {}
            Err(_) if retries > 0 => retries -= 1,
            Err(error) => decide_rest(&mut decisions, &Err(QuotaError::Failed(error))),
        }
    }
    decisions.into_iter().map(|decision| decision.unwrap_or(Ok(()))).collect()
}

fn decide_rest(decisions: &mut [Option<Decision>], decision: &Decision) {
    for undecided in decisions.iter_mut().filter(|decision| decision.is_none()) {
        *undecided = Some(decision.clone());
    }
}

/// Makes one attempt to charge the writes that are not decided yet.
///
/// # Errors
/// A quota could not be written. Other quotas may have been charged.
async fn charge_undecided(
    client: &dyn ObjectClient,
    limited: &[LimitedResource],
    writes: &[Arc<ChargedWrite>],
    decisions: &mut [Option<Decision>],
) -> Result<(), ApiError> {
    let Some(namespace) = writes.first().map(|write| &write.namespace) else { return Ok(()) };
    let mut state = match read_quotas(client, namespace).and_then(NamespaceQuotas::decode) {
        Ok(state) => state,
        Err(error) => {
            decide_rest(decisions, &Err(QuotaError::Failed(error)));
            return Ok(());
        }
    };
    // The charges of each quota, with the index of the write.
    let mut charges: Vec<Vec<(usize, ResourceList)>> = vec![Vec::new(); state.quotas.len()];
    for (index, write) in writes.iter().enumerate() {
        if decisions[index].is_some() {
            continue;
        }
        match write.check(&state.quotas, limited) {
            Ok(own) if own.is_empty() => decisions[index] = Some(Ok(())),
            Ok(own) => {
                for Charge { quota, usage } in own {
                    resource_list::add(&mut state.quotas[quota].used, &usage);
                    charges[quota].push((index, usage));
                }
            }
            Err(refusal) => decisions[index] = Some(Err(QuotaError::Refused(refusal))),
        }
    }
    let mut failed = None;
    for (quota, charges) in charges.into_iter().enumerate().filter(|(_, charges)| !charges.is_empty()) {
        match state.store(client, quota).await {
            Ok(()) => {
                let ResourceQuota { name, uid, .. } = &state.quotas[quota];
                for (write, usage) in charges {
                    writes[write].charges.lock().push(QuotaCharge { name: name.clone(), uid: uid.clone(), usage });
                }
            }
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) => Err(error),
        None => {
            decide_rest(decisions, &Ok(()));
            Ok(())
        }
    }
}

impl Reservation for ChargedWrite {
    fn release<'a>(&'a self, client: &'a dyn ObjectClient) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let charges = std::mem::take(&mut *self.charges.lock());
            for charge in charges {
                give_back(client, &self.namespace, &charge).await;
            }
        })
    }
}

/// Gives a charge back to a quota, if the quota is still the same.
async fn give_back(client: &dyn ObjectClient, namespace: &str, charge: &QuotaCharge) {
    let failed = |error: &ApiError| {
        tracing::warn!(namespace, quota = %charge.name, %error, "Failed to give back the charge of a write");
    };
    for attempt in 1..=RELEASE_ATTEMPTS {
        let object = match client.get(&quotas(), namespace, &charge.name) {
            Ok(Some(object)) if object.uid() == charge.uid => object,
            Ok(_) => return,
            Err(error) => return failed(&error),
        };
        let mut used = ResourceQuota::of(&object).used;
        let charged = resource_list::mask(&charge.usage, |name| used.contains_key(name));
        used = resource_list::subtract(&used, &charged);
        match client.update_status(&quotas(), with_usage(object, &used)).await {
            Err(ApiError::Conflict { .. }) if attempt < RELEASE_ATTEMPTS => {}
            Err(ApiError::NotFound { .. }) | Ok(_) => return,
            Err(error) => return failed(&error),
        }
    }
}
