//! Commands of a kernel that fails on demand.

use std::cell::RefCell;
use std::rc::Rc;

use terrace_nvmf::initiator::client::{Condition, Key};
use terrace_nvmf::wire::SubmissionEntry;

use super::*;
use crate::queue::Backend;

const HOST_PATH: u16 = 0x370;
const KEY: &str = "key";

/// The answer to a command: a status and a result, or an error of the system.
type Answered = std::result::Result<(u16, u64), i32>;

#[derive(Default)]
struct State {
    answers: VecDeque<Answered>,
    /// Tags of the commands that came.
    submitted: Vec<u64>,
    is_broken: bool,
}

/// A kernel that gives prepared answers in turn, and success after them.
#[derive(Clone, Default)]
struct Kernel {
    state: Rc<RefCell<State>>,
    with_kernel: Rc<RefCell<Vec<(u64, Data)>>>,
}

impl Commands for Kernel {
    fn submit(
        &mut self,
        tag: u64,
        mut command: Command,
        mut data: Data,
    ) -> std::result::Result<(), Data> {
        command
            .attach(&mut data)
            .expect("the direction was checked");
        if self.with_kernel.borrow().len() == 2 {
            return Err(data);
        }
        self.state.borrow_mut().submitted.push(tag);
        self.with_kernel.borrow_mut().push((tag, data));
        Ok(())
    }

    fn wait(&mut self, _: Duration, outcomes: &mut Vec<Outcome>) -> io::Result<()> {
        if self.state.borrow().is_broken {
            return Err(io::ErrorKind::Other.into());
        }
        for (tag, data) in self.with_kernel.borrow_mut().drain(..) {
            let answer = self.state.borrow_mut().answers.pop_front();
            let end = match answer.unwrap_or(Ok((0, 0))) {
                Ok((status, result)) => Ok(End {
                    status: Status::from_bits(status),
                    result,
                }),
                Err(code) => Err(io::Error::from_raw_os_error(code)),
            };
            outcomes.push(Outcome { tag, end, data });
        }
        Ok(())
    }
}

fn settings() -> Settings {
    let mut settings = Settings::new(1);
    settings.backend = Backend::Threads;
    settings.depth = 4;
    settings.reconnect = Duration::from_secs(600);
    settings
}

fn flight(answers: &[Answered]) -> (Flight<Kernel>, Kernel) {
    let kernel = Kernel::default();
    kernel.state.borrow_mut().answers.extend(answers);
    let flight = Flight::new(kernel.clone(), settings(), Some(1 << 20));
    (flight, kernel)
}

fn exists() -> Request {
    let key = Key::new(KEY).unwrap();
    Request::Exists { nsid: 1, key }
}

fn delete() -> Request {
    let key = Key::new(KEY).unwrap();
    Request::Delete { nsid: 1, key }
}

fn store(bytes: usize, condition: Condition) -> Request {
    Request::Store {
        nsid: 1,
        key: Key::new(KEY).unwrap(),
        value: vec![1; bytes].into(),
        condition,
    }
}

fn retrieve(max_bytes: u32) -> Request {
    Request::Retrieve {
        nsid: 1,
        key: Key::new(KEY).unwrap(),
        max_bytes,
    }
}

#[test]
fn what_may_be_repeated_is_repeated_after_the_path_breaks() {
    let broken = [Ok((HOST_PATH, 0)), Err(libc::EAGAIN), Err(libc::EINTR)];
    for request in [exists(), retrieve(8), store(5, Condition::None)] {
        let (mut flight, kernel) = flight(&broken);
        assert!(flight.call(request).is_ok());
        assert_eq!(kernel.state.borrow().submitted.len(), 4);
    }
}

#[test]
fn what_must_not_be_repeated_has_an_unknown_outcome() {
    for broken in [
        Ok((HOST_PATH, 0)),
        Ok((0x4371, 0)),
        Err(libc::EAGAIN),
        Err(libc::EINTR),
    ] {
        let requests = [
            delete(),
            store(5, Condition::IfAbsent),
            store(5, Condition::IfExists),
            Request::Flush { nsid: 1 },
        ];
        for request in requests {
            let (mut flight, kernel) = flight(&[broken]);
            let error = flight.call(request).unwrap_err();
            assert!(matches!(error, Error::UnknownOutcome), "{error}");
            assert_eq!(kernel.state.borrow().submitted.len(), 1);
        }
    }
}

