use super::*;

/// Text that clears a screen, rings, colours, turns the direction of text and forges a line.
const HOSTILE: &str = "a\x1b[2J\x07\u{9b}1m\u{202e}\n";
const ESCAPED: &str = r"a\x1b[2J\x07\xc2\x9b1m\u{202e}\n";

fn path() -> PathBuf {
    HOSTILE.into()
}

fn with_text() -> Vec<Error> {
    let detail = || HOSTILE.to_owned();
    let io = std::io::Error::other(HOSTILE);
    let io = storage::Error::new(storage::Operation::Read, &path(), io);
    let mut errors = vec![
        Error::corruption(&path(), 1, HOSTILE),
        Error::corruption("a".as_ref(), 1, HOSTILE),
        Error::unsupported(&path(), HOSTILE),
        Error::unsupported("a".as_ref(), HOSTILE),
        Error::NoSpace {
            path: path(),
            needed_bytes: 1,
        },
        Error::from(storage::NoThread::new(HOSTILE, std::io::Error::other("a"))),
        Error::Io(Arc::new(io)),
        Error::InvalidArgument(detail()),
        Error::Busy {
            path: "a".into(),
            socket: Some(path()),
            waited: Duration::ZERO,
        },
        Error::Busy {
            path: path(),
            socket: None,
            waited: Duration::ZERO,
        },
        Error::NoKeyspace { name: detail() },
        Error::RegionLost {
            path: path(),
            loss: None,
        },
        Error::Panicked {
            step: "a".into(),
            message: detail(),
        },
        Error::Panicked {
            step: detail(),
            message: String::new(),
        },
        Error::Owner(detail()),
        Error::NoAnswer(detail()),
    ];
    for limit_bytes in [Some(1), None] {
        let path = path();
        errors.push(Error::FileTooLarge { path, limit_bytes });
    }
    for process_limit in [Some(1), None] {
        errors.push(Error::TooManyFiles {
            path: path(),
            process_limit,
            open_tables: 1,
        });
    }
    for (path, detail) in [(path(), "a".into()), ("a".into(), detail())] {
        let (path, detail): (PathBuf, String) = (path, detail);
        errors.extend([
            Error::OwnershipLost {
                path: path.clone(),
                detail: detail.clone(),
            },
            Error::NoStore {
                path: path.clone(),
                detail: detail.clone(),
            },
            Error::WrongRegion {
                store: path.clone(),
                region: "a".into(),
                detail: detail.clone(),
            },
            Error::WrongRegion {
                store: "a".into(),
                region: path.clone(),
                detail: detail.clone(),
            },
            Error::WrongTier {
                store: path.clone(),
                directory: "a".into(),
                detail: detail.clone(),
            },
            Error::WrongTier {
                store: "a".into(),
                directory: path.clone(),
                detail: detail.clone(),
            },
            Error::TierLost {
                tier: detail.clone(),
                path: path.clone(),
                missing: Arc::new(MissingTier::new(
                    vec![detail.clone()],
                    vec![detail.clone()],
                    None,
                )),
            },
            Error::NoInspection { path, detail },
        ]);
    }
    errors
}

#[test]
fn every_error_shows_hostile_text_escaped() {
    let poisoned = |cause: &Error| Error::Poisoned {
        cause: Arc::new(cause.clone()),
    };
    let errors = with_text();
    for error in errors
        .iter()
        .chain(&errors.iter().map(poisoned).collect::<Vec<_>>())
    {
        let text = error.to_string();
        assert!(text.contains(ESCAPED), "{text:?}");
        assert!(
            !text.chars().any(|c| c.is_control() || c == '\u{202e}'),
            "{text:?}"
        );
    }
}

#[test]
fn a_lost_region_names_only_numbers_that_are_known() {
    let told = |loss| {
        let path = "arena-1".into();
        let text = Error::RegionLost { path, loss }.to_string();
        let rest = text.strip_prefix("arena-1 is missing, and unflushed writes with it; ");
        rest.unwrap().split("mount").next().unwrap().to_owned()
    };
    assert_eq!(told(None), "");
    let loss = |kept, promised| Some(RegionLoss { kept, promised });
    assert_eq!(told(loss(0, 0)), "no write is in a table; ");
    let known = "writes up to number 835 are in tables";
    assert_eq!(told(loss(835, 835)), format!("{known}; "));
    let promised = "writes up to number 840 were promised to survive";
    assert_eq!(told(loss(835, 840)), format!("{known}, {promised}; "));
}

#[test]
fn a_finding_of_damage_advises_no_repair() {
    let damage = Error::corruption("1.table".as_ref(), 7, "a checksum is wrong");
    let found = damage.finding().to_string();
    assert_eq!(found, "1.table is damaged at byte 7: a checksum is wrong");
    let text = damage.to_string();
    assert!(
        text.starts_with(&format!("{found}; ")) && text.contains("terrace repair"),
        "{text}"
    );
    let other = Error::Closed;
    assert_eq!(other.finding().to_string(), other.to_string());
}

#[test]
fn a_file_that_may_not_grow_is_told_with_the_limit_of_the_process() {
    let source = std::io::Error::from_raw_os_error(27);
    let error = storage::Error::new(storage::Operation::Write, "1.table".as_ref(), source);
    let error = Error::from(error);
    assert!(matches!(error, Error::FileTooLarge { .. }), "{error:?}");
    let limit_bytes = Some(4096);
    let path = "1.table".into();
    let text = Error::FileTooLarge { path, limit_bytes }.to_string();
    assert!(
        text.contains("`ulimit -f`") && text.contains("4096 bytes"),
        "{text}"
    );
}
