//! BPF system calls that libbpf-rs has no safe face for.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::check;

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Pin a map, program or link below a bpffs.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: the path is a C string that outlives the call.
    check(unsafe { libbpf_sys::bpf_obj_pin(object.as_raw_fd(), path.as_ptr()) }).map(drop)
}

/// Open a pinned map, program or link.
pub fn open_pin(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: the path is a C string that outlives the call.
    let fd = check(unsafe { libbpf_sys::bpf_obj_get(path.as_ptr()) })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Size and number of entries of an array map.
pub fn map_size(map: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut info = libbpf_sys::bpf_map_info::default();
    let mut size = size_of_val(&info) as u32;
    // SAFETY: both point to live values, and the size is that of the value.
    check(unsafe { libbpf_sys::bpf_map_get_info_by_fd(map.as_raw_fd(), &mut info, &mut size) })?;
    Ok((info.value_size, info.max_entries))
}

/// Attach a netfilter program to a hook of the calling thread's network namespace.
pub fn attach_netfilter(
    program: BorrowedFd<'_>,
    family: u32,
    hook: u32,
    priority: i32,
    defragment: bool,
) -> io::Result<OwnedFd> {
    const BPF_F_NETFILTER_IP_DEFRAG: u32 = 1;
    let mut options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    options.__bindgen_anon_1.netfilter =
        libbpf_sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_5 {
            pf: family,
            hooknum: hook,
            priority,
            flags: if defragment {
                BPF_F_NETFILTER_IP_DEFRAG
            } else {
                0
            },
        };
    // SAFETY: the options are a live value with its size set.
    let fd = check(unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), 0, libbpf_sys::BPF_NETFILTER, &options)
    })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attach a tcx program to an interface of the calling thread's network namespace.
pub fn attach_tcx(program: BorrowedFd<'_>, interface: u32, egress: bool) -> io::Result<OwnedFd> {
    attach_tcx_with(program, interface, tcx_kind(egress), 0)
}

fn tcx_kind(egress: bool) -> libbpf_sys::bpf_attach_type {
    match egress {
        true => libbpf_sys::BPF_TCX_EGRESS,
        false => libbpf_sys::BPF_TCX_INGRESS,
    }
}

/// Attach a tcx program ahead of those that are there.
pub fn attach_tcx_first(
    program: BorrowedFd<'_>,
    interface: u32,
    egress: bool,
) -> io::Result<OwnedFd> {
    let kind = tcx_kind(egress);
    attach_tcx_with(program, interface, kind, libbpf_sys::BPF_F_BEFORE)
}

fn attach_tcx_with(
    program: BorrowedFd<'_>,
    interface: u32,
    kind: libbpf_sys::bpf_attach_type,
    flags: u32,
) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags,
        ..Default::default()
    };
    // SAFETY: the options are a live value with its size set.
    let fd = check(unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), interface as i32, kind, &options)
    })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attach an XDP program to an interface of the calling thread's network namespace: in the driver,
/// or where that can't, before the packet's way into the kernel begins.
pub fn attach_xdp(program: BorrowedFd<'_>, interface: u32) -> io::Result<OwnedFd> {
    const IN_KERNEL: u32 = 1 << 1; // XDP_FLAGS_SKB_MODE
    let create = |flags| {
        let options = libbpf_sys::bpf_link_create_opts {
            sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
            flags,
            ..Default::default()
        };
        // SAFETY: the options are a live value with its size set.
        check(unsafe {
            libbpf_sys::bpf_link_create(
                program.as_raw_fd(),
                interface as i32,
                libbpf_sys::BPF_XDP,
                &options,
            )
        })
    };
    let fd = match create(0) {
        // Another program is there, or we may not.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EPERM)) => {
            return Err(error);
        }
        Err(_) => create(IN_KERNEL)?,
        Ok(fd) => fd,
    };
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What a test run returns.
#[derive(Clone, Copy, Debug)]
pub struct RunResult {
    /// The program's return value.
    pub value: u32,
    /// Nanoseconds per run, averaged by the kernel over the repetitions.
    pub nanoseconds: u32,
}

/// Run a program over bytes (`BPF_PROG_TEST_RUN`).
pub fn test_run(
    program: BorrowedFd<'_>,
    data: &[u8],
    context: &[u8],
    repeat: u32,
) -> io::Result<RunResult> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        repeat: repeat as i32,
        ..Default::default()
    };
    if !data.is_empty() {
        options.data_in = data.as_ptr().cast();
        options.data_size_in = data.len() as u32;
    }
    if !context.is_empty() {
        options.ctx_in = context.as_ptr().cast();
        options.ctx_size_in = context.len() as u32;
    }
    // SAFETY: the pointers and sizes are those of live slices, only read by the kernel.
    check(unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) })?;
    Ok(RunResult {
        value: options.retval,
        nanoseconds: options.duration,
    })
}
