//! Tests of every verb for every resource that discovery lists: create, get, list, watch, update, patch and delete. The
//! folder `samples` has one sample object per resource. A served resource without a sample fails the suite, so no
//! resource is served untested.

mod admission;
mod apply;
mod deletes;
mod odd_objects;
mod representations;
mod restart;
mod runner;
mod served_kind;
mod subresources;
mod versions;
mod watches;
mod writes;

use runner::{check_samples_match_discovery, for_every_kind, for_every_kind_at_one_time};

#[test]
fn every_served_resource_has_a_sample() {
    pintle_integration::run(check_samples_match_discovery());
}

#[test]
fn every_kind_has_every_representation() {
    for_every_kind(representations::check_object);
}

#[test]
fn every_list_has_every_representation() {
    for_every_kind(representations::check_list);
}

#[test]
fn computed_kinds_have_every_representation() {
    for_every_kind(representations::check_computed);
}

#[test]
fn every_kind_can_be_watched() {
    for_every_kind(watches::check_watch);
}

#[test]
fn every_kind_is_updated_with_optimistic_concurrency() {
    for_every_kind(writes::check_updates);
}

#[test]
fn every_kind_accepts_every_patch_type() {
    for_every_kind(writes::check_patches);
}

#[test]
fn every_kind_can_be_applied() {
    for_every_kind_at_one_time(apply::check_apply);
}

#[test]
fn status_can_only_be_applied_through_its_subresource() {
    for_every_kind_at_one_time(apply::check_status);
}

#[test]
fn applying_a_scale_owns_the_replicas() {
    for_every_kind(apply::check_scale);
}

#[test]
fn dry_runs_of_every_kind_persist_nothing() {
    for_every_kind(writes::check_dry_runs);
}

#[test]
fn every_kind_reports_unknown_fields() {
    for_every_kind(writes::check_unknown_fields);
}

#[test]
fn every_kind_accepts_every_encoding() {
    for_every_kind(writes::check_encodings);
}

#[test]
fn status_can_only_be_written_through_its_subresource() {
    for_every_kind_at_one_time(subresources::check_status);
}

#[test]
fn every_scale_reads_and_writes_the_replicas() {
    for_every_kind(subresources::check_scale);
}

#[test]
fn subresources_return_the_object_and_skip_no_op_writes() {
    for_every_kind(subresources::check_object_subresources);
}

#[test]
fn every_kind_can_be_deleted() {
    for_every_kind(deletes::check_delete);
}

#[test]
fn every_collection_can_be_deleted() {
    for_every_kind(deletes::check_deletecollection);
}

#[test]
fn verbs_missing_from_discovery_are_not_allowed() {
    for_every_kind(deletes::check_unsupported_verbs);
}

#[test]
fn objects_can_be_read_and_changed_at_every_version() {
    for_every_kind(versions::check_versions);
}

#[test]
fn every_write_at_one_version_is_the_same_at_every_other() {
    for_every_kind(versions::check_writes);
}

#[test]
fn what_an_apply_at_another_version_lacks_is_pruned() {
    for_every_kind(versions::check_pruning);
}

#[test]
fn what_an_apply_of_an_autoscaler_at_another_version_lacks_is_pruned() {
    pintle_integration::run(async {
        versions::check_pruning_of_autoscalers(&pintle_integration::Cluster::start().await).await
    });
}

#[test]
fn create_only_kinds_store_nothing() {
    for_every_kind(versions::check_create_only);
}

#[test]
fn every_kind_is_identical_after_a_restart() {
    pintle_integration::run(restart::check_restart());
}

#[test]
fn every_kind_keeps_odd_objects_over_a_restart() {
    pintle_integration::run(odd_objects::check_odd_objects());
}

#[test]
fn every_write_is_reviewed_once_in_each_phase() {
    let recorder = admission::SharedRecorder::default();
    for_every_kind(move |cluster, kind| admission::check_reviews(cluster, kind, recorder.clone()));
}
