//! With the feature, held locks are recorded by the place that took them and the type that they guard. Without the
//! feature there are no records.

use pintle_locks::{Condvar, Mutex, RwLock};

#[derive(Debug, Default)]
struct Guarded(u64);

#[test]
fn holds_are_recorded_by_place() {
    let (mutex, lock, condition) = (Mutex::new(Guarded(1)), RwLock::new(Guarded(2)), Condvar::new());
    for _ in 0..3 {
        mutex.lock().0 += lock.read().0;
    }
    lock.write().0 += 1;
    {
        let mut guard = mutex.lock();
        condition.wait_for(&mut guard, std::time::Duration::ZERO);
    }
    assert_eq!((mutex.into_inner().0, lock.into_inner().0), (7, 3));
    let counts = pintle_locks::hold_counts();
    let mut holds = Vec::new();
    for mode in ["lock", "read", "write"] {
        for clock in ["cpu", "wall"] {
            let of = counts.iter().filter(|count| count.mode == mode && count.clock == clock);
            assert!(
                of.clone().all(|count| count.guarded.ends_with("Guarded") && count.place.contains("hold_times.rs:"))
            );
            holds.push(of.map(|count| count.count).sum::<u64>());
        }
    }
    // A lock that its holder releases during a wait counts twice.
    let expect = if cfg!(feature = "hold-times") { [5, 5, 3, 3, 1, 1] } else { [0; 6] };
    assert_eq!(holds, expect);
}
