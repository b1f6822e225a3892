//! Firewalls: number tables, read off parts of published `fw1` to `fw5`.
//!
//! What they are like: one side is a host or a small network, the other says nothing or two bits.
//! Services are named on the side of the host and answers by source ports. `fw2` has networks of 24
//! bits and hardly a service but names and time, `fw3` and `fw5` have every service open to
//! anywhere too, `fw4` names both ports at once and protocols that hardly anybody has.

use super::super::ports::Class::{Any, Exact, High, Low, Range};
use super::lengths::Spike;
use super::levels::Tree;
use super::{ANY, GRE, ICMP, NARROW, Services, Shape, TCP, UDP};

static FROM_HOST: &[Spike] = &[(1.0, 32, 0)];
static TO_HOST: &[Spike] = &[(1.0, 0, 32)];
static OPEN: &[Spike] = &[(1.0, 0, 0)];

static FW1_EXACT: &[Spike] = &[(86.0, 0, 32), (9.0, 0, 0), (2.5, 0, 27), (2.5, 32, 0)];
static FW1_ANSWER: &[Spike] = &[(90.0, 32, 0), (10.0, 0, 0)];
static FW1_HIGH: &[Spike] = &[(70.0, 0, 32), (30.0, 32, 21)];
static FW1_ANY: &[Spike] = &[
    (26.0, 31, 0),
    (22.0, 28, 0),
    (8.0, 25, 0),
    (12.0, 21, 0),
    (6.0, 12, 0),
    (8.0, 0, 0),
    (10.0, 32, 28),
    (8.0, 28, 32),
];
static FW1_NET: &[Spike] = &[(40.0, 31, 0), (30.0, 21, 0), (15.0, 12, 0), (15.0, 0, 0)];

static FW2_EXACT: &[Spike] = &[(64.0, 24, 0), (36.0, 32, 0)];
static FW2_ANY: &[Spike] = &[
    (40.0, 24, 0),
    (46.0, 0, 24),
    (3.0, 24, 32),
    (4.0, 16, 0),
    (2.0, 0, 0),
];
static FW2_NET: &[Spike] = &[(40.0, 16, 24), (45.0, 16, 0), (15.0, 0, 0)];
static FW2_HIGH: &[Spike] = &[(1.0, 15, 0)];

static FW3_EXACT: &[Spike] = &[(86.0, 0, 32), (14.0, 0, 0)];
static FW3_ANSWER: &[Spike] = &[(88.0, 32, 0), (12.0, 0, 0)];
static FW3_ANY: &[Spike] = &[
    (22.0, 31, 0),
    (22.0, 23, 0),
    (26.0, 20, 0),
    (14.0, 12, 0),
    (6.0, 7, 0),
    (10.0, 0, 0),
];

static FW4_BOTH: &[Spike] = &[(88.0, 32, 32), (12.0, 0, 32)];
static FW4_SERVICE: &[Spike] = &[(60.0, 0, 32), (28.0, 0, 0), (12.0, 0, 26)];
static FW4_ANSWER: &[Spike] = &[(55.0, 32, 0), (30.0, 0, 0), (15.0, 0, 32)];
static FW4_HIGH: &[Spike] = &[(80.0, 0, 24), (20.0, 0, 0)];
static FW4_ANY: &[Spike] = &[
    (25.0, 32, 32),
    (35.0, 23, 0),
    (20.0, 0, 32),
    (10.0, 8, 0),
    (10.0, 0, 0),
];

/// Services of a firewall: few that answer, some that are offered.
const fn services(answering: usize, offered: usize) -> [Services; 2] {
    [
        Services::new(answering, 0.4, 1, (1.0, 33_434, 33_600)),
        Services::new(offered, 0.25, 2, (0.9, 33_434, 33_600)),
    ]
}

