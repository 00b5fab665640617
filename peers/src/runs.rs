//! Running workloads on stores: every run in a process of its own, stores taking turns.
//!
//! A store's threads, caches and memory end with its process, and what drifts on the machine meets
//! all stores alike.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::arguments::Plan;
use crate::settings::Settings;
#[cfg(feature = "rocksdb")]
use crate::stores::RocksDb;
use crate::stores::{Fjall, StoreName, Terrace};
use crate::workloads::{Outcome, Phase, Run, Scale, Workload};

/// What a child process is told.
#[derive(Serialize, Deserialize)]
struct Job {
    store: StoreName,
    workload: Workload,
    phase: Phase,
    settings: Settings,
    scale: Scale,
    directory: PathBuf,
}

/// A run that ended well.
#[derive(Clone, Debug, Serialize)]
pub struct Finished {
    pub workload: Workload,
    pub store: StoreName,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// All runs of a plan; the first that fails ends them.
pub fn all(plan: &Plan) -> Result<Vec<Finished>> {
    let mut finished = Vec::new();
    for workload in &plan.workloads {
        for repeat in 1..=plan.repeats {
            for store in &plan.stores {
                eprintln!(
                    "{} {repeat}/{}: {}",
                    workload.name(),
                    plan.repeats,
                    store.name()
                );
                let outcome = one(plan, *workload, *store)
                    .map_err(|error| format!("{} on {}: {error}", workload.name(), store.name()))?;
                finished.push(Finished {
                    workload: *workload,
                    store: *store,
                    outcome,
                });
            }
        }
    }
    Ok(finished)
}

fn one(plan: &Plan, workload: Workload, store: StoreName) -> Result<Outcome> {
    let in_memory = workload == Workload::Tmpfs;
    let parent = if in_memory {
        on_tmpfs(&plan.tmpfs_directory)?
    } else {
        &plan.directory
    };
    let directory = tempfile::Builder::new()
        .prefix("peers-")
        .tempdir_in(parent)?;
    let mut outcome = Err("it has no measured phase".into());
    for phase in workload.phases() {
        let job = Job {
            store,
            workload,
            phase: *phase,
            settings: Settings {
                emulate_power_safety: in_memory,
                ..plan.settings.clone()
            },
            scale: plan.scale.clone(),
            directory: directory.path().to_path_buf(),
        };
        match phase {
            Phase::Fill => fill(&job)?,
            Phase::Measure => outcome = measured(&job),
        }
    }
    outcome
}

/// The directory, if it is what figures of the workload `tmpfs` are about.
fn on_tmpfs(directory: &Path) -> Result<&Path> {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    match rustix::fs::statfs(directory)?.f_type {
        TMPFS_MAGIC => Ok(directory),
        _ => Err(format!(
            "{} is not on a tmpfs; name one with --tmpfs-directory",
            directory.display()
        )
        .into()),
    }
}

fn child(job: &Job) -> Result<std::process::Output> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("measure").arg(serde_json::to_string(job)?);
    Ok(command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?)
}

fn fill(job: &Job) -> Result<()> {
    const KILLED: i32 = 9;
    let status = child(job)?.status;
    if status.signal() == Some(KILLED) {
        Ok(())
    } else {
        Err(format!("the process that fills the store was not killed: {status}").into())
    }
}

fn measured(job: &Job) -> Result<Outcome> {
    let output = child(job)?;
    if !output.status.success() {
        return Err(output.status.to_string().into());
    }
    let outcome: Outcome = serde_json::from_slice(&output.stdout)?;
    if outcome.compared == 0 {
        return Err("no value was compared".into());
    }
    if let Some(metric) = outcome
        .metrics
        .iter()
        .find(|metric| !metric.value.is_finite())
    {
        return Err(format!("{} is {}", metric.name, metric.value).into());
    }
    Ok(outcome)
}

/// The child's side: one phase, its outcome as JSON on standard output.
pub fn phase(job: &str) -> Result<()> {
    let job: Job = serde_json::from_str(job)?;
    let directory: &Path = &job.directory;
    let run = Run::new(&job.settings, &job.scale, directory);
    let outcome = match job.store {
        StoreName::Terrace => run.phase::<Terrace>(job.workload, job.phase),
        #[cfg(feature = "rocksdb")]
        StoreName::RocksDb => run.phase::<RocksDb>(job.workload, job.phase),
        StoreName::Fjall => run.phase::<Fjall>(job.workload, job.phase),
    }?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}
