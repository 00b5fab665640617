//! Devices in a directory that looks like sysfs.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

const NODE: &str = "nqn.2014-08.org.nvmexpress:uuid:1e573061-32eb-461b-a9e9-8854f67ca627";

/// A machine without devices.
struct Machine {
    directory: TempDir,
    /// Number of the namespace of each device; none refuses to tell.
    devices: Vec<(String, Option<u32>)>,
}

impl Machine {
    fn new() -> Self {
        Machine {
            directory: TempDir::new().unwrap(),
            devices: Vec::new(),
        }
    }

    fn place(&self) -> Place {
        Place {
            sysfs: self.directory.path().join("sys"),
            devices: self.directory.path().join("dev"),
        }
    }

    /// Adds a device of a controller and its disk, with links as the kernel makes them.
    fn add(&mut self, name: &str, nsid: Option<u32>, subsystem: &str) {
        let sysfs = self.place().sysfs;
        let controller = sysfs.join("devices").join(format!("of-{name}"));
        let disk = controller.join(format!("disk-{}", nsid.unwrap_or(0)));
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(controller.join("power")).unwrap();
        fs::write(controller.join("subsysnqn"), format!("{subsystem}\n")).unwrap();
        fs::write(disk.join("nsid"), format!("{}\n", nsid.unwrap_or(0))).unwrap();
        fs::write(disk.join("queue/max_hw_sectors_kb"), "32768\n").unwrap();
        let device = controller.join(name);
        fs::create_dir_all(&device).unwrap();
        symlink(&controller, device.join("device")).unwrap();
        let class = sysfs.join("class/nvme-generic");
        fs::create_dir_all(&class).unwrap();
        symlink(&device, class.join(name)).unwrap();
        self.devices.push((name.to_owned(), nsid));
    }

    fn find(&self, nsid: u32, subsystem: Option<&str>) -> Result<Found, OpenError> {
        let wanted = Wanted {
            nsid,
            subsystem_nqn: subsystem.map(str::to_owned),
        };
        find(&self.place(), &wanted, &|path| {
            assert_eq!(path.parent().unwrap(), self.place().devices);
            let name = path.file_name().unwrap().to_str().unwrap();
            let device = self.devices.iter().find(|(device, _)| device == name);
            match device.and_then(|(_, nsid)| *nsid) {
                Some(nsid) => Ok(nsid),
                None => Err(io::ErrorKind::PermissionDenied.into()),
            }
        })
    }

    fn refused(&self, nsid: u32, subsystem: Option<&str>) -> String {
        let text = self.find(nsid, subsystem).err().unwrap().to_string();
        let place = self.directory.path().to_str().unwrap();
        text.replace(place, "")
    }
}

#[test]
fn a_device_is_found_by_number_whatever_its_name() {
    let mut machine = Machine::new();
    machine.add("ng0n1", Some(2), NODE);
    machine.add("ng0n2", Some(1), NODE);
    let found = machine.find(1, None).unwrap();
    assert_eq!(found.path, machine.place().devices.join("ng0n2"));
    assert_eq!(found.subsystem_nqn.as_deref(), Some(NODE));
    assert_eq!(found.max_transfer_bytes, Some(32 << 20));
    let found = machine.find(2, Some(NODE)).unwrap();
    assert_eq!(found.path, machine.place().devices.join("ng0n1"));
}

#[test]
fn an_error_says_what_was_wanted_and_what_is_there() {
    let mut machine = Machine::new();
    assert_eq!(
        machine.refused(3, None),
        "no device is of namespace 3: there are no generic devices"
    );
    machine.add("ng0n1", Some(1), "nqn.a");
    machine.add("ng1n1", None, "nqn.b");
    assert_eq!(
        machine.refused(3, None),
        "no device is of namespace 3; there are /dev/ng0n1 (namespace 1 of nqn.a), \
         /dev/ng1n1 (permission denied of nqn.b)"
    );
    assert_eq!(
        machine.refused(1, Some("nqn.c")),
        "no device is of namespace 1 of nqn.c; there are /dev/ng0n1 (not asked of nqn.a), \
         /dev/ng1n1 (not asked of nqn.b)"
    );
}

#[test]
fn a_number_of_two_subsystems_needs_a_name() {
    let mut machine = Machine::new();
    machine.add("ng0n1", Some(1), "nqn.a");
    machine.add("ng1n1", Some(1), "nqn.b");
    assert_eq!(
        machine.refused(1, None),
        "several subsystems have namespace 1: /dev/ng0n1 (namespace 1 of nqn.a), \
         /dev/ng1n1 (namespace 1 of nqn.b)"
    );
    let found = machine.find(1, Some("nqn.b")).unwrap();
    assert_eq!(found.path, machine.place().devices.join("ng1n1"));
}

#[test]
fn two_paths_to_a_namespace_are_one() {
    let mut machine = Machine::new();
    machine.add("ng1n1", Some(1), "nqn.a");
    machine.add("ng0n1", Some(1), "nqn.a");
    let found = machine.find(1, None).unwrap();
    assert_eq!(found.path, machine.place().devices.join("ng0n1"));
}

#[test]
fn a_limit_that_makes_no_sense_is_none() {
    let mut machine = Machine::new();
    machine.add("ng0n1", Some(1), NODE);
    let class = machine.place().sysfs.join("class/nvme-generic/ng0n1");
    let limit = class.join("device/disk-1/queue/max_hw_sectors_kb");
    for text in ["", "-1", "18446744073709551615", "many"] {
        fs::write(&limit, text).unwrap();
        assert_eq!(machine.find(1, None).unwrap().max_transfer_bytes, None);
    }
}

#[test]
fn a_file_is_no_device() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Node::open(file.path(), &wanted_any(1), &Place::default())
        .err()
        .unwrap();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
    let error = Node::open(
        Path::new("/dev/null/none"),
        &wanted_any(1),
        &Place::default(),
    );
    assert!(error.err().unwrap().to_string().contains("opening"));
}

fn wanted_any(nsid: u32) -> Wanted {
    Wanted {
        nsid,
        subsystem_nqn: None,
    }
}
