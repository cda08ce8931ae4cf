//! The store's contract as scripts that run on every engine. Read from top to bottom, they are the specification.

use std::time::Duration;

use crate::script::{check, check_with_clock, check_with_retention};
use pintle_store::HistoryRetention;

#[tokio::test]
async fn a_change_commits_only_if_its_compare_holds() {
    check(
        "
        current                => 1
        oldest                 => 1
        create a 1             => 2
        create a 2             => conflict a=1@2/2
        current                => 2
        update a 2 at 2        => 3
        update a 3 at 2        => conflict a=2@3/2
        update b 1 at 2        => conflict
        delete b               => conflict
        delete b at 3          => conflict
        put b x                => 4
        put b y                => 5
        delete b at 4          => conflict b=y@5/4
        delete b absent        => conflict b=y@5/4
        delete b at 5          => 6
        delete b absent        => conflict
        get b                  => nothing
        create b z             => 7
        get b                  => b=z@7/7
        delete a               => 8
        current                => 8
        ",
    )
    .await;
}

#[tokio::test]
async fn a_change_commits_only_if_its_conditions_on_other_keys_hold() {
    check(
        "
        create a 1                          => 2
        create b 1 where a 2                => 3
        put a 2                             => 4
        create c 1 where a 2                => condition failed
        create c 1 where a 0                => condition failed
        create c 1 where d 2                => condition failed
        create c 1 where d 0                => condition failed
        create a 1 where a 4                => conflict a=2@4/2
        create a 1 where a 2                => conflict a=2@4/2
        update b 2 at 3 where a 2           => condition failed
        delete b where a 2                  => condition failed
        delete c where a 2                  => conflict
        create c 1 where a 4 where b 3      => 5
        create d 1 where a 4 where b 2      => condition failed
        create d 1 unwritten a c 4          => 6
        create e 1 unwritten a d 4          => condition failed
        create e 1 unwritten a d 5          => 7
        delete c                            => 8
        create f 1 unwritten a d 4          => 9
        create g 1 unwritten x z 1          => 10
        create h 1 unwritten z x 1          => 11
        create i 1 unwritten a z 10         => condition failed
        update a 3 at 4 unwritten a b 4     => 12
        update a 4 at 12 unwritten a b 4    => condition failed
        delete b at 3 unwritten a c 12      => 13
        create c 2 where b 3                => condition failed
        current                             => 13
        ",
    )
    .await;
}

#[tokio::test]
async fn reads_at_a_revision_return_the_state_of_that_revision() {
    check(
        "
        create a 1             => 2
        create b 1             => 3
        update a 2 at 2        => 4
        delete b               => 5
        create c 1             => 6
        create b 2             => 7
        get a at 1             => nothing
        get a at 2             => a=1@2/2
        get a at 3             => a=1@2/2
        get a at 7             => a=2@4/2
        get b at 2             => nothing
        get b at 4             => b=1@3/3
        get b at 5             => nothing
        get b at 6             => nothing
        get b                  => b=2@7/7
        get a at 8             => future 7
        range a end            => a=2@4/2 b=2@7/7 c=1@6/6 at 7
        range a end at 1       => at 1
        range a end at 4       => a=2@4/2 b=1@3/3 at 4
        range a end at 5       => a=2@4/2 at 5
        range a end at 6       => a=2@4/2 c=1@6/6 at 6
        range a end limit 2    => a=2@4/2 b=2@7/7 and 1 more at 7
        range a end limit 0    => and 3 more at 7
        range a end limit 3    => a=2@4/2 b=2@7/7 c=1@6/6 at 7
        range a end at 4 limit 1 => a=2@4/2 and 1 more at 4
        range a end at 6 limit 1 => a=2@4/2 and 1 more at 6
        range b c              => b=2@7/7 at 7
        range bb end           => c=1@6/6 at 7
        range c b              => at 7
        range a a              => at 7
        range a end at 8       => future 7
        ",
    )
    .await;
}

