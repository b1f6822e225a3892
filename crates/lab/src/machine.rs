//! What the figures were taken on: the description that every record begins with.
//!
//! In: /proc and /sys. Out: names and values. Nothing here identifies a person or a host name.

use std::fs;

use serde::Serialize;

/// The machine and its moment.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Processor model, as it names itself.
    pub processor: String,
    /// Processors that this program may use.
    pub processors: usize,
    /// Kernel release.
    pub kernel: String,
    /// Whether the machine is a guest.
    pub hypervisor: bool,
    /// How the kernel defends against return and indirect branch speculation.
    pub spectre_v2: String,
    /// Whether eBPF programs are compiled to machine code.
    pub bpf_jit: bool,
    /// Memory in MiB.
    pub memory_mebibytes: u64,
    /// Load averages over 1, 5 and 15 minutes at the time of writing.
    pub load: String,
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

impl Machine {
    /// Describes this machine now.
    pub fn describe() -> Machine {
        let cpu = read("/proc/cpuinfo");
        let field = |name: &str| {
            let line = cpu.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':'))
                .map_or("", |(_, value)| value)
                .trim()
        };
        let model = ["cpu family", "model\t", "stepping"].map(field).join("/");
        let memory = read("/proc/meminfo");
        let memory = memory
            .split_whitespace()
            .nth(1)
            .and_then(|word| word.parse::<u64>().ok());
        let load = read("/proc/loadavg");
        Machine {
            processor: format!("{} ({model})", field("model name")),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease"),
            hypervisor: field("flags").split(' ').any(|flag| flag == "hypervisor"),
            spectre_v2: read("/sys/devices/system/cpu/vulnerabilities/spectre_v2"),
            bpf_jit: read("/proc/sys/net/core/bpf_jit_enable") == "1",
            memory_mebibytes: memory.unwrap_or(0) / 1024,
            load: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
        }
    }
}

/// Today and now in UTC as `YYYY-MM-DD` and `HHMMSS`.
pub fn date_and_time() -> (String, String) {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, date) = civil(day);
    let time = format!(
        "{:02}{:02}{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    );
    (format!("{year:04}-{month:02}-{date:02}"), time)
}

/// Year, month and day of a number of days since 1970 (proleptic Gregorian calendar).
fn civil(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(59), (1970, 3, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_777), (2026, 11, 20));
    }

    #[test]
    fn the_machine_says_what_it_is() {
        let machine = Machine::describe();
        assert!(!machine.kernel.is_empty());
        assert!(machine.processors > 0);
        assert!(machine.memory_mebibytes > 0);
    }
}
