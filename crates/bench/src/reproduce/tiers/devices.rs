//! The devices of the experiment, emulated: a storage for each, and one that finds them by their directories.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use terrace::DeviceProfile;
use terrace::terrace_storage::{
    EmulatedDevice, EmulatedStorage, RealStorage, Storage, StorageByDirectory,
};

/// A device for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// NVMe flash.
    Nvme,
    /// SATA flash.
    Ssd,
    /// A hard disk.
    Hdd,
}

impl Device {
    /// All devices, from the fastest to the slowest.
    pub const ALL: [Device; 3] = [Device::Nvme, Device::Ssd, Device::Hdd];

    /// Returns its name, which is that of its tier.
    pub const fn name(self) -> &'static str {
        match self {
            Device::Nvme => "nvme",
            Device::Ssd => "ssd",
            Device::Hdd => "hdd",
        }
    }

    /// Returns the speed and price of the paper's device.
    pub const fn profile(self) -> DeviceProfile {
        match self {
            Device::Nvme => DeviceProfile::NVME_960_PRO,
            Device::Ssd => DeviceProfile::SSD_850_PRO,
            Device::Hdd => DeviceProfile::WD10EZEX,
        }
    }
}

/// Name of the directory of new writes, on a device of its own.
const LOG: &str = "log";

/// The devices, each with a directory of its name.
pub struct Devices {
    home: PathBuf,
    emulated: Vec<Arc<EmulatedDevice>>,
    storage: Arc<dyn Storage>,
}

impl Devices {
    /// Makes idle devices whose files lie in `home`.
    pub fn new(home: &Path) -> Self {
        let of_tables = Device::ALL.map(|device| (device.name(), device.profile()));
        let log = (LOG, DeviceProfile::SSD_850_PRO);
        let mut emulated = Vec::new();
        let mut storage = StorageByDirectory::new(Arc::new(RealStorage));
        for (name, profile) in of_tables.into_iter().chain([log]) {
            let device = Arc::new(EmulatedDevice::new(name, profile));
            let of_device = EmulatedStorage::new(Arc::new(RealStorage), Arc::clone(&device));
            storage = storage.with(home.join(name), Arc::new(of_device));
            emulated.push(device);
        }
        Devices {
            home: home.to_owned(),
            emulated,
            storage: Arc::new(storage),
        }
    }

    /// Returns the storage of all of them.
    pub fn storage(&self) -> Arc<dyn Storage> {
        Arc::clone(&self.storage)
    }

    /// Returns the directory of a device's tables.
    pub fn tables(&self, device: Device) -> PathBuf {
        self.home.join(device.name()).join("tables")
    }

    /// Returns the directory of new writes.
    pub fn log(&self) -> PathBuf {
        self.home.join(LOG).join("arenas")
    }

    /// Has the devices take no time, or their own again.
    pub fn set_instant(&self, is_instant: bool) {
        for device in &self.emulated {
            device.set_instant(is_instant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_lies_on_the_device_of_its_name() {
        let home = tempfile::tempdir().unwrap();
        let devices = Devices::new(home.path());
        devices.set_instant(true);
        for device in Device::ALL {
            let path = devices.tables(device);
            devices.storage().create_directory(&path).unwrap();
            let system = devices.storage().file_system(&path).unwrap();
            assert_eq!(system.name, format!("emulated {}", device.name()));
        }
        let elsewhere = devices.storage().file_system(home.path()).unwrap();
        assert!(!elsewhere.name.contains("emulated"), "{elsewhere:?}");
    }
}
