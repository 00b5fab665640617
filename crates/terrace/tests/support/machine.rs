//! A simulated machine: a disk, for some persist methods a memory, and one switch that ends both.

use std::sync::Arc;

use terrace::{Background, Durability, Options, RegionSource};
use terrace_region::{MemoryKind, SimulatedMemory};
use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, FaultFilter, FaultPlan, Purpose, SimulatedStorage,
};

/// A persist method under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Written,
    WrittenPowerSafe,
    Volatile,
    Dax,
    PageCache,
}

impl Method {
    pub fn persists(self) -> bool {
        self != Method::Volatile
    }

    pub fn is_power_safe(self) -> bool {
        self == Method::WrittenPowerSafe
    }

    fn durability(self) -> Durability {
        match self {
            Method::WrittenPowerSafe => Durability::PowerSafe,
            Method::Volatile => Durability::Volatile,
            Method::Written | Method::Dax | Method::PageCache => Durability::CrashSafe,
        }
    }

    fn memory(self) -> Option<MemoryKind> {
        match self {
            Method::Dax => Some(MemoryKind::Dax),
            Method::PageCache => Some(MemoryKind::PageCache),
            _ => None,
        }
    }
}

/// The machine. Its contents survive as its parts do.
pub struct Machine {
    method: Method,
    pub storage: SimulatedStorage,
    memory: Option<SimulatedMemory>,
    switch: CrashSwitch,
    flushes: FaultPlan,
}

/// Returns a plan for operations of flushes alone.
fn flushes() -> FaultPlan {
    FaultPlan::new(FaultFilter::everything().purpose(Purpose::Flush))
}

impl Machine {
    pub fn new(method: Method, seed: u64) -> Self {
        let switch = CrashSwitch::new();
        let memory = method
            .memory()
            .map(|kind| SimulatedMemory::new(kind, seed, switch.clone()));
        Machine {
            method,
            storage: SimulatedStorage::new(seed, switch.clone()),
            memory,
            switch,
            flushes: flushes(),
        }
    }

    pub fn method(&self) -> Method {
        self.method
    }

    /// Returns options for a tiny store on this machine.
    pub fn options(&self) -> Options {
        let region = self
            .memory
            .clone()
            .map(|memory| RegionSource::new(move || Ok(Box::new(memory.clone()))));
        let storage = Arc::new(self.storage.clone());
        super::script::tiny(Options {
            durability: Some(self.method.durability()),
            storage: Arc::new(FailingStorage::new(storage, self.flushes.clone())),
            region,
            background: Background::Inline,
            ..Options::default()
        })
    }

    /// Returns options for another tiny store on the same disk, with arenas in files.
    pub fn options_in_files(&self) -> Options {
        Options {
            region: None,
            durability: None,
            ..self.options()
        }
    }

    /// Returns the machine after a crash, with a switch of its own.
    pub fn crash(&self, kind: CrashKind, seed: u64) -> Machine {
        let switch = CrashSwitch::new();
        let crash = |memory: &SimulatedMemory| memory.crash(kind, seed, switch.clone());
        Machine {
            method: self.method,
            memory: self.memory.as_ref().map(crash),
            storage: self.storage.crash(kind, seed, switch.clone()),
            switch,
            flushes: flushes(),
        }
    }

    /// Returns the plan that fails flushes on request, so that sealed arenas pile up.
    pub fn flushes(&self) -> FaultPlan {
        self.flushes.clone()
    }

    /// Returns a machine in the same state; only for one that is not in use. The seed decides how
    /// much takes place of the operation at which the copy freezes.
    pub fn copy(&self, seed: u64) -> Machine {
        self.crash(CrashKind::Kill, seed)
    }

    /// Lets `steps` steps live and ends the machine at the next.
    pub fn freeze_at(&self, steps: u64) {
        self.switch.freeze_at(steps);
    }

    pub fn steps(&self) -> u64 {
        self.switch.count()
    }

    pub fn is_frozen(&self) -> bool {
        self.switch.is_frozen()
    }
}
