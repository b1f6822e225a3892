//! Would a new policy cut the ssh session that it is typed in?
//!
//! In: `SSH_CONNECTION` (ssh(1)), a policy. Out: the first packet of the session that would not
//! pass, with the explanation, or nothing. The session is judged as the kernel plane would see it:
//! in the middle, without its beginning. A warning, not a proof: rules that remember may answer
//! otherwise.

use crate::explain::{Explanation, Texts, explain};
use crate::rules::Places;
use crate::spec::{self, Spec};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use weir_policy::eval::Evaluator;
use weir_policy::model::Policy;

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    client: (IpAddr, u16),
    server: (IpAddr, u16),
}

impl Session {
    /// The session that this process runs in, if it runs in one.
    pub fn current() -> Option<Self> {
        Self::parse(&std::env::var("SSH_CONNECTION").ok()?)
    }

    /// Reads `client port server port`. Mapped addresses are taken as the IPv4 that they are.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let mut end = || {
            // A link-local address may carry its interface behind `%`.
            let address = words.next()?.split('%').next()?;
            let address: IpAddr = address.parse().ok()?;
            Some((address.to_canonical(), words.next()?.parse().ok()?))
        };
        let session = Session {
            client: end()?,
            server: end()?,
        };
        (session.client.0.is_ipv4() == session.server.0.is_ipv4()).then_some(session)
    }

    /// The interface towards the client, as routing has it now.
    fn interface(&self) -> Option<String> {
        let answer = Command::new("ip")
            .args(["-o", "route", "get", &self.client.0.to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8(answer.stdout).ok()?;
        let mut words = text.split_whitespace();
        words.find(|word| *word == "dev")?;
        words.next().map(str::to_owned)
    }

    /// A packet of each direction.
    fn packets(&self, interface: Option<&str>) -> Vec<Spec> {
        let end = |(address, port)| match address {
            IpAddr::V4(v4) => format!("{v4}:{port}"),
            IpAddr::V6(v6) => format!("[{v6}]:{port}"),
        };
        let (client, server) = (end(self.client), end(self.server));
        let on = |key: &str| interface.map_or(String::new(), |name| format!("{key}={name}"));
        let (arriving, leaving) = (on("in"), on("out"));
        [
            format!("hook=INPUT {arriving} tcp {client} > {server} ack"),
            format!("hook=OUTPUT {leaving} tcp {server} > {client} ack"),
        ]
        .iter()
        .filter_map(|text| spec::parse(text).ok())
        .collect()
    }

    /// The first packet that a policy would not let through.
    pub fn cut_by(&self, policy: &Policy, texts: &dyn Texts) -> Option<Explanation> {
        self.cut_on(policy, texts, self.interface().as_deref())
    }

    fn cut_on(
        &self,
        policy: &Policy,
        texts: &dyn Texts,
        interface: Option<&str>,
    ) -> Option<Explanation> {
        let places = Places::of(policy);
        let mut evaluator = Evaluator::new(policy, 0);
        self.packets(interface)
            .iter()
            .map(|packet| explain(&mut evaluator, packet, &places, texts, 0))
            .find(|explanation| explanation.verdict != "accept")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_policy::model::{
        Chain, ChainId, ChainPolicy, Counters, Family, Hook, Origin, Root, RuleId, SourceId, Table,
        Verdict,
    };

    struct Silent;

    impl Texts for Silent {
        fn text(&self, _: RuleId) -> Option<String> {
            None
        }
    }

    #[test]
    fn sessions_are_read_in_both_families() {
        let session = Session::parse("192.0.2.9 51000 198.51.100.1 22").unwrap();
        assert_eq!(session.client, ("192.0.2.9".parse().unwrap(), 51000));
        assert_eq!(session.packets(Some("eth0"))[1].packet.out_iface, "eth0");
        let mapped = Session::parse("::ffff:192.0.2.9 51000 ::ffff:198.51.100.1 22");
        assert_eq!(mapped, Some(session));
        let link = Session::parse("fe80::1%eth0 51000 fe80::2%eth0 22").unwrap();
        assert_eq!(link.packets(None)[0].packet.in_iface, "");
        assert_eq!(Session::parse("192.0.2.9 51000"), None);
        assert_eq!(Session::parse("192.0.2.9 51000 ::1 22"), None);
    }

    #[test]
    fn a_policy_that_drops_the_answers_is_told() {
        let session = Session::parse("192.0.2.9 51000 198.51.100.1 22").unwrap();
        let mut policy = Policy {
            sources: vec!["r".to_owned()],
            chains: vec![Chain {
                name: "OUTPUT".to_owned(),
                family: Family::V4,
                table: Table::Filter,
                rules: vec![],
                policy: Some(ChainPolicy {
                    id: RuleId(0),
                    origin: Origin {
                        source: SourceId(0),
                        line: 3,
                        column: 1,
                    },
                    verdict: Verdict::Drop,
                    preset: Counters::default(),
                }),
            }],
            roots: vec![Root {
                family: Family::V4,
                hook: Hook::Output,
                table: Table::Filter,
                chain: ChainId(0),
            }],
            rule_count: 1,
            ..Policy::default()
        };
        let cut = session.cut_on(&policy, &Silent, Some("eth0")).unwrap();
        assert!(
            cut.packet
                .starts_with("hook=OUTPUT out=eth0 tcp 198.51.100.1:22 >")
        );
        assert_eq!(cut.rule.as_deref(), Some("r:3"));
        policy.chains[0].policy.as_mut().unwrap().verdict = Verdict::Accept;
        assert!(session.cut_on(&policy, &Silent, None).is_none());
    }
}
