//! Entries in one word each: most do nothing but count one rule and decide.
//!
//! The highest two bits say which: accept or drop, with the rule in the other bits, as the kernel's
//! short way says what it decided (`WEIR_LANE_DECIDED`); the drop of what is cut short; or an entry
//! that is written out, with its number among those. Twin: `plane/bpf/image.h`.

use super::layout::{Entry, Root, VERDICT_HOT_DROP};
use zerocopy::FromBytes;

/// Where the highest two bits begin.
pub const BRIEF_VERDICT: u32 = 30;
/// [`VERDICT_HOT_DROP`] in the highest two bits; no rule counts.
pub const BRIEF_HOT_DROP: u32 = 3 << BRIEF_VERDICT;
/// The other bits.
pub const BRIEF_NUMBER: u32 = (1 << BRIEF_VERDICT) - 1;

/// The word of an entry that fits one.
fn brief(entry: &Entry) -> Option<u32> {
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
pub fn from_brief(word: u32) -> Option<Entry> {
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
            let word: u32 = read(image, at as usize + position as usize * size_of::<u32>())?;
            if let Some(entry) = from_brief(word) {
                return Some(entry);
            }
            word
        }
    };
    let at = root.entries_at as usize + number as usize * size_of::<Entry>();
    read(image, at)
}

fn read<T: FromBytes>(image: &[u8], at: usize) -> Option<T> {
    let (value, _) = T::read_from_prefix(image.get(at..)?).ok()?;
    Some(value)
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
