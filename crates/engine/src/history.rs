//! Memory of packets in flat words: limits, hash limits, address lists, connection counts, samples.
//! Twin of `plane/bpf/history.h`; the meaning is weir-policy's `eval::history`.
//!
//! In: a policy's histories. Out: [`Layout`], one [`Record`] for each (parameters, written into
//! the image) and the size of the memory, which starts as zeros; and [`Histories`], the memory in
//! user space. Nothing grows: tables have a fixed number of places, in buckets that are searched
//! whole. When a bucket is full:
//! * a hash limit counts the packet as over its rate,
//! * a connection limit counts it as over its count,
//! * a meter drops it,
//! * an address list forgets the address of the bucket that was seen least recently.

mod memory;
pub mod meter;
mod record;
mod tables;

pub use memory::Histories;
pub use record::{Layout, LayoutError, Record, flag, kind, layout};

/// A single-word token bucket, the generic cell rate algorithm: the word is the time at which the
/// bucket would be full again. Units of 100 us. Equal to counting tokens; see the test.
pub fn limit(word: &mut u64, record: &Record, now_ms: u64) -> bool {
    let now = now_ms * 10;
    if record.flags & flag::NEVER != 0 || *word > now + record.b {
        return false;
    }
    *word = (*word).max(now) + record.a;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_policy::eval::history::{Bucket, Price};
    use weir_policy::model::{HistoryKind, HistoryObject, Limit, Policy};

    #[test]
    fn one_word_equals_counted_tokens() {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let limit_of_rule = Limit {
                cost: rng.u32(0..100_000),
                burst: rng.u32(0..8),
            };
            let policy = Policy {
                histories: vec![HistoryObject {
                    shared: None,
                    kind: HistoryKind::Limit(limit_of_rule),
                }],
                ..Policy::default()
            };
            let record = layout(&policy, 0).expect("it fits").records[0];
            let (mut word, mut bucket, mut now) = (0, Bucket::default(), rng.u64(..1000));
            for _ in 0..2000 {
                now += rng.u64(..u64::from(limit_of_rule.cost / 5 + 2));
                let counted = bucket.take(Price::limit(&limit_of_rule), now);
                assert_eq!(
                    limit(&mut word, &record, now),
                    counted,
                    "{limit_of_rule:?} at {now}"
                );
            }
        }
    }
}
