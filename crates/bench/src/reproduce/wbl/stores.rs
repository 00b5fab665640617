//! Contestants that only this reproduction knows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::{Options, RegionSource};
use terrace_region::{Device, MappedOptions, Region};
use terrace_storage::{Access, RealStorage, Storage};

use super::novelsm;
use crate::Result;
use crate::reproduce::region_model::{Bus, ModelledDevice, RegionModel};
use crate::settings::Settings;
use crate::store::{Contestant, Opened};
use crate::stores::terrace::{open_with, options};

/// The store with a write-ahead log, in Terrace's own terms.
pub const LOG: &str = "terrace-log";
/// New writes into the region.
pub const REGION: &str = "terrace-region";
/// The same under a model.
pub const REGION_MODELLED: &str = "terrace-region-modelled";
/// NoveLSM's policy.
pub const NOVELSM: &str = "novelsm";
/// The same under a model.
pub const NOVELSM_MODELLED: &str = "novelsm-modelled";

/// The option of `Settings::own` that carries the model to a run's process.
pub const MODEL_OPTION: &str = "region_model";

/// Beside a program's own.
pub const CONTESTANTS: [Contestant; 3] = [
    Contestant {
        name: REGION_MODELLED,
        about: "new writes into a mapped region that is as slow as --region-model says",
        open: open_modelled,
    },
    Contestant {
        name: NOVELSM,
        about: "NoveLSM's policy: a logged MemTable, and one in the region while that stalls",
        open: novelsm::open,
    },
    Contestant {
        name: NOVELSM_MODELLED,
        about: "the same, the region as slow as --region-model says",
        open: novelsm::open,
    },
];

fn open_modelled(directory: &Path, settings: &Settings) -> Result<Opened> {
    let (settings, model) = split_model(settings)?;
    let options = region_options(directory, &settings, model)?;
    let mut opened = open_with(directory, options, &settings)?;
    if let Some(model) = model {
        opened.durability = format!("{}; modelled as {model}", opened.durability);
    }
    Ok(opened)
}

/// Splits the settings into those without the model, and the model.
pub fn split_model(settings: &Settings) -> Result<(Settings, Option<RegionModel>)> {
    let mut settings = settings.clone();
    let model = settings.own.remove(MODEL_OPTION);
    let model = model.map(|text| text.parse()).transpose()?;
    Ok((settings, model))
}

/// Returns the options of a store with its new writes in a mapped region.
pub fn region_options(
    directory: &Path,
    settings: &Settings,
    model: Option<RegionModel>,
) -> Result<Options> {
    let options = options(settings, &[("persist_method", "mapped")])?;
    Ok(match model {
        Some(model) => Options {
            region: Some(modelled_source(directory.to_path_buf(), model)),
            ..options
        },
        None => options,
    })
}

fn modelled_source(directory: PathBuf, model: RegionModel) -> RegionSource {
    RegionSource::new(move || device(&directory, Some(&Bus::new(model))))
}

/// Returns the device of a mapped region, slowed down where there is a model.
///
/// # Errors
/// Files that cannot be mapped; the text says why and what to do.
pub fn device(directory: &Path, bus: Option<&Arc<Bus>>) -> terrace_region::Result<Box<dyn Device>> {
    let directory = RealStorage.directory(directory, Access::Owner)?;
    let inner = Region::mapped_device(&RealStorage, directory, MappedOptions::default())?;
    Ok(match bus {
        Some(bus) => Box::new(ModelledDevice::new(inner, Arc::clone(bus))),
        None => inner,
    })
}
