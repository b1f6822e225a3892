//! The keyed hash of conversations. Twin of `bpf/hash.h`: the same bits for the same seed.
//!
//! Two rounds of multiply and fold with secret odd factors. Not a cryptographic hash; without the
//! seed nobody can choose conversations that meet in one line of the table. Vectors below.

/// The secret of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub [u64; 2]);

fn fold(x: u64) -> u64 {
    x ^ x >> 32
}

impl Seed {
    /// Hash of two words.
    pub fn hash(&self, first: u64, second: u64) -> u64 {
        let [a, b] = self.0;
        let x = fold((first ^ a).wrapping_mul(b | 1));
        fold((x ^ second ^ b).wrapping_mul(a | 1))
    }

    /// Two IPv6 addresses to one word.
    pub fn fold_addresses(&self, low: [u64; 2], high: [u64; 2]) -> u64 {
        self.hash(self.hash(low[0], low[1]) ^ high[0], high[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        let seed = Seed([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
        assert_eq!(seed.hash(0, 0), VECTORS[0]);
        assert_eq!(seed.hash(0x0a00_0001_c0a8_0001, 0x6_0050_c350), VECTORS[1]);
        assert_eq!(seed.fold_addresses([1, 2], [3, 4]), VECTORS[2]);
    }

    const VECTORS: [u64; 3] = [0x86c63ddeb4467a96, 0xeb75ce98bec52102, 0xa7c30d4ccc9f0bf5];

    #[test]
    fn neighbouring_conversations_spread_over_lines() {
        let seed = Seed([0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344]);
        let mut lines = vec![0u32; 1024];
        for i in 0..32_768u64 {
            let pair = (0x0a80_0000 + (i >> 4)) | 0x0a00_0001 << 32;
            let hash = seed.hash(pair, 6 << 32 | 80 << 16 | (1024 + (i & 15)));
            lines[((u64::from(hash as u32) * 1024) >> 32) as usize] += 1;
        }
        let (least, most) = (lines.iter().min().unwrap(), lines.iter().max().unwrap());
        assert!(
            *least >= 10 && *most <= 62,
            "32 expected, {least} to {most}"
        );
    }
}
