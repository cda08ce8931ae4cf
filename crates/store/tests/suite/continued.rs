//! A new store whose revisions continue another store's revisions.

use crate::form::Form;

use bytes::Bytes;
use pintle_store::{Change, EmbeddedOptions, EmbeddedStore, Error, KeyInterval, Revision, Store};

fn options(form: Form) -> EmbeddedOptions {
    EmbeddedOptions { encryption: form.encryption(), ..EmbeddedOptions::default() }
}

fn create(folder: &tempfile::TempDir, form: Form, previous: u64) -> Result<EmbeddedStore, Error> {
    let value = Bytes::from_static(b"first");
    EmbeddedStore::create(folder.path(), Revision(previous), "/a".into(), value, options(form))
}

#[tokio::test]
async fn a_new_store_continues_the_revisions_of_another_one() {
    for (form, previous) in [
        (Form::Plain, 0_u64),
        (Form::Plain, 1),
        (Form::Plain, 7),
        (Form::Plain, 1 << 40),
        (Form::Encrypted, 0),
        (Form::Encrypted, 7),
    ] {
        let folder = tempfile::tempdir().unwrap();
        assert!(!EmbeddedStore::exists_in(folder.path()).unwrap());
        let mut store = create(&folder, form, previous).unwrap();
        assert!(EmbeddedStore::exists_in(folder.path()).unwrap());
        let first = Revision(previous.max(1) + 1);
        for reopened in [false, true] {
            assert_eq!(store.current_revision().await.unwrap(), first);
            let record = store.get("/a".into(), None).await.unwrap().unwrap();
            assert_eq!((record.mod_revision, record.create_revision, &*record.value), (first, first, &b"first"[..]));
            let before = Revision(first.get() - 1);
            assert_eq!(store.oldest_revision().await.unwrap(), before);
            assert_eq!(store.get("/a".into(), Some(before)).await.unwrap(), None);
            let older = store.get("/a".into(), Some(Revision(before.get() - 1))).await;
            assert!(matches!(older, Err(Error::Compacted { oldest }) if oldest == before), "{older:?}");
            let mut feed = store.changes(before).await.unwrap();
            assert_eq!(feed.next_batch().await.unwrap().changes[0].revision, first);
            if !reopened {
                store.close().await.unwrap();
                store = EmbeddedStore::open(folder.path(), options(form)).unwrap();
            }
        }
        // The store goes on like any other store.
        let next = store.commit(Change::create("/b", "1")).await.unwrap();
        assert_eq!(next, first.next());
        store.commit(Change::delete("/a", pintle_store::Compare::Any)).await.unwrap();
        store.compact(Revision(next.get() + 1)).await.unwrap();
        store.close().await.unwrap();
        let store = EmbeddedStore::open(folder.path(), options(form)).unwrap();
        let found = store.range(KeyInterval::all(), None, None).await.unwrap();
        assert_eq!((found.records.len(), found.revision), (1, Revision(next.get() + 1)));
        store.close().await.unwrap();
        // A directory has only one store.
        let error = create(&folder, form, previous).expect_err("a store exists").to_string();
        assert!(error.contains("pintle.db exists"), "{error}");
    }
}
