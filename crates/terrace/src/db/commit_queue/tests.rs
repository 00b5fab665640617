use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

const LIMITS: GroupLimits = GroupLimits {
    bytes: 1 << 20,
    records: 1000,
};

fn request(sync: bool) -> Request {
    let mut batch = WriteBatch::new();
    batch.put(b"key", b"value").unwrap();
    Request {
        batch,
        sync,
        ..Request::default()
    }
}

#[test]
fn every_request_is_in_exactly_one_group_and_leaders_never_overlap() {
    let queue = CommitQueue::new(LIMITS, ForkMark::new().unwrap());
    let (inside, written, alone) = (
        AtomicBool::new(false),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let enter = || assert!(!inside.swap(true, Ordering::SeqCst), "two leaders");
    let leave = || assert!(inside.swap(false, Ordering::SeqCst));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (queue, written, alone, enter, leave) = (&queue, &written, &alone, &enter, &leave);
            scope.spawn(move || {
                for i in 0..500 {
                    if (i + thread) % 50 == 0 {
                        queue.alone(|| {
                            enter();
                            alone.fetch_add(1, Ordering::SeqCst);
                            leave();
                        });
                        continue;
                    }
                    let commit = |group: &mut Group<'_>| {
                        enter();
                        written.fetch_add(group.batches().count(), Ordering::SeqCst);
                        std::thread::yield_now();
                        leave();
                        Ok(())
                    };
                    queue
                        .submit(request(i % 7 == 0), || Ok(()), commit)
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(alone.load(Ordering::SeqCst), 40);
    assert_eq!(written.load(Ordering::SeqCst), 2000 - 40);
    assert_eq!(queue.role.load(Ordering::SeqCst), IDLE);
}

#[test]
fn a_failure_is_answered_and_the_queue_goes_on() {
    let queue = CommitQueue::new(LIMITS, ForkMark::new().unwrap());
    let answer = queue.submit(request(false), || Ok(()), |_| Err(Error::Closed));
    assert!(matches!(answer, Err(Error::Closed)));
    queue.submit(request(false), || Ok(()), |_| Ok(())).unwrap();
}

#[test]
fn only_long_syncs_are_gathered_for() {
    let queue = CommitQueue::new(LIMITS, ForkMark::new().unwrap());
    let sync = |time: Duration| {
        queue.crowd.store(8, Ordering::Relaxed);
        let commit = |_: &mut Group<'_>| {
            std::thread::sleep(time);
            Ok(())
        };
        queue.submit(request(true), || Ok(()), commit).unwrap();
        queue.crowd.load(Ordering::Relaxed)
    };
    assert_eq!(sync(LONG_SYNC * 2), 1, "the one that was there");
    // A thread may be interrupted at any time, but not each time.
    assert!((0..1000).any(|_| sync(Duration::ZERO) == 0));
    assert_eq!(sync(LONG_SYNC * 2), 1, "it may become long again");
}
