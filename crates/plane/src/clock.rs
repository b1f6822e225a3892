//! The packet clock: milliseconds, made from the kernel's tick counter because reading it costs a
//! program one load, where the clocks proper cost a call.

use crate::abi::Control;
use crate::error::{PlaneError, Result};
use crate::load::Instance;
use crate::sys::bpf::test_run;

/// Milliseconds of one tick, times 2^20. The resolution of the coarse clocks is one tick.
pub fn jiffy_multiplier() -> Result<u64> {
    let tick_ns = crate::sys::clock::coarse_resolution().map_err(|source| PlaneError::System {
        action: "asking for the kernel's tick",
        source,
    })?;
    if !(100_000..=100_000_000).contains(&tick_ns) {
        return Err(PlaneError::Kernel(format!(
            "its tick of {tick_ns} ns is not believable"
        )));
    }
    Ok((tick_ns << 20) / 1_000_000)
}

/// The packet clock now, in milliseconds; in test runs the time that was set.
pub fn now_ms(instance: &Instance) -> Result<u64> {
    test_run(instance.program("weir_clock"), &[], &[], 0).map_err(|source| PlaneError::System {
        action: "asking for the packet clock",
        source,
    })?;
    Ok(instance
        .control()
        .load64(std::mem::offset_of!(Control, told_ms)))
}

/// Starts the kernel's sweep of flows that are over (`sweep.h`). It lasts as long as the maps do.
pub fn start_sweep(instance: &Instance) -> Result<()> {
    let action = "starting the sweep of idle flows";
    let system = |source| PlaneError::System { action, source };
    let run = test_run(instance.program("weir_sweep"), &[], &[], 0).map_err(system)?;
    match run.value as i32 {
        0 => Ok(()),
        number => Err(system(std::io::Error::from_raw_os_error(-number))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_between_a_tenth_and_a_hundred_milliseconds() {
        let milliseconds =
            jiffy_multiplier().expect("this kernel has ticks") as f64 / f64::from(1 << 20);
        assert!((0.1..=100.0).contains(&milliseconds), "{milliseconds}");
    }
}
