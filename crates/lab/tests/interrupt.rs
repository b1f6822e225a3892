//! A run that is told to stop in its middle leaves nothing behind.
//!
//! Needs root; see `generators.rs` for what happens without it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Namespaces of one lab process.
fn namespaces(pid: u32) -> usize {
    let Ok(entries) = std::fs::read_dir("/run/netns") else {
        return 0;
    };
    let start = format!("wtlab-{pid}-");
    entries
        .flatten()
        .filter(|one| one.file_name().to_string_lossy().starts_with(&start))
        .count()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{what} did not come"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_signal_in_the_middle_removes_all_namespaces() {
    if !rustix::process::geteuid().is_root() {
        assert!(
            std::env::var_os("WEIR_REQUIRE_KERNEL").is_none(),
            "this test needs root"
        );
        eprintln!("SKIPPED: making namespaces needs root");
        return;
    }
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
            .args([
                "peers",
                "--contenders",
                "legacy,nft",
                "--families",
                "exp",
                "--sizes",
                "100",
            ])
            .args(["--rounds", "1000"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let pid = child.id();
        wait_until("the third namespace", || namespaces(pid) == 3);
        std::thread::sleep(Duration::from_millis(200));
        let process = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(process, signal).expect("the child is there");
        wait_until("the end", || child_is_gone(pid));
        let status = child.wait().expect("a status");
        assert_eq!(status.code(), Some(1), "{signal:?} unwinds and reports");
        assert_eq!(namespaces(pid), 0, "{signal:?} left namespaces behind");
    }
}

/// Whether a child of ours has ended (it stays a zombie until it is waited for).
fn child_is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.map_or(true, |stat| {
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'))
    })
}
