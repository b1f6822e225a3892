//! IP chains: both addresses known, every combination of port classes.
//!
//! In: nothing. Out: tables of numbers; what they mean is in `families`. They are ours, written
//! down from what such lists generally look like.

use super::{Shape, side};
use crate::bench::generate::ports::Class::{Any, Exact, High, Low, Range};

/// The families of this kind.
pub static ALL: [Shape; 2] = [
    Shape {
        name: "ipc1",
        lengths: &[
            (32, 32, 28.0),
            (24, 24, 10.0),
            (32, 24, 9.0),
            (24, 32, 9.0),
            (0, 32, 8.0),
            (32, 0, 8.0),
            (16, 24, 6.0),
            (24, 16, 5.0),
            (28, 30, 6.0),
            (20, 22, 5.0),
            (8, 32, 3.0),
            (0, 24, 3.0),
        ],
        smooth: 0.35,
        src: side(2.0, 0.72, [1.5, 3.0, 4.0, 4.0], 0.6),
        dst: side(2.0, 0.72, [1.5, 3.0, 4.0, 4.0], 0.6),
        shared: 0.35,
        protocols: [0.54, 0.26, 0.06, 0.12, 0.02],
        tcp: &[
            (Any, Exact, 38.0),
            (Exact, Any, 10.0),
            (High, Exact, 14.0),
            (Exact, High, 8.0),
            (Any, Any, 14.0),
            (Any, Range, 8.0),
            (Exact, Exact, 4.0),
            (High, High, 2.0),
            (Low, Exact, 2.0),
        ],
        udp: &[
            (Any, Exact, 28.0),
            (Exact, Exact, 20.0),
            (Exact, Any, 12.0),
            (High, Exact, 12.0),
            (Any, Any, 16.0),
            (Range, Exact, 4.0),
            (Any, Range, 8.0),
        ],
        services: [34, 80],
        ranges: [8, 30],
        strict: 0.6,
    },
    Shape {
        name: "ipc2",
        lengths: &[
            (32, 32, 56.0),
            (0, 32, 10.0),
            (32, 0, 10.0),
            (24, 32, 8.0),
            (32, 24, 8.0),
            (24, 24, 8.0),
        ],
        smooth: 0.05,
        src: side(3.0, 0.80, [0.5, 2.0, 4.0, 5.0], 0.5),
        dst: side(3.0, 0.80, [0.5, 2.0, 4.0, 5.0], 0.5),
        shared: 0.4,
        protocols: [0.40, 0.30, 0.10, 0.20, 0.0],
        tcp: &[
            (Any, Any, 80.0),
            (High, High, 12.0),
            (Exact, Any, 4.0),
            (Any, Exact, 4.0),
        ],
        udp: &[
            (Any, Any, 78.0),
            (High, High, 14.0),
            (Exact, Any, 4.0),
            (Any, Exact, 4.0),
        ],
        services: [3, 3],
        ranges: [1, 1],
        strict: 0.7,
    },
];
