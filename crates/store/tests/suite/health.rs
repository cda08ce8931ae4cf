//! The health of a store: open and closed stores. Failing disks are in `power_loss`.

use pintle_store::{Change, Error, HistoryRetention};

use crate::script::EngineUnderTest;

#[tokio::test]
async fn an_open_store_is_healthy_and_a_closed_one_is_not() {
    for engine in
        [EngineUnderTest::memory(HistoryRetention::default()), EngineUnderTest::embedded(HistoryRetention::default())]
    {
        engine.store.health().unwrap();
        engine.store.commit(Change::create("/a", "1")).await.unwrap();
        engine.store.commit(Change::create("/a", "1")).await.unwrap_err();
        engine.store.health().expect("a conflict is not a failure of the store");
        engine.store.close().await.unwrap();
        assert!(matches!(engine.store.health(), Err(Error::Closed)));
    }
}