pub(super) static ALL: [Shape; 5] = [
    Shape {
        name: "fw1-blocks",
        uses: &[
            (36.0, TCP, [Any, Exact], FW1_EXACT),
            (16.0, UDP, [Any, Exact], FW1_EXACT),
            (11.0, UDP, [Exact, Any], FW1_ANSWER),
            (1.5, UDP, [Exact, High], FROM_HOST),
            (4.0, UDP, [High, Exact], TO_HOST),
            (4.0, TCP, [High, High], FW1_HIGH),
            (3.0, UDP, [High, High], FW1_HIGH),
            (14.0, TCP, [Any, Any], FW1_ANY),
            (5.0, GRE, [Any, Any], FW1_ANY),
            (4.0, ICMP, [Any, Any], FW1_ANY),
            (2.0, ANY, [Any, Any], FW1_NET),
            (0.5, UDP, [High, Range], OPEN),
            (0.3, UDP, [Range, High], OPEN),
        ],
        services: services(12, 35),
        size: 283.0,
        src: Tree::new(
            4,
            &[
                (8, 0.25, 0.5),
                (16, 0.06, 0.5),
                (24, 0.03, 0.6),
                (32, 0.1, 0.5),
            ],
        ),
        dst: Tree::new(
            4,
            &[
                (8, 0.06, 0.5),
                (16, 0.01, 0.5),
                (24, 0.05, 0.6),
                (32, 0.17, 0.5),
            ],
        ),
        alike: &[(3, 0.65), (16, 1.0), (21, 0.8), (32, 0.1)],
    },
    Shape {
        name: "fw2-blocks",
        uses: &[
            (22.0, 1, [Exact, Any], FW2_EXACT),
            (26.0, 2, [Exact, Any], FW2_EXACT),
            (1.5, ANY, [Exact, Any], FROM_HOST),
            (43.0, ANY, [Any, Any], FW2_ANY),
            (4.0, 4, [Any, Any], FW2_NET),
            (0.5, 3, [Any, Any], FW2_NET),
            (2.0, 1, [High, Any], FW2_HIGH),
            (1.0, 2, [High, Any], FW2_HIGH),
        ],
        services: [
            Services::new(8, 0.67, 1, NARROW),
            Services::new(1, 0.0, 1, NARROW),
        ],
        size: 68.0,
        src: Tree::new(4, &[(8, 0.5, 0.3), (32, 0.3, 0.4)]),
        dst: Tree::new(4, &[(8, 0.5, 0.3), (32, 0.3, 0.4)]),
        alike: &[(16, 0.8), (32, 0.3)],
    },
    Shape {
        name: "fw3-blocks",
        uses: &[
            (49.0, TCP, [Any, Exact], FW3_EXACT),
            (16.0, UDP, [Any, Exact], FW3_EXACT),
            (11.0, UDP, [Exact, Any], FW3_ANSWER),
            (1.5, UDP, [Exact, High], FROM_HOST),
            (3.0, UDP, [High, Exact], TO_HOST),
            (3.0, TCP, [High, High], TO_HOST),
            (6.0, TCP, [Any, Any], FW3_ANY),
            (6.0, ICMP, [Any, Any], FW3_ANY),
            (3.0, ANY, [Any, Any], FW3_ANY),
            (1.0, UDP, [High, Range], OPEN),
            (0.5, UDP, [Range, High], OPEN),
        ],
        services: services(8, 45),
        size: 184.0,
        src: Tree::new(4, &[(8, 0.11, 0.5), (24, 0.02, 0.5), (32, 0.13, 0.5)]),
        dst: Tree::new(
            4,
            &[
                (8, 0.02, 0.8),
                (16, 0.02, 0.6),
                (24, 0.04, 0.6),
                (32, 0.2, 0.55),
            ],
        ),
        alike: &[(16, 0.9), (32, 0.3)],
    },
    Shape {
        name: "fw4-blocks",
        uses: &[
            (15.0, 7, [Exact, Exact], FW4_BOTH),
            (14.0, 8, [Exact, Exact], FW4_BOTH),
            (22.0, 7, [High, Exact], FW4_SERVICE),
            (14.0, TCP, [Exact, High], FW4_ANSWER),
            (2.0, 8, [Exact, High], FW4_ANSWER),
            (4.0, 7, [Low, Exact], FW4_SERVICE),
            (2.0, TCP, [Exact, Low], OPEN),
            (6.0, 7, [High, High], FW4_HIGH),
            (3.0, TCP, [High, High], FW4_HIGH),
            (9.0, ANY, [Any, Any], FW4_ANY),
            (3.0, 5, [Any, Any], FW4_ANY),
            (2.0, 4, [Any, Any], FW4_ANY),
            (1.5, 1, [Any, Any], FW4_ANY),
            (1.0, TCP, [Exact, Any], OPEN),
            (1.0, 7, [Any, Exact], OPEN),
            (0.5, 7, [High, Range], OPEN),
        ],
        services: [
            Services::new(25, 0.56, 1, NARROW),
            Services::new(45, 0.17, 2, NARROW),
        ],
        size: 264.0,
        src: Tree::new(
            3,
            &[
                (8, 0.0, 0.6),
                (16, 0.02, 0.6),
                (24, 0.2, 0.5),
                (32, 0.06, 0.5),
            ],
        ),
        dst: Tree::new(
            4,
            &[
                (8, 0.06, 0.6),
                (16, 0.03, 0.5),
                (24, 0.12, 0.5),
                (32, 0.07, 0.5),
            ],
        ),
        alike: &[(16, 1.0), (18, 0.9), (32, 0.3)],
    },
    Shape {
        name: "fw5-blocks",
        uses: &[
            (40.0, TCP, [Any, Exact], FW3_EXACT),
            (15.0, UDP, [Any, Exact], FW3_EXACT),
            (18.0, UDP, [Exact, Any], FW3_ANSWER),
            (1.5, UDP, [Exact, High], FROM_HOST),
            (1.5, UDP, [High, Exact], TO_HOST),
            (2.0, TCP, [High, High], TO_HOST),
            (10.0, TCP, [Any, Any], FW3_ANY),
            (7.5, ICMP, [Any, Any], FW3_ANY),
            (3.0, ANY, [Any, Any], FW3_ANY),
            (1.0, UDP, [High, Range], OPEN),
            (0.5, UDP, [Range, High], OPEN),
        ],
        services: services(9, 35),
        size: 160.0,
        src: Tree::new(
            4,
            &[
                (8, 0.11, 0.5),
                (16, 0.05, 0.5),
                (24, 0.03, 0.5),
                (32, 0.1, 0.5),
            ],
        ),
        dst: Tree::new(
            4,
            &[
                (8, 0.11, 0.5),
                (16, 0.04, 0.5),
                (24, 0.04, 0.5),
                (32, 0.1, 0.5),
            ],
        ),
        alike: &[(16, 0.9), (32, 0.3)],
    },
];
