//! A mark as a function of the marks that the packet came with.

use crate::model::MarkShift;

/// A 32-bit mark: the exclusive or of `xor` and of bits of marks as they came.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mix {
    /// Bits of marks, sorted by mark and way, each pair of these once.
    pub parts: Vec<Part>,
    /// Bits turned over.
    pub xor: u32,
}

/// Bits of a mark as it came, moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// Of the flow's mark, not of the packet's.
    pub flow: bool,
    /// How far to the left they are moved; below 0 to the right.
    pub left: i8,
    /// Which bits of the result they make; not 0.
    pub bits: u32,
}

impl Part {
    /// What it makes of a mark.
    pub fn of(self, mark: u32) -> u32 {
        shift(self.left).of(mark) & self.bits
    }
}

fn shift(left: i8) -> MarkShift {
    MarkShift {
        right: left < 0,
        bits: left.unsigned_abs(),
    }
}

impl Mix {
    /// The packet's mark as it came.
    pub fn own() -> Mix {
        Mix::all(false)
    }

    /// The flow's mark as it was.
    pub fn flow() -> Mix {
        Mix::all(true)
    }

    fn all(flow: bool) -> Mix {
        Mix {
            parts: vec![Part {
                flow,
                left: 0,
                bits: u32::MAX,
            }],
            xor: 0,
        }
    }

    /// The bits of this mark that are in the mask.
    pub(super) fn masked(&self, mask: u32) -> Mix {
        let parts = self.parts.iter().map(|part| Part {
            bits: part.bits & mask,
            ..*part
        });
        Mix {
            parts: parts.filter(|part| part.bits != 0).collect(),
            xor: self.xor & mask,
        }
    }

    /// The mark moved.
    pub(super) fn shifted(&self, by: MarkShift) -> Mix {
        let step = match by.right {
            true => -(by.bits as i8),
            false => by.bits as i8,
        };
        // Moved by 32 or more nothing is left of a part, so its way stays within an i8.
        let parts = self.parts.iter().map(|part| Part {
            left: part.left.saturating_add(step),
            bits: by.of(part.bits),
            ..*part
        });
        Mix {
            parts: parts.filter(|part| part.bits != 0).collect(),
            xor: by.of(self.xor),
        }
    }

    /// Exclusive or.
    pub(super) fn with(&self, other: &Mix) -> Mix {
        let mut parts = self.parts.clone();
        for part in &other.parts {
            let same = |own: &Part| (own.flow, own.left) == (part.flow, part.left);
            match parts.iter_mut().find(|own| same(own)) {
                Some(own) => own.bits ^= part.bits,
                None => parts.push(*part),
            }
        }
        parts.retain(|part| part.bits != 0);
        parts.sort_unstable();
        Mix {
            parts,
            xor: self.xor ^ other.xor,
        }
    }

    /// `(mark & !mask) ^ value`.
    pub(super) fn set(&self, value: u32, mask: u32) -> Mix {
        let mut mix = self.masked(!mask);
        mix.xor ^= value;
        mix
    }

    /// The mark of a packet that came with these.
    pub fn of(&self, own: u32, flow: u32) -> u32 {
        let parts = self.parts.iter();
        let values = parts.map(|part| part.of(if part.flow { flow } else { own }));
        values.fold(self.xor, |all, one| all ^ one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_what_was_done_to_the_marks() {
        let left = |bits| MarkShift { right: false, bits };
        let right = |bits| MarkShift { right: true, bits };
        let mut random = 1u32;
        let mut next = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            random
        };
        for _ in 0..2000 {
            let (own, flow) = (next(), next());
            let (mut mix, mut mark) = (Mix::own(), own);
            for _ in 0..6 {
                let (kind, a, b) = (next() >> 29, next(), next());
                let bits = (next() >> 27) as u8;
                match kind {
                    0 | 1 => (mix, mark) = (mix.set(a, b), (mark & !b) ^ a),
                    2 | 3 => (mix, mark) = (mix.shifted(left(bits)), mark << bits),
                    4 | 5 => (mix, mark) = (mix.shifted(right(bits)), mark >> bits),
                    _ => {
                        mix = mix.masked(!a).with(&Mix::flow().masked(b));
                        mark = (mark & !a) ^ (flow & b);
                    }
                }
            }
            assert_eq!(mix.of(own, flow), mark);
        }
    }
}
