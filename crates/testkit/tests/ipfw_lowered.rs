//! ipfw's rules three ways: their own evaluator (the meaning), the rule model that they are lowered
//! to, and the compiled image. Same verdicts, same rules in the same order, same changes, packet by
//! packet, and the same counters in the end.
//!
//! Not compared: IPv6 packets that end inside a header of GRE, which the parser of the other
//! languages does not read; and random choices, of which each has its own.

#[path = "ipfw/both.rs"]
mod both;

use both::{Both, ended};
use fastrand::Rng;
use weir_engine::compile::Options;
use weir_engine::packet::ipfw::{Met, Read, read};
use weir_engine::packet::{Arrival, build, packet, settle};
use weir_policy::dialect::ipfw::lower::{Options as Lowering, lower};
use weir_policy::dialect::ipfw::{NoNames, Settings, read as read_rules};
use weir_policy::eval::ipfw::{Carried, HostAddress, Judgement as Meant, Pass};
use weir_policy::eval::{Judgement, Passage};
use weir_policy::model::{Family, Hook, Packet, Reading};
use weir_policy::syntax::Sources;
use weir_testkit::dress::Dress;
use weir_testkit::equality::Comparison;
use weir_testkit::random::PacketSource;
use weir_testkit::random::ipfw::{lowered, text, ways_back};
use weir_testkit::seeds::seeds;

/// Every third list asks for RST or ACK at `established`.
fn settings(seed: u64) -> Settings {
    Settings {
        established_strict: seed.is_multiple_of(3),
        ..Settings::default()
    }
}

const HOOKS: [Hook; 3] = [Hook::Prerouting, Hook::Forward, Hook::Output];

impl Both<'_> {
    /// Judges a packet both ways; `None` for what is not compared.
    fn judge(&mut self, made: &Packet, rng: &mut Rng) -> Option<(Meant, Carried, Judgement)> {
        let mut bytes = build(made, usize::MAX).expect("a settled packet can be built");
        Dress::new(rng).put_on(&mut bytes);
        let mut met = packet(
            &bytes,
            bytes.len() as u32,
            &Arrival::of(made),
            Reading::Ipfw,
        )
        .expect("it parses");
        let pass = match made.hook {
            Hook::Prerouting => Pass::In,
            _ => Pass::Out,
        };
        let place = Met {
            pass,
            recv: met.in_iface.clone(),
            xmit: met.out_iface.clone(),
            frame: None,
            to_many: false,
        };
        let mut carried = Carried::default();
        let meant = match read(&bytes, bytes.len() as u32, &place, &self.set.settings) {
            Read::NotIp => return None,
            Read::Dropped(why) => Meant::dropped(why),
            Read::Packet(mut own) => {
                own.owner = met.owner;
                met.handling = ways_back(&self.meaning.host, &own);
                carried = self.carried(&own, met.mark);
                self.meaning.judge(&own, &mut carried, 1_000)
            }
        };
        let found = self.model.judge(&met, &mut Passage::of(&met), 1_000);
        Some((meant, carried, found))
    }
}

#[test]
fn lowered_rules_mean_what_their_own_evaluator_says() {
    let (mut policies, mut packets, mut outcomes) = (0, 0u32, [0u32; 4]);
    for seed in seeds(2_400) {
        let text = text(seed);
        let Some((set, policy)) = lowered(&text, settings(seed)) else {
            continue;
        };
        policies += 1;
        let mut both = Both::new(&set, &policy);
        let mut source = PacketSource::new(&policy, seed);
        let mut rng = Rng::with_seed(seed);
        for number in 0..120 {
            let family = [Family::V4, Family::V6][number % 2];
            let hook = HOOKS[number / 2 % 3];
            let mut made = source.packet(family, hook);
            if hook == Hook::Output && number % 3 == 0 {
                made.owner = Some((0, 0));
            }
            settle(&mut made);
            let Some((meant, carried, found)) = both.judge(&made, &mut rng) else {
                continue;
            };
            packets += 1;
            if let Err(what) = both.compare(&meant, &carried, &found) {
                panic!(
                    "{what}: seed {seed} packet {number} {made:?}\n{meant:?}\n{carried:?}\n\
                     {found:?}\n{text}"
                );
            }
            outcomes[ended(&meant)] += 1;
        }
        both.compare_counters(&format!("seed {seed}\n{text}"));
    }
    println!("{policies} rule sets, {packets} packets: unread, pass, deny, answer {outcomes:?}");
    assert!(
        policies >= 1_500 && outcomes.iter().all(|count| *count > 1_000),
        "{policies} {outcomes:?}"
    );
}

#[test]
fn lowered_rules_compile_to_what_they_mean() {
    let mut policies = 0;
    for seed in seeds(300) {
        let Some((_, policy)) = lowered(&text(seed), settings(seed)) else {
            continue;
        };
        policies += 1;
        let comparison = Comparison {
            policy: &policy,
            packets: 600,
            seed,
            hooks: &HOOKS,
            options: Options::default(),
            kernel: None,
            dressed: true,
        };
        if let Err(mismatch) = comparison.run() {
            panic!("seed {seed}: {}\n{}", mismatch.0, text(seed));
        }
    }
    assert!(policies > 200, "{policies}");
}

#[test]
fn interfaces_by_address_are_those_that_have_it() {
    let text = "\
add 100 count ip from any to any via 10.9.9.1
add 110 count ip from any to any not via 10.9.9.1
add 200 count ip from any to any via 10.9.9.2
add 210 count ip from any to any not via 10.9.9.2
add 300 count ip from any to any recv 10.9.9.1
add 310 count ip from any to any not recv 10.9.9.1 out
add 400 deny ip from any to any xmit 10.9.9.1
add 500 allow ip from any to any
";
    let mut sources = Sources::new();
    let id = sources.add("rules", text);
    let mut set = read_rules(text, id, &NoNames, Settings::default()).ruleset;
    assert_eq!(set.asked_owners(), [0x0a09_0901, 0x0a09_0902]);
    assert!(lower(&set, &sources, Lowering::default()).0.is_none());
    // Two interfaces have the first address, nobody has the second.
    let owners = ["eth0", "eth1"].map(|name| (name.to_owned(), 0x0a09_0901));
    set.owners = Some(owners.to_vec());
    let (policy, found) = lower(&set, &sources, Lowering::default());
    assert_eq!(found.len(), 2, "{found:?}");
    let policy = policy.expect("nothing is refused");
    let mut both = Both::new(&set, &policy);
    for name in ["eth0", "eth1"] {
        both.meaning.host.addresses.push(HostAddress {
            interface: name.to_owned(),
            family: Family::V4,
            address: 0x0a09_0901,
            length: 24,
        });
    }
    let mut source = PacketSource::new(&policy, 1);
    let mut rng = Rng::with_seed(1);
    for number in 0..600 {
        let family = [Family::V4, Family::V6][number % 2];
        let mut made = source.packet(family, HOOKS[number / 2 % 3]);
        settle(&mut made);
        if let Some((meant, carried, found)) = both.judge(&made, &mut rng) {
            let same = both.compare(&meant, &carried, &found);
            assert!(same.is_ok(), "{same:?} {made:?}\n{meant:?}\n{found:?}");
        }
    }
    let of = |at: usize| both.model.counters[set.rules[at].id.0 as usize].packets;
    assert!(of(0) > 0 && of(1) > 0 && of(2) == 0 && of(6) > 0);
    assert_eq!(of(3), of(0) + of(1), "nobody has the address");
}
