//! Tunables of IPFilter: names of both versions, HP-UX's, and weir's own.
//!
//! In: `name=value` pairs. Out: changed settings, or what is wrong. Times of the original count
//! half seconds, those of HP-UX seconds.

use weir_policy::eval::ipf::Settings;

/// One tunable: its names, and where its value is kept.
type Row = (&'static [&'static str], Slot);

/// A place in the settings.
enum Slot {
    /// A time, in ticks.
    Time(fn(&mut Settings) -> &mut u64),
    /// The TCP states that share a time.
    Tcp(&'static [usize]),
    /// A switch.
    Switch(fn(&mut Settings) -> &mut bool),
    /// A switch that is off where the value is not 0.
    Inverse(fn(&mut Settings) -> &mut bool),
    /// A word of flags, in which 1 blocks and 2 passes.
    Pass,
    /// A number of hops.
    Ttl,
    /// A number of states.
    States,
}

static ROWS: &[Row] = &[
    (&["default_pass", "fr_pass"], Slot::Pass),
    (&["min_ttl", "fr_minttl"], Slot::Ttl),
    (
        &["chksrc", "fr_chksrc"],
        Slot::Switch(|s| &mut s.checks_source),
    ),
    (&["state_max", "fr_statemax"], Slot::States),
    (&["tcp_idle_timeout", "fr_tcpidletimeout"], Slot::Tcp(&[4])),
    (&["tcp_close_wait", "fr_tcpclosewait"], Slot::Tcp(&[5])),
    (&["tcp_half_closed", "fr_tcphalfclosed"], Slot::Tcp(&[6])),
    (&["tcp_last_ack", "fr_tcplastack"], Slot::Tcp(&[8])),
    (&["tcp_time_wait", "fr_tcptimewait"], Slot::Tcp(&[10])),
    (&["tcp_closed", "fr_tcpclosed"], Slot::Tcp(&[11])),
    (&["tcp_syn_sent", "fr_tcpsynsent"], Slot::Tcp(&[1])),
    (&["tcp_syn_received", "fr_tcpsynrecv"], Slot::Tcp(&[2])),
    (&["tcp_timeout", "fr_tcptimeout"], Slot::Tcp(&[0, 3, 7])),
    (
        &["udp_timeout", "fr_udptimeout"],
        Slot::Time(|s| &mut s.lifetimes.udp),
    ),
    (
        &["udp_ack_timeout", "fr_udpacktimeout"],
        Slot::Time(|s| &mut s.lifetimes.udp_reply),
    ),
    (
        &["icmp_timeout", "fr_icmptimeout"],
        Slot::Time(|s| &mut s.lifetimes.icmp),
    ),
    (
        &["icmp_ack_timeout", "fr_icmpacktimeout"],
        Slot::Time(|s| &mut s.lifetimes.icmp_reply),
    ),
    (
        &["ip_timeout", "fr_iptimeout"],
        Slot::Time(|s| &mut s.lifetimes.other),
    ),
    (
        &["frag_ttl", "fr_ipfrttl"],
        Slot::Time(|s| &mut s.lifetimes.fragment),
    ),
    (&["log_quick_ends"], Slot::Switch(|s| &mut s.log_quick_ends)),
    (&["v6hdrs_exact"], Slot::Switch(|s| &mut s.exact_headers)),
    (&["dca", "dca_start"], Slot::Switch(|s| &mut s.limits_on)),
    (
        &["dca_fail_closed"],
        Slot::Switch(|s| &mut s.limit_fails_closed),
    ),
    (
        &["icmp6_passthru", "ipf_icmp6_passthru"],
        Slot::Inverse(|s| &mut s.discovery_bypasses),
    ),
    (
        &["short_options_unseen"],
        Slot::Switch(|s| &mut s.short_options_unseen),
    ),
];

/// What only `weir ipftest` and its like have.
const NOT_ENFORCED: &str = "short_options_unseen";

impl Slot {
    fn set(&self, settings: &mut Settings, value: u32) {
        let time = u64::from(value) * settings.tick_ms;
        match self {
            Self::Time(place) => *place(settings) = time,
            Self::Tcp(states) => {
                for state in *states {
                    settings.lifetimes.tcp[*state] = time;
                }
            }
            Self::Switch(place) => *place(settings) = value != 0,
            Self::Inverse(place) => *place(settings) = value == 0,
            Self::Pass => settings.default_block = value == 0 || value & 1 != 0,
            Self::Ttl => settings.min_ttl = u8::try_from(value).unwrap_or(u8::MAX),
            Self::States => settings.state_max = value,
        }
    }

