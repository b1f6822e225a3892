//! Settings within instructions: what a packet would ask for some twenty times costs it a move of a
//! constant each, and a mask of offsets nothing more than the masking.
//!
//! In: an object whose instructions have places for settings (`WEIR_SETTING` in `bpf/maps.h`,
//! `image_offset` in `bpf/image.h`), the settings. Out: the object with the settings there. The
//! verifier takes them for constants, as it does those in the read-only section.

use zerocopy::IntoBytes;

use crate::abi::Settings;

/// `WEIR_MASK_PLACE` and `WEIR_SETTING_PLACE` of `abi.h`.
const MASK_PLACE: u32 = 0x5eed_0a00;
/// The same, plus the number of the setting's four bytes.
const SETTING_PLACE: u32 = 0x5eed_0b00;

/// `BPF_AND | BPF_K`, of 32 and 64 bits.
const AND: [u8; 2] = [0x54, 0x57];
/// `BPF_MOV | BPF_K`.
const MOVE: [u8; 2] = [0xb4, 0xb7];
/// Numbers of registers that programs write are below this.
const REGISTERS: u8 = 10;

/// The object with the mask of offsets into an image, and other settings, as immediate values of
/// the instructions that have a place for them. Instructions are eight bytes each, at multiples of
/// eight.
pub fn written(object: &[u8], settings: &Settings) -> Vec<u8> {
    let words = settings.as_bytes().as_chunks::<4>().0;
    let mut object = object.to_vec();
    for instruction in object.as_chunks_mut::<8>().0 {
        let [operation, 0..REGISTERS, 0, 0, immediate @ ..] = instruction else {
            continue;
        };
        let place = u32::from_le_bytes(*immediate);
        let number = place.wrapping_sub(SETTING_PLACE) as usize;
        if AND.contains(operation) && place == MASK_PLACE {
            *immediate = settings.image_mask.to_le_bytes();
        } else if MOVE.contains(operation)
            && let Some(word) = words.get(number)
        {
            *immediate = *word;
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::NETFILTER;

    /// How many words of an object are places of settings.
    fn places(object: &[u8]) -> usize {
        let words = object.as_chunks::<4>().0.iter();
        words
            .map(|word| u32::from_le_bytes(*word))
            .filter(|word| {
                *word == MASK_PLACE || (SETTING_PLACE..=SETTING_PLACE + 15).contains(word)
            })
            .count()
    }

    #[test]
    fn every_place_gets_its_setting() {
        let settings = Settings {
            image_mask: 0x00ff_ffff,
            features: 0x0000_1234,
            ..Settings::default()
        };
        assert!(places(NETFILTER) > 500, "{}", places(NETFILTER));
        let object = written(NETFILTER, &settings);
        assert_eq!(object.len(), NETFILTER.len());
        assert_eq!(places(&object), 0);
        let mut moved = object.as_chunks::<8>().0.iter();
        assert!(moved.any(|i| MOVE.contains(&i[0]) && i[4..] == 0x1234u32.to_le_bytes()));
        let mut masked = object.as_chunks::<8>().0.iter();
        assert!(masked.any(|i| AND.contains(&i[0]) && i[4..] == 0x00ff_ffffu32.to_le_bytes()));
    }
}
