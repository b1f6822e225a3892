//! Random values for the holes of spellings: a case is its seed.

use weir_policy::model::Family;

/// A small generator of random numbers (SplitMix64), so that a case is its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn pick<'t, T>(&mut self, list: &'t [T]) -> &'t T {
        &list[self.below(list.len() as u64) as usize]
    }

    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

fn address(random: &mut Random, family: Family) -> String {
    match family {
        Family::V4 => std::net::Ipv4Addr::from_bits(random.next() as u32).to_string(),
        Family::V6 => {
            let bits = u128::from(random.next()) << 64 | u128::from(random.next());
            std::net::Ipv6Addr::from_bits(bits).to_string()
        }
    }
}

/// An address with a mask of some form.
pub fn network(random: &mut Random, family: Family) -> String {
    let host = address(random, family);
    let width = if family == Family::V4 { 33 } else { 129 };
    match random.below(6) {
        0 => host,
        1 if family == Family::V4 => format!("{host}/{}", address(random, family)),
        1 => format!("{host}/{}", address(random, family)),
        2 if family == Family::V4 => format!("{host}/255.255.0.0"),
        _ => format!("{host}/{}", random.below(width)),
    }
}

fn pair(random: &mut Random, top: u64) -> (u64, u64) {
    let (a, b) = (random.below(top), random.below(top));
    (a.min(b), a.max(b))
}

fn names(random: &mut Random, names: &[&str]) -> String {
    let mut chosen: Vec<&str> = names.iter().copied().filter(|_| random.chance(2)).collect();
    if chosen.is_empty() {
        chosen.push(names[0]);
    }
    chosen.join(",")
}

fn port_list(random: &mut Random) -> String {
    let mut parts = Vec::new();
    for _ in 0..=random.below(6) {
        let (first, last) = pair(random, 65_536);
        parts.push(match random.chance(2) && first != last {
            true => format!("{first}:{last}"),
            false => first.to_string(),
        });
    }
    parts.join(",")
}

/// What fills one hole.
fn fill_one(hole: &str, random: &mut Random, family: Family) -> String {
    match hole {
        "port" => random.below(65_536).to_string(),
        "range" | "nums" => {
            let (first, last) = pair(random, 65_536);
            format!("{first}:{last}")
        }
        "ids" => {
            let (first, last) = pair(random, 65_536);
            format!("{first}-{last}")
        }
        "portlist" => port_list(random),
        "flags" => names(random, &["SYN", "ACK", "FIN", "RST", "URG", "PSH"]),
        "states" => names(
            random,
            &["NEW", "ESTABLISHED", "RELATED", "INVALID", "UNTRACKED"],
        ),
        "ip" => address(random, family),
        "net" => network(random, family),
        "mask" if family == Family::V4 => "255.255.0.0".to_owned(),
        "mask" => "ffff:ffff::".to_owned(),
        "ips" => {
            let mut ends = [address(random, family), address(random, family)];
            ends.sort_by_key(|end| end.parse::<std::net::IpAddr>().unwrap());
            format!("{}-{}", ends[0], ends[1])
        }
        "mac" => {
            let bytes: Vec<String> = (0..6)
                .map(|_| format!("{:02x}", random.below(256)))
                .collect();
            bytes.join(":")
        }
        "mark" => format!("{:#x}/{:#x}", random.next() as u32, random.next() as u32),
        "rate" => {
            let units = [
                "", "/s", "/sec", "/second", "/min", "/minute", "/hour", "/day", "/h",
            ];
            format!("{}{}", 1 + random.below(9_999), random.pick(&units))
        }
        "word" => format!("w{}", random.below(1000)),
        "text" => {
            let parts = [
                "a b",
                "it's",
                "\\\\",
                "\\\"quoted\\\"",
                "é",
                "--x",
                "!",
                "#",
                "$(x)",
                " ",
            ];
            format!("\"{}{}\"", random.pick(&parts), random.pick(&parts))
        }
        range => {
            let (least, most) = range.split_once('-').expect("a known hole");
            let (least, most): (u64, u64) = (least.parse().unwrap(), most.parse().unwrap());
            (least + random.below(most - least + 1)).to_string()
        }
    }
}

/// A spelling with its holes filled.
pub fn fill(template: &str, random: &mut Random, family: Family) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let close = open + rest[open..].find('}').expect("a closed hole");
        out.push_str(&rest[..open]);
        out.push_str(&fill_one(&rest[open + 1..close], random, family));
        rest = &rest[close + 1..];
    }
    out.push_str(rest);
    out
}
