//! How a thread shares processors with others.

/// Lets the calling thread have a tenth of what others have on a busy processor (nice 10). On an
/// idle one it loses nothing. Stays as it is where that isn't allowed.
pub fn lower_thread() {
    // SAFETY: no pointers. On Linux a nice value is a thread's, and 0 is the calling one.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 10);
    }
}
