//! Access lists: number tables, read off parts of published `acl1` to `acl5`.
//!
//! What they are like: two hosts or networks and one service. `acl1` is few networks of many hosts
//! towards servers, `acl2` is half without ports and has lengths of every kind, `acl3` and `acl4`
//! have some twenty pairs of lengths and a hundred and fifty services, `acl5` has few services and
//! most of its filters are of one source that talks to its neighbours.

use super::super::ports::Class::{Any, Exact, High, Range};
use super::lengths::Spike;
use super::levels::Tree;
use super::{ANY, ICMP, NARROW, Services, Shape, TCP, UDP};

/// Nobody names source ports.
const NONE: Services = Services::new(1, 0.0, 1, NARROW);

static ACL1_OPEN: &[Spike] = &[
    (34.0, 32, 32),
    (14.0, 32, 22),
    (11.0, 23, 32),
    (11.0, 32, 24),
    (8.0, 23, 16),
    (7.0, 23, 4),
    (6.0, 0, 5),
    (5.0, 23, 26),
    (4.0, 31, 32),
];
static ACL1_RANGE: &[Spike] = &[(93.0, 32, 32), (5.0, 31, 32), (2.0, 23, 32)];
static ACL1_EXACT: &[Spike] = &[
    (72.0, 32, 32),
    (10.0, 32, 22),
    (5.0, 23, 32),
    (5.0, 30, 22),
    (5.0, 31, 32),
    (3.0, 23, 30),
];

static ACL2_ANY: &[Spike] = &[
    (14.0, 32, 32),
    (12.0, 24, 11),
    (10.0, 25, 12),
    (10.0, 11, 24),
    (9.0, 0, 24),
    (8.0, 32, 25),
    (8.0, 25, 32),
    (8.0, 12, 24),
    (6.0, 24, 16),
    (5.0, 32, 29),
    (5.0, 0, 32),
    (5.0, 32, 0),
];
static ACL2_OPEN: &[Spike] = &[
    (20.0, 16, 32),
    (16.0, 32, 16),
    (16.0, 0, 24),
    (14.0, 13, 32),
    (14.0, 32, 24),
    (8.0, 25, 24),
    (6.0, 24, 12),
    (6.0, 0, 32),
];
static ACL2_EXACT: &[Spike] = &[
    (20.0, 12, 31),
    (20.0, 16, 25),
    (16.0, 32, 0),
    (14.0, 0, 0),
    (12.0, 0, 32),
    (10.0, 13, 24),
    (8.0, 0, 12),
];
static ACL2_RANGE: &[Spike] = &[
    (60.0, 32, 16),
    (20.0, 32, 24),
    (10.0, 24, 32),
    (10.0, 16, 0),
];

static ACL3_EXACT: &[Spike] = &[
    (10.0, 32, 32),
    (7.0, 29, 31),
    (8.0, 27, 32),
    (8.0, 25, 32),
    (8.0, 24, 30),
    (7.0, 27, 27),
    (6.0, 23, 32),
    (5.0, 28, 26),
    (8.0, 23, 28),
    (6.0, 22, 30),
    (4.0, 24, 26),
    (5.0, 20, 31),
    (4.0, 17, 32),
    (4.0, 27, 22),
    (3.0, 18, 27),
    (2.0, 16, 24),
    (3.0, 24, 1),
    (2.0, 21, 1),
];
static ACL4_EXACT: &[Spike] = &[
    (8.0, 32, 32),
    (5.0, 30, 32),
    (6.0, 28, 32),
    (6.0, 26, 32),
    (5.0, 24, 31),
    (5.0, 28, 26),
    (6.0, 26, 27),
    (5.0, 22, 31),
    (5.0, 24, 27),
    (5.0, 20, 32),
    (4.0, 27, 23),
    (6.0, 22, 28),
    (5.0, 17, 32),
    (5.0, 16, 31),
    (3.0, 20, 27),
    (4.0, 14, 32),
    (9.0, 24, 0),
    (5.0, 21, 1),
    (5.0, 13, 9),
    (3.0, 16, 9),
    (1.0, 0, 0),
];
static ACL4_HIGH: &[Spike] = &[(55.0, 32, 32), (20.0, 0, 32), (5.0, 32, 0), (20.0, 0, 25)];
static ACL4_ANY: &[Spike] = &[(45.0, 15, 32), (20.0, 0, 32), (20.0, 0, 22), (15.0, 13, 0)];

static ACL5_EXACT: &[Spike] = &[
    (32.0, 32, 32),
    (9.0, 32, 29),
    (10.0, 32, 28),
    (8.0, 32, 27),
    (8.0, 24, 32),
    (4.0, 22, 31),
    (3.0, 20, 32),
    (9.0, 16, 32),
    (9.0, 16, 27),
    (5.0, 16, 29),
    (2.0, 20, 26),
    (1.0, 9, 30),
];
static ACL5_OPEN: &[Spike] = &[
    (30.0, 32, 32),
    (20.0, 32, 28),
    (15.0, 28, 31),
    (15.0, 32, 29),
    (20.0, 16, 27),
];

