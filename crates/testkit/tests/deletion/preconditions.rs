//! Preconditions: what an object has to be for a delete or an update to go on.

use serde_json::{Value, json};

use crate::{NONE, Scene, any, gone, held, map, refused};

fn of(what: &str, wanted: &str) -> Value {
    json!({"preconditions": {what: wanted}})
}

fn uid_differs(wanted: &str) -> Value {
    refused(
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition ({wanted}) does not match the UID \
             in record ($a.uid). The object might have been deleted and then recreated"
        ),
    )
}

fn version_differs(wanted: &str) -> Value {
    refused(
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition ({wanted}) does not \
             match the ResourceVersion in record ($a.rv). The object might have been modified"
        ),
    )
}

#[test]
fn only_what_is_meant_goes() {
    let both = |uid: &str, version: &str| json!({"preconditions": {"uid": uid, "resourceVersion": version}});
    let mut named = uid_differs("no");
    named["details"] = json!({"name": "a", "kind": "ConfigMap", "group": null});
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("POST configmaps", map("a"), 201, any()),
                ("DELETE configmaps/a", of("uid", "no"), 409, named),
                ("DELETE configmaps/a", of("uid", ""), 409, uid_differs("")),
                ("DELETE configmaps/a?uid=no", NONE, 409, uid_differs("no")),
                ("DELETE configmaps/a", of("resourceVersion", "1"), 409, version_differs("1")),
                ("DELETE configmaps/a?resourceVersion=0", NONE, 409, version_differs("0")),
                ("DELETE configmaps/a", both("no", "1"), 409, uid_differs("no")),
                ("DELETE configmaps/a", both("$a.uid", "1"), 409, version_differs("1")),
                // They come after the look whether the object is there at all.
                ("DELETE configmaps/b", of("uid", "no"), 404, refused("NotFound", "configmaps \"b\" not found")),
                ("DELETE configmaps/a", both("$a.uid", "$a.rv"), 200, gone("configmaps", "a")),
                // They hold for a second delete, too, and for a trial.
                ("POST configmaps", held("a", &["example.com/a"]), 201, any()),
                ("DELETE configmaps/a", of("resourceVersion", "$a.rv"), 200, any()),
                ("DELETE configmaps/a?dryRun=All&uid=no", NONE, 409, uid_differs("no")),
                ("DELETE configmaps/a", of("uid", "$a.uid"), 200, any()),
            ])
            .await;
        scene.end().await;
    });
}

/// A pod that goes at once is marked before, which makes a revision that nobody can name beforehand.
#[test]
fn the_mark_is_no_change_of_others() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("POST pods", pod, 201, any()),
                ("DELETE pods/p", of("resourceVersion", "$p.rv"), 200, json!({"kind": "Pod"})),
                ("GET pods/p", NONE, 404, any()),
            ])
            .await;
        scene.end().await;
    });
}

/// Kinds that are marked first say it in other words.
#[test]
fn marked_kinds_have_their_own_words() {
    let words = |resource: &str, name: &str, what: &str, wanted: &str, found: &str| {
        let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
        refused("Conflict", &format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}"))
    };
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let definitions = "customresourcedefinitions.apiextensions.k8s.io";
    let mut uid = words("namespaces", "n", "UID", "no", "$n.uid");
    uid["details"] = json!({"name": "n", "kind": "namespaces"});
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("POST /api/v1/namespaces", map("n"), 201, any()),
                ("DELETE /api/v1/namespaces/n", of("uid", "no"), 409, uid),
                (
                    "DELETE /api/v1/namespaces/n",
                    of("resourceVersion", "1"),
                    409,
                    words("namespaces", "n", "ResourceVersion", "1", "$n.rv"),
                ),
                ("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, 201, any()),
                (
                    "DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com",
                    of("uid", "no"),
                    409,
                    words(definitions, "widgets.example.com", "UID", "no", "$widgets.example.com.uid"),
                ),
            ])
            .await;
        scene.end().await;
    });
}

#[test]
fn an_update_of_another_object_of_the_name_is_a_conflict() {
    const IMMUTABLE: &str = "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"no\": field is immutable";
    let uid = |uid: &str| json!({"metadata": {"name": "a", "uid": uid}});
    let conflict = |found: &str| {
        refused(
            "Conflict",
            &format!(
                "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, Key: \
                 /registry/configmaps/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
                 precondition: no, UID in object meta: {found}"
            ),
        )
    };
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("POST configmaps", map("a"), 201, any()),
                ("PUT configmaps/a", uid("no"), 409, conflict("$a.uid")),
                // A patch has no precondition of its own: it makes an object that may not be.
                ("MERGE configmaps/a", json!({"metadata": {"uid": "no"}}), 422, refused("Invalid", IMMUTABLE)),
                ("PUT configmaps/a", uid("$a.uid"), 200, any()),
                // An object that came later under the same name is another one.
                ("DELETE configmaps/a", NONE, 200, any()),
            ])
            .await;
        let before = scene.known["a.uid"].clone();
        scene.check(&[("POST configmaps", map("a"), 201, any())]).await;
        assert_ne!(scene.known["a.uid"], before);
        scene.check(&[("DELETE configmaps/a", of("uid", &before), 409, uid_differs(&before))]).await;
        scene.end().await;
    });
}
