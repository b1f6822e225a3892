//! A script as the recorder runs it: absolute calls of the tools lead to the shims.
//!
//! In: a script, the shims' folder. Out: its text with the paths of tools, and of files that only
//! FreeBSD has, replaced; also where a variable of the script is the folder. Paths that a script
//! puts together otherwise are not found; neither are those in files that it reads.

use super::shim::TOOLS;
use std::path::Path;
use std::process::{Command, Stdio};

/// Folders of tools on FreeBSD.
const FOLDERS: [&str; 5] = [
    "/sbin/",
    "/usr/sbin/",
    "/bin/",
    "/usr/bin/",
    "/usr/local/bin/",
];
/// Files that scripts read on FreeBSD, and the name of what stands in for them.
pub const FILES: [(&str, &str); 5] = [
    ("/etc/defaults/rc.conf", "rc.defaults"),
    ("/etc/rc.conf", "rc.conf"),
    ("/etc/rc.conf.local", "rc.conf"),
    ("/etc/rc.subr", "rc.subr"),
    ("/etc/network.subr", "rc.subr"),
];

/// What stands in for the settings that FreeBSD comes with, as far as firewall scripts read them
/// (rc.conf(5)); what the caller has set stands.
const RC_DEFAULTS: &str = r#": ${firewall_enable=NO} ${firewall_script=/etc/rc.firewall}
: ${firewall_type=UNKNOWN} ${firewall_quiet=NO} ${firewall_logging=NO} ${firewall_flags=}
: ${firewall_client_net=192.0.2.0/24} ${firewall_client_net_ipv6=}
: ${firewall_simple_iif=ed1} ${firewall_simple_inet=192.0.2.16/28}
: ${firewall_simple_oif=ed0} ${firewall_simple_onet=192.0.2.0/28}
: ${firewall_simple_iif_ipv6=} ${firewall_simple_inet_ipv6=}
: ${firewall_simple_oif_ipv6=} ${firewall_simple_onet_ipv6=}
: ${firewall_myservices=} ${firewall_allowservices=} ${firewall_trusted=}
: ${firewall_logdeny=NO} ${firewall_nologports="135-139,445 1026,1027 1433,1434"}
: ${firewall_nat_enable=NO} ${firewall_nat_interface=} ${firewall_nat_flags=}
: ${natd_enable=NO} ${natd_interface=} ${natd_flags=} ${dummynet_enable=NO}
source_rc_confs_defined=yes
"#;

/// The settings, and the function that reads those of the host over them.
pub fn rc_defaults(shims: &Path) -> String {
    let rc_conf = shims.join("rc.conf");
    format!(
        "{RC_DEFAULTS}source_rc_confs() {{ . '{}'; }}\n",
        rc_conf.display()
    )
}