#[tokio::test]
async fn a_feed_delivers_the_changes_after_its_revision() {
    check(
        "
        feed 1                 =>
        feed 2                 => future 1
        create a 1             => 2
        put a 2                => 3
        create b 1             => 4
        delete a               => 5
        create a 3             => 6
        feed 1                 => 2:a=1 3:a=2 4:b=1 5:a- 6:a=3
        feed 4                 => 5:a- 6:a=3
        feed 6                 =>
        feed 7                 => future 6
        ",
    )
    .await;
}

#[tokio::test]
async fn reads_below_the_compact_revision_fail() {
    check(
        "
        create a 1             => 2
        put a 2                => 3
        create b 1             => 4
        delete b               => 5
        put a 3                => 6
        create c 1             => 7
        compact 8              => future 7
        compact 5              => done
        oldest                 => 5
        get a at 4             => compacted 5
        get a at 5             => a=2@3/2
        range a end at 5       => a=2@3/2 at 5
        range a end            => a=3@6/2 c=1@7/7 at 7
        feed 4                 => compacted 5
        feed 5                 => 6:a=3 7:c=1
        compact 4              => compacted 5
        create b 2             => 8
        get b                  => b=2@8/8
        compact 8              => done
        feed 8                 =>
        range a end            => a=3@6/2 b=2@8/8 c=1@7/7 at 8
        delete b               => 9
        compact 9              => done
        current                => 9
        get b                  => nothing
        feed 8                 => compacted 9
        create b 3             => 10
        range a end            => a=3@6/2 b=3@10/10 c=1@7/7 at 10
        ",
    )
    .await;
}

#[tokio::test]
async fn an_empty_compacted_store_keeps_its_revision() {
    check(
        "
        create a 1             => 2
        create b 1             => 3
        delete a               => 4
        delete b               => 5
        compact 5              => done
        range a end            => at 5
        current                => 5
        reopen
        current                => 5
        create a 2             => 6
        ",
    )
    .await;
}

#[tokio::test]
async fn a_key_is_deleted_when_its_ttl_passes() {
    check_with_clock(
        "
        create a 1 ttl 100     => 2
        create b 1 ttl 50      => 3
        create c 1 ttl 100     => 4
        put c 2                => 5
        advance 49
        get b                  => b=1@3/3
        advance 1
        until current 6        => 6
        get b                  => nothing
        feed 5                 => 6:b-
        put a 2 ttl 500        => 7
        advance 100
        put d 1                => 8
        get a                  => a=2@7/2
        advance 400
        until current 9        => 9
        feed 8                 => 9:a-
        get c                  => c=2@5/4
        ",
    )
    .await;
}

#[tokio::test]
async fn keys_expire_in_the_order_of_their_deadlines() {
    check_with_clock(
        "
        create a 1 ttl 30      => 2
        create b 1 ttl 20      => 3
        create c 1 ttl 10      => 4
        advance 1000
        until current 7        => 7
        feed 4                 => 5:c- 6:b- 7:a-
        ",
    )
    .await;
}

#[tokio::test]
async fn history_older_than_the_retention_is_compacted() {
    let retention = HistoryRetention { duration: Duration::from_millis(100), bytes: u64::MAX };
    check_with_retention(
        retention,
        "
        create a 1             => 2
        put a 2                => 3
        advance 60
        put a 3                => 4
        oldest                 => 1
        advance 40
        until oldest 3         => 3
        get a at 2             => compacted 3
        feed 3                 => 4:a=3
        advance 60
        until oldest 4         => 4
        get a                  => a=3@4/2
        advance 1000
        put a 4                => 5
        feed 4                 => 5:a=4
        ",
    )
    .await;
}

#[tokio::test]
async fn history_beyond_the_size_limit_is_compacted() {
    let retention = HistoryRetention { duration: Duration::from_secs(1000), bytes: 10 };
    check_with_retention(
        retention,
        "
        create a 1234          => 2
        put a 2345             => 3
        oldest                 => 1
        put a 3456             => 4
        until oldest 2         => 2
        put b 4567             => 5
        until oldest 3         => 3
        get a at 3             => a=2345@3/2
        feed 3                 => 4:a=3456 5:b=4567
        ",
    )
    .await;
}
