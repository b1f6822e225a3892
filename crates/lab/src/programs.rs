//! What the eBPF programs on a path take by the kernel's own clock, hook and stack not included.
//!
//! In: a lane and an injector. Out: nanoseconds per packet spent inside eBPF programs other than
//! the injector, from the kernel's run-time statistics. They are switched on only while measuring,
//! because they slow every program down; the clock reading inside each run is part of the figure,
//! so compare it with that of the bare hook's program.

use std::collections::HashMap;

use anyhow::Result;
use libbpf_rs::query::ProgInfoIter;

use crate::contender::Loaded;
use crate::inject::{Fate, Injector};
use crate::measure::Pinned;
use crate::sys;

/// The injector's name in the kernel.
const INJECTOR: &str = "inject";

/// Run time and number of runs of every program, by its number.
fn runs() -> HashMap<u32, (u64, u64)> {
    ProgInfoIter::default()
        .filter(|program| program.name.to_string_lossy() != INJECTOR)
        .map(|program| (program.id, (program.run_time_ns, program.run_cnt)))
        .collect()
}

/// Measures `count` packets; nothing when no program saw exactly these packets.
///
/// Programs of other namespaces run at the same time on a shared machine. Ours are those which
/// ran as many times as there were packets.
///
/// # Errors
/// When statistics or the injection are refused.
pub fn time_per_packet(
    loaded: &Loaded,
    injector: &mut Injector,
    count: u32,
) -> Result<Option<f64>> {
    let _pinned = Pinned::to_last_cpu()?;
    let _statistics = sys::enable_program_statistics()?;
    injector.run(&loaded.namespace, count / 8, Fate::Pass)?;
    let before = runs();
    sys::set_real_time(true)?;
    let result = injector.run(&loaded.namespace, count, Fate::Pass);
    sys::set_real_time(false)?;
    result?;
    let times = runs().into_iter().filter_map(|(id, (time, runs))| {
        let (time_before, runs_before) = before.get(&id).copied().unwrap_or((0, 0));
        (runs - runs_before == u64::from(count)).then(|| time - time_before)
    });
    let times: Vec<u64> = times.collect();
    let total: u64 = times.iter().sum();
    Ok((!times.is_empty()).then(|| total as f64 / f64::from(count)))
}
