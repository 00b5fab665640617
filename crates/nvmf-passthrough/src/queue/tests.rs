//! Queues of a device that does no command: each comes back with its data.

use std::fs::File;

use terrace_nvmf::initiator::connection::Transfer;
use terrace_nvmf::wire::SubmissionEntry;

use super::*;

const DEPTH: usize = 4;

fn node() -> Arc<Node> {
    let path = std::path::PathBuf::from("/dev/null");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    Arc::new(Node {
        file,
        path,
        nsid: 1,
        max_transfer_bytes: None,
    })
}

/// Returns queues of both kinds, or of one where the system has no io_uring for this process.
fn queues() -> Vec<Queue> {
    let ring = Queue::new(&node(), Backend::Ring, DEPTH);
    if let Err(error) = &ring {
        println!("io_uring is not tested: {error}");
    }
    let threads = Queue::new(&node(), Backend::Threads, DEPTH).unwrap();
    ring.into_iter().chain([threads]).collect()
}

fn retrieve(bytes: u32) -> (Command, Data) {
    let entry = SubmissionEntry::new(0x02, 1);
    let command = Command::new(&entry, Duration::from_secs(1));
    (command, Data::new(Transfer::Read(bytes)))
}

#[test]
fn each_command_comes_back_once_with_its_data() {
    for mut queue in queues() {
        let (mut next, mut with_kernel) = (0, 0);
        let mut seen = [false; 50];
        while seen.contains(&false) {
            while next < seen.len() && with_kernel < DEPTH {
                let (command, data) = retrieve(next as u32 + 1);
                queue.submit(next as u64, command, data).unwrap();
                (next, with_kernel) = (next + 1, with_kernel + 1);
            }
            let mut outcomes = Vec::new();
            queue.wait(Duration::from_secs(60), &mut outcomes).unwrap();
            for outcome in outcomes {
                let tag = outcome.tag as usize;
                assert!(!std::mem::replace(&mut seen[tag], true), "{tag} came twice");
                assert_eq!(outcome.data.into_read(usize::MAX), vec![0; tag + 1]);
                with_kernel -= 1;
            }
        }
    }
}

#[test]
fn a_ring_takes_no_more_than_its_depth() {
    for mut queue in queues() {
        let Queue::Ring(_) = queue else { continue };
        for tag in 0..DEPTH as u64 {
            let (command, data) = retrieve(1);
            queue.submit(tag, command, data).unwrap();
        }
        let (command, data) = retrieve(7);
        let back = queue.submit(99, command, data).unwrap_err();
        assert_eq!(back.into_read(usize::MAX).len(), 7);
    }
}

#[test]
fn queues_end_with_commands_under_way() {
    for mut queue in queues() {
        for tag in 0..DEPTH as u64 {
            let (command, data) = retrieve(1 << 20);
            queue.submit(tag, command, data).unwrap();
        }
        queue.wait(Duration::ZERO, &mut Vec::new()).unwrap();
    }
}

#[test]
fn a_device_of_another_kind_has_no_namespace() {
    assert!(crate::ioctl::namespace_id(&node().file).is_err());
}
