//! How many ICMP answers may leave, like the kernel's own limits (ip-sysctl in the documentation:
//! icmp_ratelimit, icmp_ratemask, icmp_msgs_per_sec, icmp_msgs_burst, and icmp.ratelimit of IPv6).

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Credit of one destination, or of all together.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    credit: Duration,
    since: Instant,
}

/// Limits and what was used of them.
#[derive(Debug)]
pub struct Pace {
    each_v4: Duration,
    each_v6: Duration,
    all: Option<(Duration, u32)>,
    total: Bucket,
    peers: HashMap<IpAddr, Bucket>,
}

/// Answers that one destination can have at once.
const BURST: u32 = 6;
/// Destinations remembered; beyond that everything is forgotten.
const PEERS_MAX: usize = 8192;

fn number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

impl Pace {
    /// The limits of the calling thread's namespace.
    pub fn of_namespace() -> Pace {
        let milliseconds = |path: &str| Duration::from_millis(number(path).unwrap_or(1000));
        let mask = number("/proc/sys/net/ipv4/icmp_ratemask").unwrap_or(1 << 3);
        let limited = mask & 1 << 3 != 0;
        let each_v4 = milliseconds("/proc/sys/net/ipv4/icmp_ratelimit");
        let rate = number("/proc/sys/net/ipv4/icmp_msgs_per_sec").unwrap_or(1000);
        let burst = number("/proc/sys/net/ipv4/icmp_msgs_burst").unwrap_or(50) as u32;
        let all = (limited && rate > 0).then(|| {
            (
                Duration::from_secs(1) / rate.min(1_000_000) as u32,
                burst.max(1),
            )
        });
        Pace {
            each_v4: if limited { each_v4 } else { Duration::ZERO },
            each_v6: milliseconds("/proc/sys/net/ipv6/icmp/ratelimit"),
            all,
            total: Bucket {
                credit: Duration::from_secs(1),
                since: Instant::now(),
            },
            peers: HashMap::new(),
        }
    }

    /// Whether an answer to this destination may leave now.
    pub fn allows(&mut self, to: IpAddr, now: Instant) -> bool {
        if to.is_loopback() {
            return true;
        }
        let each = if to.is_ipv4() {
            self.each_v4
        } else {
            self.each_v6
        };
        if each.is_zero() {
            return true;
        }
        if to.is_ipv4()
            && let Some((one, burst)) = self.all
            && !take(&mut self.total, one, burst, now)
        {
            return false;
        }
        if self.peers.len() >= PEERS_MAX {
            self.peers.clear();
        }
        let full = Bucket {
            credit: each * BURST,
            since: now,
        };
        take(self.peers.entry(to).or_insert(full), each, BURST, now)
    }
}

fn take(bucket: &mut Bucket, one: Duration, burst: u32, now: Instant) -> bool {
    let gained = now.saturating_duration_since(bucket.since);
    bucket.since = now;
    bucket.credit = (bucket.credit + gained).min(one * burst);
    match bucket.credit.checked_sub(one) {
        Some(rest) => {
            bucket.credit = rest;
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_gets_six_at_once_then_one_a_second() {
        let start = Instant::now();
        let mut pace = Pace {
            each_v4: Duration::from_secs(1),
            each_v6: Duration::ZERO,
            all: None,
            total: Bucket {
                credit: Duration::ZERO,
                since: start,
            },
            peers: HashMap::new(),
        };
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let at_once = (0..20).filter(|_| pace.allows(one, start)).count();
        assert_eq!(at_once, 6);
        assert!(pace.allows(other, start));
        assert!(!pace.allows(one, start + Duration::from_millis(999)));
        assert!(pace.allows(one, start + Duration::from_millis(1000)));
        assert!(!pace.allows(one, start + Duration::from_millis(1001)));
        assert!(
            pace.allows(IpAddr::from([0u16, 0, 0, 0, 0, 0, 1, 1]), start),
            "no limit for IPv6"
        );
    }
}