/// What stands in for FreeBSD's library of start scripts: just what firewall scripts call.
const RC_SUBR: &str = r#"checkyesno() {
    eval _weir_value=\$$1
    case $_weir_value in
    [Yy][Ee][Ss] | [Tt][Rr][Uu][Ee] | [Oo][Nn] | 1) return 0 ;;
    esac
    return 1
}
load_rc_config_var() { :; }
set_rcvar() { :; }
afexists() { return 0; }
list_net_interfaces() { ifconfig -l; }
warn() { echo "$0: WARNING: $*" >&2; }
info() { echo "$0: INFO: $*" >&2; }
debug() { :; }
err() { _weir_status=$1; shift; echo "$0: ERROR: $*" >&2; exit "$_weir_status"; }
run_rc_command() {
    _weir_command=${1:-start}
    for _weir_prefix in fast force one quiet; do
        _weir_command=${_weir_command#$_weir_prefix}
    done
    for _weir_part in precmd cmd postcmd; do
        eval _weir_value=\"\$${_weir_command}_$_weir_part\"
        [ -z "$_weir_value" ] || eval "$_weir_value" || return 1
    done
}
"#;

/// That library; the settings are read when a script asks for those of its name.
pub fn rc_subr(shims: &Path) -> String {
    let defaults = shims.join("rc.defaults");
    let load = format!("{{ . '{}'; source_rc_confs; }}", defaults.display());
    format!("{RC_SUBR}load_rc_config() {load}\n")
}

/// The names that a script's lines set to a folder of tools: `bin=/sbin`, `D="/usr/sbin/"`.
fn folder_variables(text: &str) -> Vec<&str> {
    let is_name = |name: &str| {
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty() && name.chars().all(fine)
    };
    let words = text.split(|c: char| c.is_whitespace() || c == ';');
    let mut out: Vec<&str> = words
        .filter_map(|word| word.split_once('='))
        .filter(|(name, value)| {
            let value = value.trim_matches(['"', '\'']);
            let folder =
                |folder: &&str| folder.trim_end_matches('/') == value.trim_end_matches('/');
            is_name(name) && value.starts_with('/') && FOLDERS.iter().any(folder)
        })
        .map(|(name, _)| name)
        .collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Replaces a path wherever it stands alone.
fn replace(text: &str, path: &str, by: &str) -> String {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(path) {
        let (before, after) = (&rest[..at], &rest[at + path.len()..]);
        out.push_str(before);
        // `${ipfw:-/sbin/ipfw}` gives a path as what a variable is otherwise.
        let joined = out.chars().next_back().is_some_and(|c| part(c) && c != '-');
        // A point ends a sentence in comments only; in a script the name would go on.
        let goes_on = after.chars().next().is_some_and(part);
        out.push_str(if joined || goes_on { path } else { by });
        rest = after;
    }
    out + rest
}

/// The script's text with paths that lead into the shims' folder. Files are replaced only if this
/// host does not have them.
pub fn rewritten(text: &str, shims: &Path) -> String {
    let mut text = text.to_owned();
    let place = |name: &str| shims.join(name).to_string_lossy().into_owned();
    for tool in TOOLS {
        for folder in FOLDERS {
            let path = format!("{folder}{tool}");
            if text.contains(&path) {
                text = replace(&text, &path, &place(tool));
            }
        }
    }
    let variables: Vec<String> = folder_variables(&text)
        .into_iter()
        .flat_map(|name| [format!("${name}"), format!("${{{name}}}")])
        .collect();
    for folder in variables {
        for tool in TOOLS {
            // `D=/sbin/` is put before a name without a stroke.
            for path in [format!("{folder}/{tool}"), format!("{folder}{tool}")] {
                // `$Dipfw` is another variable.
                if text.contains(&path) && (folder.ends_with('}') || path.contains('/')) {
                    text = replace(&text, &path, &place(tool));
                }
            }
        }
    }
    for (path, name) in FILES {
        if text.contains(path) && !Path::new(path).exists() {
            text = replace(&text, path, &place(name));
        }
    }
    text
}

/// The program that runs a script: the shell of its first line if there is one, or sh.
pub fn interpreter(text: &str) -> &str {
    let first = text.lines().next().unwrap_or("");
    let Some(line) = first.strip_prefix("#!") else {
        return "sh";
    };
    let mut words = line.split_whitespace();
    let mut path = words.next().unwrap_or("sh");
    if path.ends_with("/env") {
        path = words.next().unwrap_or("sh");
    }
    path.rsplit('/').next().unwrap_or("sh")
}

/// Whether a shell takes `==` in tests, as FreeBSD's sh does.
fn knows_double_equals(shell: &str) -> bool {
    let mut test = Command::new(shell);
    test.args(["-c", "[ a == a ]"]).stderr(Stdio::null());
    test.status().is_ok_and(|status| status.success())
}

/// What runs a script of `sh`: where this host's sh doesn't know what FreeBSD's does and the script
/// writes it, bash, or a word of warning.
pub fn shell_of(text: &str) -> (&'static str, &'static [&'static str]) {
    let writes = |line: &str| line.contains(" == ") && !line.trim_start().starts_with('#');
    if !text.lines().any(writes) || knows_double_equals("sh") {
        return ("sh", &[]);
    }
    if knows_double_equals("bash") {
        return ("bash", &["--posix"]);
    }
    eprintln!(
        "weir: this host's sh doesn't know `==` in tests, so that they fail; write `=`, or \
         install bash"
    );
    ("sh", &[])
}

/// Whether a program is a shell that `.` and `-c` work in.
pub fn is_shell(name: &str) -> bool {
    matches!(
        name,
        "sh" | "bash" | "dash" | "ksh" | "mksh" | "zsh" | "ash"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_paths_are_replaced() {
        let shims = Path::new("/t");
        let text = "fw=\"/sbin/ipfw -q\"\n/sbin/ipfw.old; /opt/sbin/ipfw /sbin/ipfw\n";
        let expected = "fw=\"/t/ipfw -q\"\n/sbin/ipfw.old; /opt/sbin/ipfw /t/ipfw\n";
        assert_eq!(rewritten(text, shims), expected);
        assert_eq!(rewritten("/usr/sbin/jls|", shims), "/t/jls|");
        assert_eq!(rewritten("${F:-/sbin/ipfw}", shims), "${F:-/t/ipfw}");
        assert_eq!(rewritten(". /etc/rc.subr\n", shims), ". /t/rc.subr\n");
        assert_eq!(
            rewritten("/usr/bin/sudo /sbin/ipfw l", shims),
            "/t/sudo /t/ipfw l"
        );
    }

    #[test]
    fn folders_in_variables_are_followed() {
        let shims = Path::new("/t");
        let text = "p=/sbin\n$p/ipfw l; ${p}/ipfw l; $p/ipfw.old; $pp/ipfw l; /a$p/ipfw\n";
        let expected = "p=/sbin\n/t/ipfw l; /t/ipfw l; $p/ipfw.old; $pp/ipfw l; /a$p/ipfw\n";
        assert_eq!(rewritten(text, shims), expected);
        let text = "D=\"/usr/sbin/\"; ${D}ipfw l; $Dipfw\n";
        let expected = "D=\"/usr/sbin/\"; /t/ipfw l; $Dipfw\n";
        assert_eq!(rewritten(text, shims), expected);
        let text = "log=/var/log\n$log/ipfw\n";
        assert_eq!(rewritten(text, shims), text);
    }

    #[test]
    fn first_lines_name_the_shell() {
        assert_eq!(interpreter("#!/bin/sh -e\n"), "sh");
        assert_eq!(interpreter("#!/usr/bin/env bash\n"), "bash");
        assert_eq!(interpreter("ipfw list\n"), "sh");
        assert!(is_shell("sh") && !is_shell("csh"));
    }
}
