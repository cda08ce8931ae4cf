//! Every kind through every verb: what discovery names is created, shown in every form, watched, changed, patched and
//! deleted, with one sample object per kind from `samples`. A served resource without a sample fails the suite, so that
//! no kind comes to be served untried.

mod apply;
mod forms;
mod kind;
mod removal;
mod restart;
mod subresources;
mod views;
mod walk;
mod watching;
mod writes;

use walk::{every_kind, samples_and_discovery_agree};

#[test]
fn every_served_resource_has_a_sample() {
    pintle_testkit::run(samples_and_discovery_agree());
}

#[test]
fn every_kind_is_shown_in_every_form() {
    every_kind(forms::single);
}

#[test]
fn every_kind_is_listed_in_every_form() {
    every_kind(forms::list);
}

#[test]
fn what_is_not_stored_is_shown_in_every_form() {
    every_kind(forms::computed);
}

#[test]
fn every_kind_is_watched() {
    every_kind(watching::watched);
}

#[test]
fn every_kind_is_updated_against_its_version() {
    every_kind(writes::updates);
}

#[test]
fn every_kind_takes_every_type_of_patch() {
    every_kind(writes::patches);
}

#[test]
fn every_kind_is_applied() {
    every_kind(apply::applied);
}

#[test]
fn a_status_is_applied_by_its_subresource_alone() {
    every_kind(apply::status);
}

#[test]
fn a_scale_is_applied_in_place_of_the_replicas() {
    every_kind(apply::scale);
}

#[test]
fn dry_runs_of_every_kind_store_nothing() {
    every_kind(writes::dry_runs);
}

#[test]
fn every_kind_tells_of_unknown_fields() {
    every_kind(writes::unknown_fields);
}

#[test]
fn every_kind_is_written_in_every_encoding() {
    every_kind(writes::encodings);
}

#[test]
fn a_status_is_written_by_its_subresource_alone() {
    every_kind(subresources::status);
}

#[test]
fn every_scale_shows_and_sets_the_replicas() {
    every_kind(subresources::scale);
}

#[test]
fn subresources_show_the_object_and_keep_what_does_not_change() {
    every_kind(subresources::whole_objects);
}

#[test]
fn every_kind_is_deleted() {
    every_kind(removal::one);
}

#[test]
fn every_collection_is_deleted() {
    every_kind(removal::collection);
}

#[test]
fn verbs_that_discovery_does_not_name_are_not_allowed() {
    every_kind(removal::other_verbs);
}

#[test]
fn versions_are_views_of_the_same_objects() {
    every_kind(views::views);
}

#[test]
fn what_is_only_created_keeps_nothing() {
    every_kind(views::created_only);
}

#[test]
fn every_kind_survives_a_restart_byte_for_byte() {
    pintle_testkit::run(restart::survives());
}
