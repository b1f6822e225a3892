//! Records about states and limits of enforced rules, as lines of `ipmon`.
//!
//! In: the kernel's records. Out: `STATE:NEW`, `STATE:EXPIRE`, and HP-UX's alert and summary of a
//! limit of connections; without the date, which the writer puts in front.

use super::limits::{ends_of_enforced, place_of};
use super::live::Live;
use serde::{Deserialize, Serialize};
use weir_plane::records::{Kind, Record};
use weir_plane::shares::Limit;
use weir_policy::dialect::ipf::ast::Rule;
use weir_policy::dialect::iptables::names::protocols;
use weir_policy::eval::ipf::limit::host;
use weir_policy::eval::ipf::log::{clock, flags};
use weir_policy::model::Family;

/// A line, and when it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Milliseconds since the epoch.
    pub time_ms: u64,
    /// The line without its date.
    pub state: String,
}

/// The protocol in logs.
fn protocol(family: Family, proto: u8) -> String {
    match (family, protocols::name(proto)) {
        (Family::V6, Some("ipv6-icmp")) => "icmpv6".to_owned(),
        (_, Some(name)) => name.to_owned(),
        (_, None) => proto.to_string(),
    }
}

fn ends(record: &Record) -> String {
    let (from, to) = (
        host(record.family, record.source),
        host(record.family, record.destination),
    );
    let proto = protocol(record.family, record.proto);
    match record.proto {
        6 | 17 => format!(
            "{from},{} -> {to},{} PR {proto}",
            record.ports.0, record.ports.1
        ),
        1 | 58 => format!("{from} -> {to} PR {proto} {}", record.ports.0),
        _ => format!("{from} -> {to} PR {proto}"),
    }
}

/// The line of a record, unless its rule wants none. `first_ms`: when its limit began to count,
/// since the epoch; `names`: of interfaces by number.
pub fn line(
    record: &Record,
    live: &Live,
    generation: u32,
    first_ms: u64,
    names: &[(u32, String)],
) -> Option<String> {
    let own = (record.generation == generation).then_some(record.rule);
    let rule: Option<&Rule> = own.and_then(|rule| live.rules.set.rules.get(rule as usize));
    let keep = rule.and_then(|rule| rule.keep_state.as_ref());
    let silent = keep.is_some_and(|keep| keep.nolog);
    match record.kind {
        Kind::New | Kind::Expire if silent => None,
        Kind::New | Kind::Expire => {
            let what = if record.kind == Kind::New {
                "NEW"
            } else {
                "EXPIRE"
            };
            let mut out = format!("STATE:{what} {}", ends(record));
            if let Some(tag) = rule.and_then(|rule| rule.set_tag.log) {
                out += &format!(" tag {tag}");
            }
            if record.kind == Kind::Expire {
                let side = |at: usize| {
                    let ((pin, bin), (pout, bout)) = (record.counts[at], record.counts[at + 1]);
                    format!("Pkts in {pin} Bytes in {bin} Pkts out {pout} Bytes out {bout}")
                };
                out += &format!(" Forward: {} Backward: {}", side(0), side(2));
            }
            Some(out)
        }
        Kind::Alert => {
            let name = names.iter().find(|(number, _)| *number == record.interface);
            Some(format!(
                "{} {} {} keep limit Type {} Configured {} Current {} Exceeded {} Freq {} IN",
                name.map_or("-", |(_, name)| name.as_str()),
                ends(record),
                flags(record.tcp_flags),
                record.limit,
                record.configured,
                record.current,
                record.exceeded,
                record.alerts
            ))
        }
        Kind::Summary => Some(summary(
            &Limit {
                kind: record.limit,
                family: record.family,
                source: record.source,
                destination: record.destination,
                port: record.ports.1,
                rule: own,
                configured: record.configured,
                current: record.current,
                exceeded: record.exceeded,
                resets: 0,
                first_ms: record.first_ms,
            },
            live,
            first_ms,
        )),
    }
}

/// The summary of a limit; `first_ms` since the epoch.
pub fn summary(limit: &Limit, live: &Live, first_ms: u64) -> String {
    let (source, destination, port) = ends_of_enforced(live, limit);
    format!(
        "LIMIT LOG {source},* -> {destination},{port} PR tcp Type {} Configured {} Current {} \
         Exceeded {} {} First Time {}",
        limit.kind,
        limit.configured,
        limit.current,
        limit.exceeded,
        place_of(live, limit.rule),
        clock(first_ms),
    )
}
