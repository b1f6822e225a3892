//! What the lookup of an established flow costs, in `BPF_PROG_TEST_RUN`: prints figures. Run by
//! hand: `cargo test -p weir-plane --test flow_cost -- --ignored --nocapture`.

#[path = "flow/kernel.rs"]
mod kernel;

use kernel::{Kernel, Try};
use weir_engine::flow::{Layout, Seed};
use weir_engine::packet::Key;
use zerocopy::IntoBytes;

const PACKETS: u32 = 1 << 17;

/// A segment of flow `number`; `reply`: its direction.
fn segment(number: u32, reply: bool, flags: u8, proto: u8, family: u8) -> Key {
    let client = 0x0a80_0000 + u64::from(number / 13);
    let server = 0x0a00_0001;
    let (high, low) = if family == 6 {
        (0x2001_0db8_0000_0000, 0x7_0000_0000)
    } else {
        (0, 0)
    };
    let mut key = Key {
        src: [high, low | client],
        dst: [high, low | server],
        length: 40,
        family,
        proto,
        transport: if proto == 6 { 3 } else { 4 },
        fragment: 1,
        src_port: 1024 + (number % 13) as u16,
        dst_port: 443,
        sequence: 1000 + u32::from(flags & 2 == 0),
        acknowledgement: if flags & 16 != 0 { 1001 } else { 0 },
        sack: if flags & 16 != 0 { 1001 } else { 0 },
        window: 5000,
        tcp_flags: flags,
        hook: 1,
        ..Key::default()
    };
    if reply {
        std::mem::swap(&mut key.src, &mut key.dst);
        std::mem::swap(&mut key.src_port, &mut key.dst_port);
    }
    key
}

fn cost(flows: u32, proto: u8, family: u8) {
    let layout = Layout::for_flows(262_144);
    let mut kernel = Kernel::load(layout, Seed([0x9d3f_55aa_0123_4567, 0x1b2c_3d4e_5f60_7182]));
    let now_ms = std::fs::read_to_string("/proc/timer_list")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with("jiffies:"))?;
            line.split(':').nth(1)?.trim().parse::<u64>().ok()
        })
        .expect("jiffies in /proc/timer_list")
        * 4;
    for number in 0..flows {
        for (reply, flags) in [(false, 2), (true, 18), (false, 16)] {
            let mut one = Try {
                packet: segment(number, reply, flags, proto, family),
                now_ms,
                confirm: 1,
                ..Try::default()
            };
            kernel.run(&mut one);
        }
    }
    let mut rng = fastrand::Rng::with_seed(7);
    for index in 0..PACKETS {
        let key = segment(rng.u32(..flows), rng.bool(), 16, proto, family);
        kernel.write("bench", index, key.as_bytes());
    }
    assert_eq!(
        kernel.statistics()[0],
        u64::from(flows),
        "every flow has a place"
    );
    let mut rounds: Vec<(f64, f64)> = (0..7)
        .map(|_| {
            let base = kernel.time("flow_bench_base", 2 * PACKETS);
            (kernel.time("flow_bench", 2 * PACKETS) - base, base)
        })
        .collect();
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    println!(
        "{flows} flows, protocol {proto}, IPv{family}: {:.1} ns (least {:.1}, most {:.1}) over {:.1}",
        rounds[3].0, rounds[0].0, rounds[6].0, rounds[3].1
    );
}

#[test]
#[ignore = "a measurement"]
fn established_lookup() {
    for (proto, family) in [(6, 4), (17, 4), (6, 6)] {
        for flows in [16, 1000, 65_536] {
            cost(flows, proto, family);
        }
    }
}
