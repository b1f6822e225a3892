//! Tunables of IPFilter: names of both versions, HP-UX's, and weir's own.
//!
//! In: `name=value` pairs. Out: changed settings, or what is wrong. Times of the original count
//! half seconds.

use weir_policy::eval::ipf::Settings;

/// One tunable: its names, and what it changes.
type Row = (&'static [&'static str], fn(&mut Settings, u32));

/// Half seconds as milliseconds.
fn half(ticks: u32) -> u64 {
    u64::from(ticks) * 500
}

static ROWS: &[Row] = &[
    (&["default_pass", "fr_pass"], |s, v| {
        s.default_block = v == 0 || v & 1 != 0
    }),
    (&["min_ttl", "fr_minttl"], |s, v| {
        s.min_ttl = u8::try_from(v).unwrap_or(u8::MAX)
    }),
    (&["state_max", "fr_statemax"], |s, v| s.state_max = v),
    (&["tcp_idle_timeout", "fr_tcpidletimeout"], |s, v| {
        s.lifetimes.tcp[4] = half(v)
    }),
    (&["tcp_close_wait", "fr_tcpclosewait"], |s, v| {
        s.lifetimes.tcp[5] = half(v)
    }),
    (&["tcp_half_closed", "fr_tcphalfclosed"], |s, v| {
        s.lifetimes.tcp[6] = half(v)
    }),
    (&["tcp_last_ack", "fr_tcplastack"], |s, v| {
        s.lifetimes.tcp[8] = half(v)
    }),
    (&["tcp_time_wait", "fr_tcptimewait"], |s, v| {
        s.lifetimes.tcp[10] = half(v)
    }),
    (&["tcp_closed", "fr_tcpclosed"], |s, v| {
        s.lifetimes.tcp[11] = half(v)
    }),
    (&["tcp_syn_sent", "fr_tcpsynsent"], |s, v| {
        s.lifetimes.tcp[1] = half(v)
    }),
    (&["tcp_syn_received", "fr_tcpsynrecv"], |s, v| {
        s.lifetimes.tcp[2] = half(v)
    }),
    (&["tcp_timeout", "fr_tcptimeout"], |s, v| {
        for state in [0, 3, 7] {
            s.lifetimes.tcp[state] = half(v);
        }
    }),
    (&["udp_timeout", "fr_udptimeout"], |s, v| {
        s.lifetimes.udp = half(v)
    }),
    (&["udp_ack_timeout", "fr_udpacktimeout"], |s, v| {
        s.lifetimes.udp_reply = half(v)
    }),
    (&["icmp_timeout", "fr_icmptimeout"], |s, v| {
        s.lifetimes.icmp = half(v)
    }),
    (&["icmp_ack_timeout", "fr_icmpacktimeout"], |s, v| {
        s.lifetimes.icmp_reply = half(v)
    }),
    (&["ip_timeout", "fr_iptimeout"], |s, v| {
        s.lifetimes.other = half(v)
    }),
    (&["frag_ttl", "fr_ipfrttl"], |s, v| {
        s.lifetimes.fragment = half(v)
    }),
    (&["dca", "dca_start"], |s, v| s.limits_on = v != 0),
    (&["dca_fail_closed"], |s, v| s.limit_fails_closed = v != 0),
    (&["short_options_unseen"], |s, v| {
        s.short_options_unseen = v != 0
    }),
    (&["log_quick_ends"], |s, v| s.log_quick_ends = v != 0),
    (&["v6hdrs_exact"], |s, v| s.exact_headers = v != 0),
];

/// Tunables that the originals have and that change nothing in a test: sizes of their tables.
static WITHOUT_EFFECT: &[&str] = &[
    "active",
    "chksrc",
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
];

/// Changes one setting; whether it changes anything.
pub fn set(settings: &mut Settings, name: &str, value: u32) -> Result<bool, String> {
    let known = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    if let Some((_, change)) = ROWS.iter().find(|row| known(row.0)) {
        change(settings, value);
        return Ok(true);
    }
    let bare = name.strip_prefix("fr_").unwrap_or(name);
    let plain = |other: &&&str| other.replace('_', "") == bare.replace('_', "");
    match WITHOUT_EFFECT.iter().find(plain) {
        Some(_) => Ok(false),
        None => Err(format!("unknown tunable `{name}`")),
    }
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

/// What the kernel's side has, with what it is where nobody says it.
pub const ENFORCED: [(&str, u32); 7] = [
    ("default_pass", 2),
    ("min_ttl", 4),
    ("state_max", weir_policy::dialect::ipf::lower::STATES_MAX),
    ("log_quick_ends", 0),
    ("v6hdrs_exact", 0),
    ("dca", 1),
    ("dca_fail_closed", 0),
];

/// The name under which a tunable is listed.
pub fn canonical(name: &str) -> Option<&'static str> {
    let known = |row: &&Row| row.0.iter().any(|own| own.eq_ignore_ascii_case(name));
    ROWS.iter().find(known).map(|row| row.0[0])
}

/// All names, for `-T list`.
pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.0[0])
}