    fn get(&self, settings: &Settings) -> u64 {
        let mut own = settings.clone();
        match self {
            Self::Time(place) => *place(&mut own) / settings.tick_ms,
            Self::Tcp(states) => own.lifetimes.tcp[states[0]] / settings.tick_ms,
            Self::Switch(place) => u64::from(*place(&mut own)),
            Self::Inverse(place) => u64::from(!*place(&mut own)),
            Self::Pass => 2 - u64::from(settings.default_block),
            Self::Ttl => settings.min_ttl.into(),
            Self::States => settings.state_max.into(),
        }
    }
}

/// Tunables that the originals have and that change nothing in a test: sizes of their tables.
static WITHOUT_EFFECT: &[&str] = &[
    "active",
    "control_forwarding",
    "frag_size",
    "ftp_debug",
    "icmp_minfragmtu",
    "flags",
    "log_all",
    "log_size",
    "log_suppress",
    "nat_table_max",
    "nat_table_size",
    "nat_rules_size",
    "rdr_rules_size",
    "hostmap_size",
    "nat_maxbucket",
    "state_lock",
    "state_logging",
    "state_maxbucket",
    "state_size",
    "state_wm_freq",
    "state_wm_high",
    "state_wm_low",
    "update_ipid",
    // HP-UX's.
    "ipl_buffer_sz",
    "ipl_suppress",
    "ipl_logall",
    "ipnat_enable",
    "ipnat_largenat_enable",
    "frnat_tcptimewait",
];

/// Changes one setting; whether it changes anything.
pub fn set(settings: &mut Settings, name: &str, value: u32) -> Result<bool, String> {
    let known = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    if let Some((_, change)) = ROWS.iter().find(|row| known(row.0)) {
        change.set(settings, value);
        return Ok(true);
    }
    let bare = name.strip_prefix("fr_").unwrap_or(name);
    let plain = |other: &&&str| other.replace('_', "") == bare.replace('_', "");
    match WITHOUT_EFFECT.iter().find(plain) {
        Some(_) => Ok(false),
        None => Err(format!("unknown tunable `{name}`")),
    }
}

/// Whether any version has a tunable of this name.
pub fn is_known(name: &str) -> bool {
    set(&mut Settings::default(), name, 0).is_ok()
}

/// Changes settings by a list as `-T` takes it.
pub fn set_list(settings: &mut Settings, list: &str) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    for part in list
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let Some((name, value)) = part.split_once('=') else {
            return Err(format!("`{part}`: write name=value"));
        };
        if !set(settings, name.trim(), number(value)?)? {
            notes.push(format!("{} has no effect here", name.trim()));
        }
    }
    Ok(notes)
}

/// A value in decimal or hexadecimal digits.
pub fn number(value: &str) -> Result<u32, String> {
    let digits = value.trim();
    let number = match digits.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    };
    number.ok_or_else(|| format!("`{value}` is no number"))
}

/// The tunables that the kernel's side has, with their values.
pub fn enforced(settings: &Settings) -> impl Iterator<Item = (&'static str, u64)> {
    let rows = ROWS.iter().filter(|row| row.0[0] != NOT_ENFORCED);
    rows.map(|(names, slot)| (names[0], slot.get(settings)))
}

/// The name under which a tunable is listed.
pub fn canonical(name: &str) -> Option<&'static str> {
    let known = |row: &&Row| row.0.iter().any(|own| own.eq_ignore_ascii_case(name));
    ROWS.iter().find(known).map(|row| row.0[0])
}

/// All names, for `-T list`.
pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.0[0])
}