#[test]
fn a_command_that_is_taken_back_is_not_sent_for_ever() {
    let (mut flight, kernel) = flight(&[Err(libc::EINTR); 10]);
    let error = flight.call(exists()).unwrap_err();
    assert!(matches!(error, Error::Disconnected(_)), "{error}");
    assert_eq!(kernel.state.borrow().submitted.len(), 3);
}

#[test]
fn a_path_that_stays_broken_ends_the_command() {
    let (mut flight, _) = flight(&[Ok((HOST_PATH, 0)); 10]);
    flight.settings.reconnect = Duration::ZERO;
    let error = flight.call(exists()).unwrap_err();
    let Error::Disconnected(cause) = error else {
        panic!("{error}");
    };
    assert_eq!(cause.status(), Some(Status::from_bits(HOST_PATH)));
}

#[test]
fn the_controllers_answer_is_final() {
    let key_exists = Status::KEY_EXISTS.to_bits();
    let (mut flight, kernel) = flight(&[Ok((key_exists, 0)), Err(libc::EINVAL), Err(libc::ENODEV)]);
    let error = flight.call(store(1, Condition::IfAbsent)).unwrap_err();
    assert_eq!(error.status(), Some(Status::KEY_EXISTS));
    let error = flight.call(exists()).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    let error = flight.call(exists()).unwrap_err();
    assert!(matches!(error, Error::Disconnected(_)), "{error}");
    assert_eq!(kernel.state.borrow().submitted.len(), 3);
}

#[test]
fn a_retrieve_has_as_many_bytes_as_the_value() {
    let (mut flight, _) = flight(&[Ok((0, 3)), Ok((0, 100)), Ok((0, 0))]);
    for (result, bytes) in [(3, 3), (100, 8), (0, 0)] {
        let answer = flight.call(retrieve(8)).unwrap();
        assert_eq!((answer.result, answer.data.len()), (result, bytes));
    }
}

#[test]
fn more_commands_than_the_kernel_takes_wait_for_room() {
    let (mut flight, kernel) = flight(&[]);
    let tickets: Vec<_> = (0..4).map(|_| flight.submit(exists()).unwrap()).collect();
    assert!(matches!(flight.submit(exists()), Err(Error::QueueFull)));
    let mut done = Vec::new();
    while flight.in_flight() > 0 {
        done.extend(
            flight
                .poll()
                .into_iter()
                .map(|completion| completion.ticket),
        );
    }
    assert_eq!(done, tickets);
    assert_eq!(kernel.state.borrow().submitted, [0, 1, 2, 3]);
}

#[test]
fn commands_that_cannot_be_are_refused_at_once() {
    let (mut flight, kernel) = flight(&[]);
    let refused = |flight: &mut Flight<Kernel>, request| flight.submit(request).unwrap_err();
    let error = refused(&mut flight, store((1 << 20) + 1, Condition::None));
    assert!(
        matches!(
            error,
            Error::TooLong {
                bytes: 1_048_577,
                max_bytes: 1_048_576
            }
        ),
        "{error}"
    );
    let blocks = Request::Read {
        nsid: 1,
        block: 0,
        blocks: 1,
        block_bytes: 512,
    };
    // Bit 0 says that data go to the controller.
    let wrong = Request::Other {
        entry: SubmissionEntry::new(0x81, 1),
        transfer: Transfer::Read(8),
        repeatable: true,
    };
    let elsewhere = Request::Flush { nsid: 2 };
    for request in [blocks, wrong, elsewhere] {
        let error = refused(&mut flight, request);
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    }
    assert!(flight.poll().is_empty() && kernel.state.borrow().submitted.is_empty());
}

#[test]
fn a_queue_that_ends_takes_its_commands_along() {
    let (mut flight, kernel) = flight(&[]);
    kernel.state.borrow_mut().is_broken = true;
    flight.submit(exists()).unwrap();
    flight.submit(delete()).unwrap();
    let errors: Vec<_> = flight.wait(Duration::from_secs(60));
    let errors: Vec<_> = errors
        .into_iter()
        .map(|done| done.result.unwrap_err())
        .collect();
    assert!(
        matches!(errors[..], [Error::Io { .. }, Error::UnknownOutcome]),
        "{errors:?}"
    );
    assert!(matches!(flight.submit(exists()), Err(Error::Io { .. })));
}
