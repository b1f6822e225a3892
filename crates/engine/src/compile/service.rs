//! Services: what a term says about the small fields (protocol, transport kind, flags, interfaces).
//!
//! A policy has few distinct services, so terms hold a number and intersections are remembered.

use super::hash::QuickMap;

/// A set of values of an 8-bit field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bits(pub [u64; 4]);

impl Bits {
    /// Every value.
    pub const ALL: Bits = Bits([u64::MAX; 4]);

    /// The values for which `f` holds.
    pub fn of(f: impl Fn(u8) -> bool) -> Self {
        let mut bits = [0; 4];
        for value in 0..=255u8 {
            bits[usize::from(value) / 64] |= u64::from(f(value)) << (value % 64);
        }
        Bits(bits)
    }

    /// The values in ranges.
    pub fn ranges(ranges: &[(u8, u8)]) -> Self {
        let mut bits = [0; 4];
        for value in ranges.iter().flat_map(|(first, last)| *first..=*last) {
            bits[usize::from(value) / 64] |= 1 << (value % 64);
        }
        Bits(bits)
    }

    /// The values that are not in the set.
    pub fn complement(&self) -> Self {
        Bits(self.0.map(|word| !word))
    }

    /// Whether a value is in the set.
    pub fn has(&self, value: u8) -> bool {
        self.0[usize::from(value) / 64] >> (value % 64) & 1 != 0
    }

    /// The value, when there is only one.
    pub fn only(&self) -> Option<u8> {
        let count: u32 = self.0.iter().map(|word| word.count_ones()).sum();
        let at = self.0.iter().position(|word| *word != 0)?;
        (count == 1).then(|| (at as u32 * 64 + self.0[at].trailing_zeros()) as u8)
    }

    fn and(&self, other: &Self) -> Self {
        Bits(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }
}

/// A product of sets over the small fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Service {
    /// Protocol.
    pub proto: Bits,
    /// Kind byte: see [`crate::image::layout::kind_of`].
    pub kind: Bits,
    /// TCP flags.
    pub flags: Bits,
    /// Classes of receiving interfaces; `None`: all.
    pub input: Option<Vec<u64>>,
    /// Classes of sending interfaces; `None`: all.
    pub output: Option<Vec<u64>>,
}

impl Service {
    /// Says nothing.
    pub const ANY: Service = Service {
        proto: Bits::ALL,
        kind: Bits::ALL,
        flags: Bits::ALL,
        input: None,
        output: None,
    };

    /// Packets of both; `None` when there are none.
    pub fn and(&self, other: &Self) -> Option<Self> {
        let classes = |a: &Option<Vec<u64>>, b: &Option<Vec<u64>>| match (a, b) {
            (None, same) | (same, None) => same.clone(),
            (Some(a), Some(b)) => Some(a.iter().zip(b).map(|(a, b)| a & b).collect()),
        };
        let out = Service {
            proto: self.proto.and(&other.proto),
            kind: self.kind.and(&other.kind),
            flags: self.flags.and(&other.flags),
            input: classes(&self.input, &other.input),
            output: classes(&self.output, &other.output),
        };
        let none = |words: &[u64]| words.iter().all(|w| *w == 0);
        let empty = [&out.proto, &out.kind, &out.flags]
            .iter()
            .any(|b| none(&b.0))
            || [&out.input, &out.output]
                .iter()
                .any(|c| c.as_ref().is_some_and(|c| none(c)));
        (!empty).then_some(out)
    }
}

/// Number of a service in [`Services`]; 0 says nothing.
pub type ServiceId = u32;

/// All services met so far.
#[derive(Debug)]
pub struct Services {
    all: Vec<Service>,
    numbers: QuickMap<Service, ServiceId>,
    products: QuickMap<(ServiceId, ServiceId), Option<ServiceId>>,
}

impl Default for Services {
    fn default() -> Self {
        let mut services = Services {
            all: Vec::new(),
            numbers: QuickMap::default(),
            products: QuickMap::default(),
        };
        services.number(Service::ANY);
        services
    }
}

impl Services {
    /// The number of a service.
    pub fn number(&mut self, service: Service) -> ServiceId {
        if let Some(number) = self.numbers.get(&service) {
            return *number;
        }
        let number = self.all.len() as ServiceId;
        self.all.push(service.clone());
        self.numbers.insert(service, number);
        number
    }

    /// The service with a number.
    pub fn get(&self, number: ServiceId) -> &Service {
        &self.all[number as usize]
    }

    /// Packets of both.
    pub fn and(&mut self, a: ServiceId, b: ServiceId) -> Option<ServiceId> {
        if a == 0 || a == b {
            return Some(b);
        }
        if b == 0 {
            return Some(a);
        }
        if let Some(known) = self.products.get(&(a, b)) {
            return *known;
        }
        let product = self.all[a as usize].and(&self.all[b as usize]);
        let number = product.map(|service| self.number(service));
        self.products.insert((a, b), number);
        number
    }
}
