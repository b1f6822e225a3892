//! Rejected packets are answered on the wire, as sockets see it; records of packets arrive.

mod common;

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{All, Pair, apply, made, made_at};
use weir_plane::{Agent, Plane};
use weir_policy::model::{Hook, RejectKind};

/// Run an agent in the host while `work` goes on; how many answers it sent.
fn with_agent(pair: &Pair, work: impl FnOnce()) -> u64 {
    let stop = AtomicBool::new(false);
    let ready = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let agent = scope.spawn(|| {
            let mut agent = Agent::open(Some(&pair.host)).expect("the agent starts");
            ready.store(true, Ordering::Relaxed);
            while !stop.load(Ordering::Relaxed) {
                agent
                    .serve(Duration::from_millis(50))
                    .expect("the agent works");
            }
            agent.answered()
        });
        while !ready.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        let answered = agent.join().expect("the agent ends");
        if let Err(panic) = end {
            std::panic::resume_unwind(panic);
        }
        answered
    })
}

/// How a connection to `to` fails, and how soon.
fn failure(to: IpAddr) -> (i32, Duration) {
    let start = Instant::now();
    let to = SocketAddr::new(to, 81);
    let error =
        TcpStream::connect_timeout(&to, Duration::from_secs(2)).expect_err("it is rejected");
    (error.raw_os_error().unwrap_or(0), start.elapsed())
}

/// A kind by its number in records.
fn reject(number: u32) -> RejectKind {
    match number >> 8 {
        0 => RejectKind::TcpReset,
        1 => RejectKind::Icmp(number as u8),
        _ => RejectKind::Icmp6(number as u8),
    }
}

const V4: [(u32, i32); 8] = [
    (0, libc::ECONNREFUSED),
    (0x100, libc::ENETUNREACH),
    (0x101, libc::EHOSTUNREACH),
    (0x102, libc::ENOPROTOOPT),
    (0x103, libc::ECONNREFUSED),
    (0x109, libc::ENETUNREACH),
    (0x10a, libc::EHOSTUNREACH),
    (0x10d, libc::EHOSTUNREACH),
];
const V6: [(u32, i32); 7] = [
    (0, libc::ECONNREFUSED),
    (0x200, libc::ENETUNREACH),
    (0x201, libc::EACCES),
    (0x203, libc::EHOSTUNREACH),
    (0x204, libc::ECONNREFUSED),
    (0x205, libc::EACCES),
    (0x206, libc::EACCES),
];

#[test]
fn every_kind_of_reject_reaches_the_socket() {
    let Some(()) = weir_plane::kernel_or_skip("every_kind_of_reject_reaches_the_socket") else {
        return;
    };
    let pair = Pair::new();
    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    apply(&mut plane, &made(All::Drop));
    let plane = std::sync::Mutex::new(plane);
    let answered = with_agent(&pair, || {
        for (address, kinds) in [("10.9.0.1", &V4[..]), ("fd09::1", &V6[..])] {
            let to: IpAddr = address.parse().expect("an address");
            for (kind, errno) in kinds {
                let rejecting = made(All::Reject(reject(*kind)));
                let mut plane = plane.lock().expect("one thread");
                apply(&mut plane, &rejecting);
                let (got, after) = pair.in_neighbour(|| failure(to));
                assert_eq!(
                    got,
                    *errno,
                    "{to} {kind:#x}: {}",
                    std::io::Error::from_raw_os_error(got)
                );
                assert!(
                    after < Duration::from_millis(500),
                    "{to} {kind:#x} took {after:?}"
                );
            }
        }
    });
    assert_eq!(answered, (V4.len() + V6.len()) as u64);
}

#[test]
fn a_reject_on_the_way_out_reaches_the_socket() {
    let Some(()) = weir_plane::kernel_or_skip("a_reject_on_the_way_out") else {
        return;
    };
    let pair = Pair::new();
    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    for (address, kind) in [
        ("10.9.0.2", 0),
        ("fd09::2", 0),
        ("10.9.0.2", 0x103),
        ("fd09::2", 0x204),
    ] {
        apply(
            &mut plane,
            &made_at(All::Reject(reject(kind)), Hook::Output),
        );
        // The policy rejects the answers too, unless they are recognised as RELATED.
        let to: IpAddr = address.parse().expect("an address");
        with_agent(&pair, || {
            let (got, after) = pair.in_host(|| failure(to));
            assert_eq!(got, libc::ECONNREFUSED, "{to} {kind:#x}");
            assert!(
                after < Duration::from_millis(500),
                "{to} {kind:#x} took {after:?}"
            );
        });
    }
}

#[test]
fn without_an_agent_a_reject_is_a_counted_drop() {
    let Some(()) = weir_plane::kernel_or_skip("without_an_agent") else {
        return;
    };
    let pair = Pair::new();
    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    apply(&mut plane, &made(All::Reject(RejectKind::TcpReset)));
    let (got, _) = pair.in_neighbour(|| failure("10.9.0.1".parse().expect("an address")));
    assert_eq!(got, 0, "the connection times out without an error number");
    let reasons = plane.status().expect("it is in force").reasons;
    assert!(reasons[2] >= 1, "{reasons:?}");
    assert_eq!(reasons[1], 0, "{reasons:?}");
}

#[test]
fn log_records_carry_the_packet() {
    let Some(()) = weir_plane::kernel_or_skip("log_records_carry_the_packet") else {
        return;
    };
    let pair = Pair::new();
    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    apply(&mut plane, &made(All::LogAccept));
    pair.in_neighbour(|| {
        let socket = std::net::UdpSocket::bind("10.9.0.2:4567").expect("the port is free");
        socket
            .send_to(b"some payload", "10.9.0.1:7890")
            .expect("it can be sent");
    });
    let mut reader = plane.events().expect("there are events");
    let mut seen = Vec::new();
    reader
        .read(Duration::from_secs(2), |event| {
            seen.push(event);
            true
        })
        .expect("it can be read");
    let event = seen
        .iter()
        .find(|e| e.key.src_port == 4567)
        .expect("the datagram was logged");
    assert_eq!(
        (event.in_iface.as_str(), event.out_iface.as_str()),
        ("eth0", "")
    );
    assert_eq!(
        (event.key.dst_port, event.length, event.policy),
        (7890, 40, 1)
    );
    assert_eq!(event.link[..6], [2, 0, 0, 0, 9, 1]);
    assert_eq!(event.link[6..], [2, 0, 0, 0, 9, 2, 8, 0]);
    assert_eq!(&event.bytes[28..], b"some payload");
    assert_eq!(event.owner, None);
}
