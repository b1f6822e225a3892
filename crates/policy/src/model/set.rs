//! Named sets of addresses, networks and ports (ipset's types; tables of other languages later).

use super::{Family, RangeSet};

/// Index in [`super::Policy::sets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(pub u32);

/// What one dimension of a set holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetDimension {
    /// An address or network.
    Address,
    /// Protocol and port (TCP, UDP, SCTP, UDP-Lite), or ICMP type and code as `type << 8 | code`.
    ProtoPort,
    /// A port of whatever protocol (bitmap:port: TCP and UDP).
    Port,
}

/// Which field of the packet feeds a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetField {
    /// Source address or port.
    Src,
    /// Destination address or port.
    Dst,
}

/// The value of an entry in one dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SetPart {
    /// Addresses `first..=last` (one prefix or one address; IPv4 in the low 32 bits).
    Addresses(u128, u128),
    /// Protocol and port range.
    ProtoPorts(u8, u16, u16),
    /// Port range of any protocol.
    Ports(u16, u16),
}

/// One entry: a part for each dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SetEntry {
    /// Parts, in the order of the set's dimensions.
    pub parts: Vec<SetPart>,
    /// A `nomatch` entry: packets whose most specific entry this is are not in the set.
    pub nomatch: bool,
    /// Seconds to live, when the set has timeouts.
    pub timeout: Option<u32>,
}

/// A named set.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedSet {
    /// Name.
    pub name: String,
    /// Family of its addresses; `None` for ports and for lists of sets of both families.
    pub family: Option<Family>,
    /// Dimensions; empty for a list of sets.
    pub dimensions: Vec<SetDimension>,
    /// Entries.
    pub entries: Vec<SetEntry>,
    /// For a list of sets: the sets, in order. A packet is in the list when it is in one of them
    /// whose dimensions the test's fields fill.
    pub members: Vec<SetId>,
    /// Whether rules add or delete entries (`-j SET`), so that it must live in memory that the
    /// packet path can write.
    pub changes: bool,
}

impl NamedSet {
    /// The addresses of a one-dimensional address set that rules do not change, else `None`.
    /// Timeouts are not looked at. The most specific entry decides: `nomatch` takes out what a
    /// wider entry put in, and what a narrower one puts in stays.
    pub fn addresses(&self) -> Option<RangeSet<u128>> {
        if self.dimensions != [SetDimension::Address] || self.changes {
            return None;
        }
        let mut entries = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            match entry.parts.as_slice() {
                [SetPart::Addresses(first, last)] => entries.push((*first, *last, entry.nomatch)),
                _ => return None,
            }
        }
        if !entries.iter().any(|entry| entry.2) {
            return Some(RangeSet::from_ranges(
                entries.into_iter().map(|e| (e.0, e.1)),
            ));
        }
        // Widest first, and of equals the first written last, so that it has the last word.
        entries.reverse();
        entries.sort_by_key(|(first, last, _)| std::cmp::Reverse(last - first));
        let mut all = RangeSet::default();
        for (first, last, nomatch) in entries {
            let range = RangeSet::range(first, last);
            all = match nomatch {
                false => all.union(&range),
                true => all.intersect(&range.complement(u128::MAX)),
            };
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_entry_decides() {
        let entry = |first, last, nomatch| SetEntry {
            parts: vec![SetPart::Addresses(first, last)],
            nomatch,
            timeout: None,
        };
        let set = NamedSet {
            name: "s".into(),
            family: Some(Family::V4),
            dimensions: vec![SetDimension::Address],
            entries: vec![entry(5, 5, false), entry(0, 15, false), entry(4, 7, true)],
            members: vec![],
            changes: false,
        };
        let addresses = set.addresses().expect("one dimension");
        assert_eq!(addresses.ranges(), &[(0, 3), (5, 5), (8, 15)]);
    }
}
