//! `kill -9` at any moment of an apply: the old policy or the new one is in force, never none, the
//! next command goes on from there, and unloading leaves nothing.

mod common;

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{All, Pair, apply, made};
use weir_plane::{ApplyOptions, Plane, hooks};

const CHILD: &str = "WEIR_KILL_TEST_NAMESPACE";

/// Applies policies that all drop everything, one after the other, in the same programs and (as
/// reassembly changes) in new ones.
#[test]
#[ignore = "the process that the test below kills"]
fn child() {
    let Some(namespace) = std::env::var_os(CHILD) else {
        return;
    };
    let namespace = namespace.into_string().expect("a name");
    let dropping = made(All::Drop);
    loop {
        let mut plane = Plane::open(Some(&namespace)).expect("it can be opened");
        let defragment = if fastrand::u8(0..4) == 0 {
            hooks::DEFRAGMENT_V4
        } else {
            0
        };
        let mut policy = dropping.policy();
        policy.hooks |= defragment;
        plane
            .apply(&policy, ApplyOptions::default())
            .expect("it can be applied");
    }
}

#[test]
fn killed_at_any_moment_something_is_enforced() {
    let Some(()) = weir_plane::kernel_or_skip("killed_at_any_moment") else {
        return;
    };
    let pair = Pair::new();
    let dropping = made(All::Drop);
    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    apply(&mut plane, &dropping);
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut random = fastrand::Rng::with_seed(9);
    let mut numbers = Vec::new();
    std::thread::scope(|scope| {
        let receiver = pair.in_host(|| UdpSocket::bind("0.0.0.0:7002").expect("the port is free"));
        receiver.set_nonblocking(true).expect("it can be set");
        scope.spawn(|| {
            pair.in_neighbour(|| {
                let socket = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
                socket
                    .connect("10.9.0.1:7002")
                    .expect("it can be connected");
                while !stop.load(Ordering::Relaxed) {
                    socket.send(b"x").expect("it can be sent");
                    sent.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
        });
        let rounds = 40;
        for _ in 0..rounds {
            let mut child = Command::new(std::env::current_exe().expect("it is known"))
                .args(["child", "--exact", "--ignored"])
                .env(CHILD, &pair.host)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("it starts");
            std::thread::sleep(Duration::from_micros(random.u64(10_000..400_000)));
            let early = child.try_wait().expect("it is ours");
            assert!(early.is_none(), "the child ended by itself: {early:?}");
            child.kill().expect("it can be killed");
            child.wait().expect("it ends");
            let left = Plane::open(Some(&pair.host)).expect("it can be opened");
            numbers.push(left.number().expect("a policy is in force"));
        }
        stop.store(true, Ordering::Relaxed);
        match receiver.recv(&mut [0; 8]) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            other => panic!("a packet passed while no policy accepts any: {other:?}"),
        }
    });
    assert!(numbers.is_sorted(), "no policy came back: {numbers:?}");
    assert!(
        *numbers.last().expect("rounds") > 15,
        "the children got something done: {numbers:?}"
    );
    plane.refresh().expect("it can be looked at");
    apply(&mut plane, &dropping);
    assert_eq!(
        plane.status().expect("it is in force").links.len(),
        2,
        "left-overs were removed"
    );
    assert!(plane.unload().expect("it can be removed"));
    println!(
        "{} policies, {} datagrams, none passed",
        numbers.last().expect("rounds"),
        sent.into_inner()
    );
}
