//! The sweep of flows that are over: by the kernel alone, without packets and without a process.

mod common;

use std::mem::offset_of;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use common::{All, Pair, made};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use weir_plane::abi::Control;
use weir_plane::{ApplyOptions, Plane};
use weir_policy::model::{MarkShift, Op};

/// Index of the timeout of UDP in the settings, and of two counts in the statistics.
const TIMEOUT_UDP: usize = 12;
const INSERTED: usize = 0;
const EXPIRED: usize = 1;

/// Change the timeout of UDP of the instance that is pinned in the host.
fn set_timeout(pair: &Pair, milliseconds: u32) {
    let space = weir_plane::space::Space::open(Some(&pair.host)).expect("it can be opened");
    let path = format!("/sys/fs/bpf/weir/net-{}/i1/control", space.cookie());
    let map = MapHandle::from_pinned_path(path).expect("the map is pinned");
    let key = 0u32.to_ne_bytes();
    let mut value = map
        .lookup(&key, MapFlags::ANY)
        .expect("it can be read")
        .expect("it has one entry");
    let at = offset_of!(Control, settings) + 4 * TIMEOUT_UDP;
    value[at..at + 4].copy_from_slice(&milliseconds.to_ne_bytes());
    map.update(&key, &value, MapFlags::ANY)
        .expect("it can be written");
}

fn statistics(pair: &Pair) -> [u64; 16] {
    let plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    plane.status().expect("a policy is there").flow_statistics
}

#[test]
fn flows_that_are_over_are_removed_while_nothing_happens() {
    let Some(()) = weir_plane::kernel_or_skip("flows_that_are_over_are_removed") else {
        return;
    };
    let pair = Pair::new();
    let tracking = made(All::Do(Op::SetConnmark {
        value: 1,
        mask: 0,
        shift: MarkShift::default(),
    }));
    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    let options = ApplyOptions {
        flows: 1024,
        ..ApplyOptions::default()
    };
    plane
        .apply(&tracking.policy(), options)
        .expect("it can be applied");
    drop(plane);
    set_timeout(&pair, 50);
    let sink = pair.in_host(|| UdpSocket::bind("0.0.0.0:7000").expect("the port is free"));
    // Ports of our own choice: of twenty that the kernel chooses, two may be the same.
    for port in 7001..7021 {
        pair.in_neighbour(|| {
            let from = UdpSocket::bind(("0.0.0.0", port)).expect("the port is free");
            from.send_to(b"hello", "10.9.0.1:7000").expect("it is sent");
        });
    }
    let mut buffer = [0; 8];
    for _ in 0..20 {
        sink.recv_from(&mut buffer).expect("all arrive");
    }
    let begun = statistics(&pair);
    assert!(begun[INSERTED] >= 20, "{begun:?}");
    // 1,536 slots are two stretches of the sweep: eight seconds, with no packet in between.
    let start = Instant::now();
    let mut now = begun;
    while now[EXPIRED] < now[INSERTED] && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(250));
        now = statistics(&pair);
    }
    assert_eq!(now[EXPIRED], now[INSERTED], "{now:?}");
    assert_eq!(now[INSERTED], begun[INSERTED], "nothing was inserted since");
    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened again");
    assert!(plane.unload().expect("it can be removed"));
}
