//! IP chains: number tables, read off parts of published `ipc1` and `ipc2`.
//!
//! What they are like: `ipc1` has hosts and networks of every length on both sides, services
//! answering as often as asked, and a quarter of it names addresses only. `ipc2` is small: names
//! and time answered between hosts, networks towards hosts by two services, and half of it names
//! one host only.

use super::super::ports::Class::{Any, Exact, High, Range};
use super::lengths::Spike;
use super::levels::Tree;
use super::{ANY, GRE, ICMP, NARROW, Services, Shape, TCP, UDP};

static IPC1_EXACT: &[Spike] = &[
    (12.0, 32, 32),
    (8.0, 31, 31),
    (8.0, 25, 32),
    (14.0, 24, 32),
    (9.0, 23, 32),
    (4.0, 32, 16),
    (4.0, 22, 25),
    (5.0, 16, 30),
    (4.0, 16, 16),
    (9.0, 0, 32),
    (6.0, 1, 32),
    (4.0, 0, 30),
    (4.0, 32, 0),
    (3.0, 15, 0),
    (2.0, 0, 22),
    (2.0, 0, 0),
];
static IPC1_ANSWER: &[Spike] = &[
    (14.0, 32, 32),
    (10.0, 32, 27),
    (12.0, 32, 25),
    (14.0, 32, 24),
    (8.0, 31, 25),
    (8.0, 23, 32),
    (6.0, 28, 16),
    (10.0, 0, 32),
    (8.0, 32, 0),
    (6.0, 1, 31),
    (4.0, 0, 29),
];
static IPC1_ANY: &[Spike] = &[
    (8.0, 32, 32),
    (6.0, 26, 31),
    (8.0, 24, 32),
    (5.0, 22, 31),
    (10.0, 23, 23),
    (10.0, 17, 25),
    (8.0, 21, 25),
    (5.0, 28, 16),
    (12.0, 24, 16),
    (9.0, 23, 16),
    (6.0, 16, 24),
    (4.0, 25, 0),
    (5.0, 0, 25),
    (4.0, 23, 0),
];
static IPC1_OPEN: &[Spike] = &[
    (30.0, 24, 24),
    (20.0, 24, 31),
    (20.0, 26, 23),
    (15.0, 22, 17),
    (15.0, 23, 0),
];

static IPC2_HOSTS: &[Spike] = &[(1.0, 32, 32)];
static IPC2_NETS: &[Spike] = &[(1.0, 24, 32)];
static IPC2_ONE: &[Spike] = &[(68.0, 0, 32), (32.0, 32, 0)];

pub(super) static ALL: [Shape; 2] = [
    Shape {
        name: "ipc1-blocks",
        uses: &[
            (17.0, TCP, [Any, Exact], IPC1_EXACT),
            (22.0, UDP, [Any, Exact], IPC1_EXACT),
            (10.0, TCP, [Exact, Any], IPC1_ANSWER),
            (9.0, UDP, [Exact, Any], IPC1_ANSWER),
            (2.0, TCP, [Any, Range], IPC1_EXACT),
            (1.0, UDP, [Any, Range], IPC1_EXACT),
            (1.0, TCP, [Range, Any], IPC1_ANSWER),
            (1.0, UDP, [High, Any], IPC1_ANSWER),
            (26.0, ANY, [Any, Any], IPC1_ANY),
            (7.0, TCP, [Any, Any], IPC1_OPEN),
            (3.0, ICMP, [Any, Any], IPC1_OPEN),
            (0.5, UDP, [Any, Any], IPC1_OPEN),
            (0.5, GRE, [Any, Any], IPC1_OPEN),
        ],
        services: [
            Services::new(35, 0.4, 4, NARROW),
            Services::new(55, 0.4, 6, NARROW),
        ],
        size: 1702.0,
        src: Tree::new(
            4,
            &[
                (4, 0.8, 0.6),
                (16, 0.11, 0.6),
                (24, 0.07, 0.65),
                (32, 0.035, 0.6),
            ],
        ),
        dst: Tree::new(
            4,
            &[
                (3, 0.8, 0.6),
                (8, 0.05, 0.6),
                (24, 0.075, 0.6),
                (32, 0.07, 0.5),
            ],
        ),
        alike: &[(1, 0.45), (8, 0.7), (32, 0.8)],
    },
    Shape {
        name: "ipc2-blocks",
        uses: &[
            (18.0, UDP, [Exact, Exact], IPC2_HOSTS),
            (14.0, UDP, [Exact, Any], IPC2_HOSTS),
            (20.0, TCP, [Any, Exact], IPC2_NETS),
            (29.0, ICMP, [Any, Any], IPC2_ONE),
            (19.0, ANY, [Any, Any], IPC2_ONE),
        ],
        services: [
            Services::new(3, 0.1, 1, NARROW),
            Services::new(2, 0.0, 1, NARROW),
        ],
        size: 192.0,
        src: Tree::new(
            4,
            &[
                (8, 0.11, 0.5),
                (16, 0.03, 0.5),
                (24, 0.02, 0.5),
                (32, 0.13, 0.5),
            ],
        ),
        dst: Tree::new(
            4,
            &[
                (8, 0.02, 0.5),
                (16, 0.01, 0.5),
                (24, 0.05, 0.5),
                (32, 0.16, 0.5),
            ],
        ),
        alike: &[(1, 0.55), (32, 0.0)],
    },
];
