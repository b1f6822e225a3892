//! Policies in force in a namespace: packets pass or not, links outlive processes, swaps lose
//! nothing, unloading leaves nothing.

mod common;

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{All, Made, Pair, apply, made};
use weir_plane::Plane;

/// Whether a datagram from the neighbour arrives at the host.
fn arrives(pair: &Pair) -> bool {
    let socket = pair.in_host(|| UdpSocket::bind("0.0.0.0:7000").expect("the port is free"));
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a time-out can be set");
    pair.in_neighbour(|| {
        let from = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
        from.send_to(b"hello", "10.9.0.1:7000")
            .expect("it can be sent");
    });
    let mut buffer = [0; 16];
    match socket.recv_from(&mut buffer) {
        Ok((length, _)) => length == 5,
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => false,
        Err(e) => panic!("{e}"),
    }
}

/// Whether anything of the host's plane is pinned.
fn is_pinned(pair: &Pair) -> bool {
    let space = weir_plane::space::Space::open(Some(&pair.host)).expect("it can be opened");
    let folder = format!("/sys/fs/bpf/weir/net-{}", space.cookie());
    std::path::Path::new(&folder).exists()
}

#[test]
fn policies_hold_beyond_the_process_and_leave_nothing() {
    let Some(()) = weir_plane::kernel_or_skip("policies_hold_beyond_the_process") else {
        return;
    };
    let pair = Pair::new();
    let (accept, drop_all) = (made(All::Accept), made(All::Drop));
    assert!(arrives(&pair), "nothing is enforced yet");

    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    assert_eq!(plane.number(), None);
    let applied = apply(&mut plane, &drop_all);
    assert_eq!(
        (applied.number, applied.previous, applied.loaded),
        (1, None, true)
    );
    assert!(!arrives(&pair));
    assert!(is_pinned(&pair));
    drop(plane);
    assert!(!arrives(&pair), "the policy holds without the process");

    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened again");
    assert_eq!(plane.number(), Some(1));
    let counted = plane.counters(1).expect("there are counters")[0];
    assert_eq!(
        counted,
        (2, 2 * 33),
        "two datagrams of 33 bytes were counted"
    );
    let applied = apply(&mut plane, &accept);
    assert_eq!(
        (applied.number, applied.previous, applied.loaded),
        (2, Some(1), false)
    );
    assert!(arrives(&pair));
    assert_eq!(plane.flip_back().expect("the policy before is there"), 1);
    assert!(!arrives(&pair));
    assert_eq!(plane.status().expect("it is in force").previous, Some(2));

    assert!(plane.unload().expect("it can be removed"));
    assert!(arrives(&pair), "nothing is enforced any more");
    assert!(!plane.unload().expect("removing nothing is fine"));
    assert!(!is_pinned(&pair), "no pins are left");
}

#[test]
fn a_policy_that_outgrows_the_maps_replaces_them() {
    let Some(()) = weir_plane::kernel_or_skip("a_policy_that_outgrows_the_maps") else {
        return;
    };
    let pair = Pair::new();
    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    let small = made(All::Drop);
    apply(&mut plane, &small);
    let large = made(All::AcceptAfter(20_000));
    let applied = apply(&mut plane, &large);
    assert!(applied.loaded);
    assert!(arrives(&pair));
    assert_eq!(plane.status().expect("it is in force").links.len(), 2);
    assert_eq!(plane.flip_back().expect("the small one came along"), 1);
    assert!(!arrives(&pair));
}

#[test]
fn programs_loaded_ahead_are_used_where_they_suffice() {
    let Some(()) = weir_plane::kernel_or_skip("programs_loaded_ahead") else {
        return;
    };
    let pair = Pair::new();
    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    let (small, large) = (made(All::Drop), made(All::AcceptAfter(20_000)));
    // Begun for a policy without tables and with few rules, used for one that has more of both.
    plane.load_ahead(&small.model);
    assert!(apply(&mut plane, &large).loaded);
    assert!(arrives(&pair));
    assert!(plane.unload().expect("it can be removed"));
    plane.load_ahead(&small.model);
    assert!(apply(&mut plane, &small).loaded);
    assert!(!arrives(&pair));
    // Of no use to somebody else's policy, and harmless.
    plane.load_ahead(&large.model);
    let applied = apply(&mut plane, &made(All::Accept));
    assert!(!applied.loaded);
    assert!(arrives(&pair));
}

/// Replies to a stream of datagrams while policies are swapped: none may be missing.
fn stream_survives(pair: &Pair, swaps: u32, mut swap: impl FnMut(u32) + Send) {
    let stop = AtomicBool::new(false);
    let full = queue_losses(pair);
    let (sent, received) = std::thread::scope(|scope| {
        let server = pair.in_host(|| UdpSocket::bind("0.0.0.0:7001").expect("the port is free"));
        server
            .set_read_timeout(Some(Duration::from_millis(300)))
            .expect("a time-out can be set");
        let receiving = scope.spawn(move || {
            let (mut count, mut buffer) = (0u64, [0; 16]);
            while server.recv(&mut buffer).is_ok() {
                count += 1;
            }
            count
        });
        let stop = &stop;
        let sending = scope.spawn(move || {
            pair.in_neighbour(|| {
                let socket = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
                socket
                    .connect("10.9.0.1:7001")
                    .expect("it can be connected");
                let mut count = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..8 {
                        socket.send(b"x").expect("it can be sent");
                        count += 1;
                    }
                    // Not faster than the receiver reads, whose queue is short.
                    std::thread::sleep(Duration::from_micros(200));
                }
                count
            })
        });
        for number in 0..swaps {
            swap(number);
        }
        stop.store(true, Ordering::Relaxed);
        (
            sending.join().expect("the sender ends"),
            receiving.join().expect("the receiver ends"),
        )
    });
    assert!(sent > 1000, "{sent}");
    // What a full receive queue lost came through the filter.
    let full = queue_losses(pair) - full;
    assert_eq!(
        received + full,
        sent,
        "{received} received, {full} found the queue full"
    );
    println!("{swaps} swaps under {sent} datagrams, none lost ({full} found the queue full)");
}

/// Datagrams that found the host's receive queue full.
fn queue_losses(pair: &Pair) -> u64 {
    let text = pair.in_host(|| std::fs::read_to_string("/proc/thread-self/net/snmp"));
    let text = text.expect("proc has it");
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
    let names = lines.next().expect("a line of names").split_whitespace();
    let values = lines.next().expect("a line of numbers").split_whitespace();
    let mut pairs = names.zip(values);
    let found = pairs
        .find(|(name, _)| *name == "RcvbufErrors")
        .expect("the counter is there");
    found.1.parse().expect("a number")
}

#[test]
fn swaps_under_traffic_lose_no_packet() {
    let Some(()) = weir_plane::kernel_or_skip("swaps_under_traffic_lose_no_packet") else {
        return;
    };
    let pair = Pair::new();
    let (one, two) = (made(All::Accept), made(All::AcceptAfter(10)));
    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    apply(&mut plane, &one);
    let plane = std::sync::Mutex::new(plane);
    stream_survives(&pair, 150, |number| {
        let next: &Made = if number % 2 == 0 { &two } else { &one };
        let mut plane = plane.lock().expect("one thread");
        apply(&mut plane, next);
    });
    stream_survives(&pair, 2000, |_| {
        plane
            .lock()
            .expect("one thread")
            .flip_back()
            .expect("there is a policy before");
    });
}
