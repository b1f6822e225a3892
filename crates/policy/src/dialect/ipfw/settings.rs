//! Settings that FreeBSD keeps as sysctl variables.
//!
//! In: names and values. Out: what the rule set and the evaluator ask for. Defaults are the
//! kernel's (FreeBSD 13), not the manual's, where the two differ.

/// Settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The filter is on.
    pub enable: bool,
    /// Distance of rules that number themselves.
    pub autoinc_step: u32,
    /// Packets that left a pipe are accepted.
    pub one_pass: bool,
    /// What the last rule does.
    pub default_to_accept: bool,
    /// Tables that may exist.
    pub tables_max: u32,
    /// Log lines go to syslog.
    pub verbose: bool,
    /// Lines of a `log` without `logamount`; 0 is no limit.
    pub verbose_limit: u32,
    /// Seconds: TCP, both sides acknowledged.
    pub dyn_ack_lifetime: u32,
    /// Seconds: TCP, opening.
    pub dyn_syn_lifetime: u32,
    /// Seconds: TCP, both sides closed.
    pub dyn_fin_lifetime: u32,
    /// Seconds: TCP, reset or unknown.
    pub dyn_rst_lifetime: u32,
    /// Seconds: UDP.
    pub dyn_udp_lifetime: u32,
    /// Seconds: everything else.
    pub dyn_short_lifetime: u32,
    /// States that may exist.
    pub dyn_max: u32,
    /// Counters of limits that may exist.
    pub dyn_parent_max: u32,
    /// Keepalives are sent.
    pub dyn_keepalive: bool,
    /// States outlive their rules.
    pub dyn_keep_states: bool,
    /// Unknown IPv6 extension headers are dropped.
    pub deny_unknown_exthdrs: bool,
    /// IPv6 fragments that are whole packets pass.
    pub permit_single_frag6: bool,
    /// The link layer is filtered too.
    pub ether_ipfw: bool,
    /// Routing tables.
    pub fibs: u32,
    /// weir's own: `established` asks for RST or ACK, as the manual says.
    pub established_strict: bool,
    /// weir's own: an ICMP error about a packet of a state is found by it.
    pub dyn_icmp_errors: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enable: true,
            autoinc_step: 100,
            one_pass: true,
            default_to_accept: false,
            tables_max: 128,
            verbose: false,
            verbose_limit: 0,
            dyn_ack_lifetime: 300,
            dyn_syn_lifetime: 20,
            dyn_fin_lifetime: 1,
            dyn_rst_lifetime: 1,
            dyn_udp_lifetime: 10,
            dyn_short_lifetime: 5,
            dyn_max: 16384,
            dyn_parent_max: 4096,
            dyn_keepalive: true,
            dyn_keep_states: false,
            deny_unknown_exthdrs: true,
            permit_single_frag6: true,
            ether_ipfw: false,
            fibs: 1,
            established_strict: false,
            dyn_icmp_errors: false,
        }
    }
}

/// All variables, under the names that are printed.
const NAMES: [&str; 22] = [
    "net.inet.ip.fw.enable",
    "net.inet.ip.fw.autoinc_step",
    "net.inet.ip.fw.one_pass",
    "net.inet.ip.fw.default_to_accept",
    "net.inet.ip.fw.tables_max",
    "net.inet.ip.fw.verbose",
    "net.inet.ip.fw.verbose_limit",
    "net.inet.ip.fw.dyn_ack_lifetime",
    "net.inet.ip.fw.dyn_syn_lifetime",
    "net.inet.ip.fw.dyn_fin_lifetime",
    "net.inet.ip.fw.dyn_rst_lifetime",
    "net.inet.ip.fw.dyn_udp_lifetime",
    "net.inet.ip.fw.dyn_short_lifetime",
    "net.inet.ip.fw.dyn_max",
    "net.inet.ip.fw.dyn_parent_max",
    "net.inet.ip.fw.dyn_keepalive",
    "net.inet.ip.fw.dyn_keep_states",
    "net.inet6.ip6.fw.deny_unknown_exthdrs",
    "net.inet6.ip6.fw.permit_single_frag6",
    "net.link.ether.ipfw",
    "weir.established_strict",
    "weir.dyn_icmp_errors",
];

/// A place for a variable's value.
enum Slot<'s> {
    Switch(&'s mut bool),
    Number(&'s mut u32),
}

impl Settings {
    /// The names of all variables but the number of routing tables.
    #[must_use]
    pub fn names() -> &'static [&'static str] {
        &NAMES
    }

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        if name == "net.link.ether.ipfw" {
            return Some(Slot::Switch(&mut self.ether_ipfw));
        }
        if name == "net.fibs" {
            return Some(Slot::Number(&mut self.fibs));
        }
        if name == "weir.established_strict" {
            return Some(Slot::Switch(&mut self.established_strict));
        }
        if name == "weir.dyn_icmp_errors" {
            return Some(Slot::Switch(&mut self.dyn_icmp_errors));
        }
        let name = name
            .strip_prefix("net.inet.ip.fw.")
            .or_else(|| name.strip_prefix("net.inet6.ip6.fw."))?;
        Some(match name {
            "enable" => Slot::Switch(&mut self.enable),
            "autoinc_step" => Slot::Number(&mut self.autoinc_step),
            "one_pass" => Slot::Switch(&mut self.one_pass),
            "default_to_accept" => Slot::Switch(&mut self.default_to_accept),
            "tables_max" => Slot::Number(&mut self.tables_max),
            "verbose" => Slot::Switch(&mut self.verbose),
            "verbose_limit" => Slot::Number(&mut self.verbose_limit),
            "dyn_ack_lifetime" => Slot::Number(&mut self.dyn_ack_lifetime),
            "dyn_syn_lifetime" => Slot::Number(&mut self.dyn_syn_lifetime),
            "dyn_fin_lifetime" => Slot::Number(&mut self.dyn_fin_lifetime),
            "dyn_rst_lifetime" => Slot::Number(&mut self.dyn_rst_lifetime),
            "dyn_udp_lifetime" => Slot::Number(&mut self.dyn_udp_lifetime),
            "dyn_short_lifetime" => Slot::Number(&mut self.dyn_short_lifetime),
            "dyn_max" => Slot::Number(&mut self.dyn_max),
            "dyn_parent_max" => Slot::Number(&mut self.dyn_parent_max),
            "dyn_keepalive" => Slot::Switch(&mut self.dyn_keepalive),
            "dyn_keep_states" => Slot::Switch(&mut self.dyn_keep_states),
            "deny_unknown_exthdrs" => Slot::Switch(&mut self.deny_unknown_exthdrs),
            "permit_single_frag6" => Slot::Switch(&mut self.permit_single_frag6),
            _ => return None,
        })
    }

    /// Sets a variable; `false` when there is no such variable here.
    pub fn set(&mut self, name: &str, value: u32) -> bool {
        match self.slot(name) {
            Some(Slot::Switch(slot)) => *slot = value != 0,
            Some(Slot::Number(slot)) => *slot = value,
            None => return false,
        }
        // The kernel keeps the step between 1 and 1000, and the ends of TCP below a keepalive.
        self.autoinc_step = self.autoinc_step.clamp(1, 1000);
        self.dyn_fin_lifetime = self.dyn_fin_lifetime.min(4);
        if self.dyn_keepalive {
            self.dyn_rst_lifetime = self.dyn_rst_lifetime.min(4);
        }
        true
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u32> {
        let mut copy = self.clone();
        Some(match copy.slot(name)? {
            Slot::Switch(slot) => u32::from(*slot),
            Slot::Number(slot) => *slot,
        })
    }
}
