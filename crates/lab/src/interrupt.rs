//! Turns SIGINT, SIGTERM and SIGHUP into an error that unwinds normally, so that guards clean up.
//!
//! In: signals. Out: [`check`] fails once one has come. It does not stop a child process that runs
//! at that moment; the lab waits for it, then unwinds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::bail;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Starts listening; call once, before the first namespace is made.
///
/// # Errors
/// When a handler cannot be installed.
pub fn listen() -> anyhow::Result<()> {
    let flag = FLAG.get_or_init(|| Arc::new(AtomicBool::new(false)));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Fails when a signal asked the program to stop.
///
/// # Errors
/// After SIGINT, SIGTERM or SIGHUP.
pub fn check() -> anyhow::Result<()> {
    if FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
        bail!("interrupted by a signal; namespaces are being removed");
    }
    Ok(())
}
