//! Entries in one word each: most do nothing but count one rule and decide.
//!
//! The highest two bits say which: accept or drop, with the rule in the other bits, as the kernel's
//! short way says what it decided (`WEIR_LANE_DECIDED`); the drop of what is cut short; or an entry
//! that is written out, with its number among those. Twin: `plane/bpf/image.h`.

use super::layout::{Entry, Root, VERDICT_HOT_DROP};
use super::read;

/// Where the highest two bits begin.
const BRIEF_VERDICT: u32 = 30;
/// [`VERDICT_HOT_DROP`] in the highest two bits; no rule counts.
const BRIEF_HOT_DROP: u32 = 3 << BRIEF_VERDICT;
/// The other bits.
const BRIEF_NUMBER: u32 = (1 << BRIEF_VERDICT) - 1;

/// The word of an entry that fits one.
pub fn brief(entry: &Entry) -> Option<u32> {
    let simple = entry.flags == 0 && entry.reject == 0 && entry.tests == 0 && entry.ops == 0;
    match (entry.verdict, entry.rules) {
        (verdict @ 1..=2, 1) if simple && entry.rule <= BRIEF_NUMBER => {
            Some(u32::from(verdict) << BRIEF_VERDICT | entry.rule)
        }
        (VERDICT_HOT_DROP, 0) if simple => Some(BRIEF_HOT_DROP),
        _ => None,
    }
}

/// A word for each entry, and those that are written out; `None` where that takes more room than
/// all written out.
pub fn in_brief(entries: &[Entry]) -> Option<(Vec<u32>, Vec<Entry>)> {
    let mut written = Vec::new();
    let words: Vec<u32> = entries
        .iter()
        .map(|entry| {
            brief(entry).unwrap_or_else(|| {
                written.push(*entry);
                written.len() as u32 - 1
            })
        })
        .collect();
    let bytes = size_of_val(words.as_slice()) + size_of_val(written.as_slice());
    (bytes < size_of_val(entries)).then_some((words, written))
}

/// The entry that a word stands for; `None` where it is written out.
fn from_brief(word: u32) -> Option<Entry> {
    let verdict = (word >> BRIEF_VERDICT) as u8;
    match verdict {
        0 => None,
        1 | 2 => Some(Entry {
            verdict,
            rule: word & BRIEF_NUMBER,
            rules: 1,
            ..Entry::default()
        }),
        _ => Some(Entry {
            verdict: VERDICT_HOT_DROP,
            ..Entry::default()
        }),
    }
}

/// The entry of a root at a position; `None` outside the image.
pub fn entry_at(image: &[u8], root: &Root, position: u32) -> Option<Entry> {
    let number = match root.brief_at {
        0 => position,
        at => {
            let word = read(image, place(at, position, size_of::<u32>())?)?;
            if let Some(entry) = from_brief(word) {
                return Some(entry);
            }
            word
        }
    };
    read(image, place(root.entries_at, number, size_of::<Entry>())?)
}

/// The offset of one of many structures; `None` beyond all images.
fn place(at: u32, number: u32, size: usize) -> Option<u32> {
    at.checked_add(number.checked_mul(size as u32)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_what_they_were_made_of() {
        let accept = Entry {
            verdict: 1,
            rule: 7,
            rules: 1,
            ..Entry::default()
        };
        let short = Entry {
            verdict: VERDICT_HOT_DROP,
            ..Entry::default()
        };
        for entry in [
            accept,
            Entry {
                verdict: 2,
                rule: BRIEF_NUMBER,
                ..accept
            },
            short,
        ] {
            assert_eq!(brief(&entry).and_then(from_brief), Some(entry));
        }
        // What says more is written out.
        for entry in [
            Entry { rules: 2, ..accept },
            Entry { rules: 0, ..accept },
            Entry {
                verdict: 3,
                ..accept
            },
            Entry {
                verdict: 0,
                ..accept
            },
            Entry {
                flags: 0x40,
                ..accept
            },
            Entry {
                reject: 1,
                ..accept
            },
            Entry { tests: 1, ..accept },
            Entry { ops: 1, ..accept },
            Entry {
                rule: BRIEF_NUMBER + 1,
                ..accept
            },
            Entry { rules: 1, ..short },
        ] {
            assert_eq!(brief(&entry), None, "{entry:?}");
        }
        assert_eq!(from_brief(BRIEF_NUMBER), None);
    }
}