pub(super) static ALL: [Shape; 5] = [
    Shape {
        name: "acl1-blocks",
        uses: &[
            (8.0, ANY, [Any, Any], ACL1_OPEN),
            (3.0, ICMP, [Any, Any], ACL1_OPEN),
            (17.5, TCP, [Any, Any], ACL1_OPEN),
            (11.5, TCP, [Any, Range], ACL1_RANGE),
            (59.0, TCP, [Any, Exact], ACL1_EXACT),
            (1.0, UDP, [Any, Exact], ACL1_EXACT),
        ],
        services: [NONE, Services::new(75, 0.53, 33, (0.04, 1025, 65_535))],
        size: 733.0,
        src: Tree::new(
            4,
            &[
                (1, 1.0, 0.998),
                (6, 0.0, 1.0),
                (7, 0.5, 0.998),
                (24, 0.0, 1.0),
                (28, 0.75, 0.45),
                (30, 0.7, 0.4),
                (32, 0.4, 0.45),
            ],
        ),
        dst: Tree::new(
            4,
            &[
                (5, 0.85, 0.75),
                (8, 0.15, 0.6),
                (16, 0.06, 0.65),
                (32, 0.08, 0.5),
            ],
        ),
        alike: &[(1, 0.2), (2, 0.45), (6, 0.9), (21, 1.0), (32, 0.0)],
    },
    Shape {
        name: "acl2-blocks",
        uses: &[
            (44.0, ANY, [Any, Any], ACL2_ANY),
            (18.0, TCP, [Any, Any], ACL2_OPEN),
            (2.0, UDP, [Any, Any], ACL2_OPEN),
            (2.0, ICMP, [Any, Any], ACL2_OPEN),
            (18.0, TCP, [Any, Exact], ACL2_EXACT),
            (4.0, UDP, [Any, Exact], ACL2_EXACT),
            (11.0, TCP, [Any, Range], ACL2_RANGE),
            (1.0, UDP, [Any, Range], ACL2_RANGE),
        ],
        services: [NONE, Services::new(24, 0.3, 2, (0.95, 1025, 65_535))],
        size: 623.0,
        src: Tree::new(
            4,
            &[
                (3, 0.8, 0.6),
                (8, 0.11, 0.6),
                (24, 0.07, 0.6),
                (32, 0.05, 0.6),
            ],
        ),
        dst: Tree::new(
            4,
            &[
                (4, 0.75, 0.55),
                (8, 0.05, 0.55),
                (24, 0.1, 0.6),
                (32, 0.06, 0.5),
            ],
        ),
        alike: &[(1, 0.6), (8, 0.8), (14, 0.9), (32, 0.5)],
    },
    Shape {
        name: "acl3-blocks",
        uses: &[
            (61.0, TCP, [Any, Exact], ACL3_EXACT),
            (19.0, UDP, [Any, Exact], ACL3_EXACT),
            (8.0, TCP, [Any, Range], ACL3_EXACT),
            (1.5, UDP, [Any, Range], ACL3_EXACT),
            (4.0, TCP, [Any, High], ACL4_HIGH),
            (1.5, UDP, [Any, High], ACL4_HIGH),
            (3.0, ANY, [Any, Any], ACL4_ANY),
            (2.0, ICMP, [Any, Any], ACL4_ANY),
        ],
        services: [NONE, Services::new(150, 0.36, 35, (0.25, 20, 21))],
        size: 2400.0,
        src: Tree::new(
            4,
            &[
                (4, 0.8, 0.5),
                (8, 0.12, 0.5),
                (24, 0.1, 0.6),
                (32, 0.05, 0.6),
            ],
        ),
        dst: Tree::new(
            4,
            &[
                (2, 0.5, 0.5),
                (16, 0.03, 0.5),
                (24, 0.16, 0.6),
                (32, 0.07, 0.5),
            ],
        ),
        alike: &[(1, 0.4), (2, 0.4), (32, 0.6)],
    },
    Shape {
        name: "acl4-blocks",
        uses: &[
            (60.0, TCP, [Any, Exact], ACL4_EXACT),
            (17.0, UDP, [Any, Exact], ACL4_EXACT),
            (7.0, TCP, [Any, Range], ACL4_EXACT),
            (1.5, UDP, [Any, Range], ACL4_EXACT),
            (5.0, TCP, [Any, High], ACL4_HIGH),
            (2.5, UDP, [Any, High], ACL4_HIGH),
            (5.0, ANY, [Any, Any], ACL4_ANY),
            (2.0, ICMP, [Any, Any], ACL4_ANY),
        ],
        services: [NONE, Services::new(180, 0.36, 40, (0.2, 20, 21))],
        size: 3061.0,
        src: Tree::new(
            4,
            &[
                (5, 0.75, 0.82),
                (8, 0.1, 0.85),
                (24, 0.045, 0.8),
                (32, 0.01, 0.7),
            ],
        ),
        dst: Tree::new(
            4,
            &[
                (2, 0.8, 0.6),
                (16, 0.03, 0.65),
                (24, 0.15, 0.65),
                (32, 0.07, 0.6),
            ],
        ),
        alike: &[(1, 0.5), (3, 0.5), (9, 0.95), (20, 0.85), (32, 0.3)],
    },
    Shape {
        name: "acl5-blocks",
        uses: &[
            (46.0, UDP, [Any, Exact], ACL5_EXACT),
            (30.0, TCP, [Any, Exact], ACL5_EXACT),
            (7.0, TCP, [Any, Range], ACL5_EXACT),
            (11.0, ICMP, [Any, Any], ACL5_OPEN),
            (4.0, UDP, [Any, High], ACL5_OPEN),
            (2.0, 89, [Any, Any], ACL5_OPEN),
        ],
        services: [NONE, Services::new(40, 0.83, 2, NARROW)],
        size: 4557.0,
        src: Tree::new(3, &[(4, 0.8, 0.8), (16, 0.1, 0.7), (32, 0.065, 0.6)]),
        dst: Tree::new(
            4,
            &[
                (8, 0.15, 0.7),
                (16, 0.06, 0.6),
                (24, 0.08, 0.6),
                (32, 0.08, 0.55),
            ],
        ),
        alike: &[(1, 0.8), (10, 1.0), (13, 0.9), (18, 0.6), (32, 0.2)],
    },
];
