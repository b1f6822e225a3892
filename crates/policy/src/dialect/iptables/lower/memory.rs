//! Tests that remember: limit, hashlimit, recent, connlimit, statistic, time.
//!
//! Each becomes a history object; what two rules share, they share by the object's name.

use super::super::ast::Instance;
use super::super::value::{Address, Value, rate_unit};
use super::hosts::all_ones;
use super::matches::Tests;
use crate::model::{
    ConnLimit, Family, HashKey, HashLimit, HistoryKind, Limit, Recent, RecentAction, Statistic,
    TimeWindow,
};
use crate::syntax::Diagnostic;

/// How long a key is kept that has a rate in bytes and no burst.
const BYTES_EXPIRE_MS: u64 = 15_000;
/// The same with a burst.
const BYTES_BURST_EXPIRE_MS: u64 = 60_000;

fn number(instance: &Instance, name: &str) -> Option<u64> {
    match instance.option(name)?.value {
        Value::Number(number) => Some(number),
        _ => None,
    }
}

fn number32(instance: &Instance, name: &str) -> Option<u32> {
    number(instance, name).and_then(|number| u32::try_from(number).ok())
}

/// Days as bits; all of them without the option.
fn days(instance: &Instance, name: &str, all: u32) -> u32 {
    let bits = number32(instance, name).unwrap_or(all);
    match instance.option(name) {
        Some(option) if option.negated => !bits & all,
        _ => bits,
    }
}

fn has(instance: &Instance, name: &str) -> bool {
    instance.option(name).is_some()
}

fn width(family: Family) -> u8 {
    match family {
        Family::V4 => 32,
        Family::V6 => 128,
    }
}

fn family_word(family: Family) -> &'static str {
    match family {
        Family::V4 => "v4",
        Family::V6 => "v6",
    }
}

impl Tests<'_, '_> {
    pub(super) fn limit(&mut self, instance: &Instance) {
        let Some(&Value::Period(cost)) = instance.option("limit").map(|option| &option.value)
        else {
            return;
        };
        let burst = number32(instance, "limit-burst").unwrap_or(5);
        self.history(false, None, HistoryKind::Limit(Limit { cost, burst }));
    }

    pub(super) fn hashlimit(&mut self, instance: &Instance) {
        let above = has(instance, "hashlimit-above");
        let rate_option = instance
            .option("hashlimit-upto")
            .or(instance.option("hashlimit-above"));
        let Some(rate_option) = rate_option else {
            return;
        };
        let burst = instance
            .option("hashlimit-burst")
            .map(|option| &option.value);
        let (rate, burst, bytes, default_expire) = match (&rate_option.value, burst) {
            (&Value::Period(period), burst) => {
                let burst = match burst {
                    Some(&Value::Number(packets)) => packets,
                    _ => 5,
                };
                let expire = rate_unit(period, 1_000_000).1 * 1000;
                (u64::from(period), burst, false, expire)
            }
            (&Value::Bytes(rate), Some(&Value::Bytes(burst))) => {
                (rate, burst, true, BYTES_BURST_EXPIRE_MS)
            }
            (&Value::Bytes(rate), _) => (rate, rate, true, BYTES_EXPIRE_MS),
            _ => return,
        };
        let sampled = match self.sampled(instance, &rate_option.value) {
            Ok(sampled) => sampled,
            Err(()) => return,
        };
        let mode = number(instance, "hashlimit-mode").unwrap_or(0);
        let full = width(self.family);
        let prefix = |name| number(instance, name).map_or(full, |length| length as u8);
        let key = HashKey {
            src: mode & 1 != 0,
            src_port: mode & 2 != 0,
            dst: mode & 4 != 0,
            dst_port: mode & 8 != 0,
            src_prefix: prefix("hashlimit-srcmask"),
            dst_prefix: prefix("hashlimit-dstmask"),
        };
        let expire = number(instance, "hashlimit-htable-expire").unwrap_or(default_expire);
        let kind = HistoryKind::HashLimit(HashLimit {
            key,
            above,
            rate,
            burst,
            bytes,
            expire_ms: u32::try_from(expire).unwrap_or(u32::MAX),
            max: number32(instance, "hashlimit-htable-max").unwrap_or(0),
            sampled,
        });
        let shared = shared_name(instance, "hashlimit-name", "hashlimit", self.family);
        self.history(false, Some(shared), kind);
    }

    /// Seconds over which packets are counted, with `--hashlimit-rate-match`.
    fn sampled(&mut self, instance: &Instance, rate: &Value) -> Result<Option<u32>, ()> {
        let Some(option) = instance.option("hashlimit-rate-match") else {
            return Ok(None);
        };
        // What iptables makes of other units and of bytes is not what is written.
        if !matches!(rate, Value::Period(period) if rate_unit(*period, 1_000_000).1 == 1) {
            let what = "`--hashlimit-rate-match` of bytes, or of packets of more than a second";
            self.unsupported(
                option.at.0,
                what,
                "write the rate as packets of a second: 10/sec",
            );
            return Err(());
        }
        let seconds = number32(instance, "hashlimit-rate-interval").unwrap_or(1);
        Ok(Some(seconds))
    }

    pub(super) fn recent(&mut self, instance: &Instance) {
        let actions = [
            ("set", RecentAction::Set),
            ("rcheck", RecentAction::Check),
            ("update", RecentAction::Update),
            ("remove", RecentAction::Remove),
        ];
        let chosen = actions.iter().find_map(|(name, action)| {
            instance
                .option(name)
                .map(|option| (option.negated, *action))
        });
        let Some((negated, action)) = chosen else {
            return;
        };
        let mask = match instance.option("mask").map(|option| &option.value) {
            Some(Value::Address(address)) => match **address {
                Address::V4(mask, _) => u128::from(mask.to_bits()),
                Address::V6(mask, _) => mask.to_bits(),
                Address::Name(_) => all_ones(self.family),
            },
            _ => all_ones(self.family),
        };
        let kind = HistoryKind::Recent(Recent {
            action,
            seconds: number32(instance, "seconds").unwrap_or(0),
            hitcount: number32(instance, "hitcount").unwrap_or(0),
            reap: has(instance, "reap"),
            ttl: has(instance, "rttl"),
            destination: has(instance, "rdest"),
            mask,
        });
        let shared = shared_name(instance, "name", "recent", self.family);
        self.history(negated, Some(shared), kind);
    }

    pub(super) fn connlimit(&mut self, instance: &Instance) {
        let above = has(instance, "connlimit-above");
        let count = number32(instance, "connlimit-above")
            .or(number32(instance, "connlimit-upto"))
            .unwrap_or(0);
        let prefix =
            number(instance, "connlimit-mask").map_or(width(self.family), |length| length as u8);
        let destination = has(instance, "connlimit-daddr");
        let kind = HistoryKind::ConnLimit(ConnLimit {
            destination,
            prefix,
            above,
            count,
        });
        self.history(false, None, kind);
    }

    pub(super) fn statistic(&mut self, instance: &Instance) {
        if let Some(option) = instance.option("probability")
            && let Value::Number(probability) = option.value
        {
            let statistic = Statistic::Random(probability as u32);
            return self.history(option.negated, None, HistoryKind::Statistic(statistic));
        }
        let Some(option) = instance.option("every") else {
            return;
        };
        let every = number32(instance, "every").unwrap_or(1);
        let packet = number32(instance, "packet").unwrap_or(0);
        let statistic = Statistic::Nth { every, packet };
        self.history(option.negated, None, HistoryKind::Statistic(statistic));
    }

    pub(super) fn quota(&mut self, instance: &Instance) {
        if let Some(option) = instance.option("quota")
            && let Value::Number(bytes) = option.value
        {
            self.history(option.negated, None, HistoryKind::Quota(bytes));
        }
    }

    pub(super) fn time(&mut self, instance: &Instance) {
        let mut offset = 0;
        if let Some(option) = instance.option("kerneltz") {
            let Some(zone) = self.lowering.options.kernel_zone else {
                let help = "write the times in UTC and take `--kerneltz` out";
                return self.unsupported(option.at.0, "the kernel's time zone", help);
            };
            offset = zone;
            let message = format!("the kernel's time zone is {zone} s east of UTC, from now on");
            let found = Diagnostic::note("kernel-zone", option.at.0, message);
            self.lowering
                .report
                .diagnostics
                .push(found.help("where it changes, apply again; `--utc` needs no zone"));
        }
        let second = |name, missing| number32(instance, name).unwrap_or(missing);
        let window = TimeWindow {
            date_start: number(instance, "datestart").unwrap_or(0),
            date_stop: number(instance, "datestop").unwrap_or(u64::MAX),
            day_start: second("timestart", 0),
            day_stop: second("timestop", 86_399),
            month_days: days(instance, "monthdays", 0xffff_fffe),
            week_days: days(instance, "weekdays", 0xfe) as u8,
            offset,
            contiguous: has(instance, "contiguous"),
        };
        self.history(false, None, HistoryKind::Time(window));
    }
}

/// Rules of both families see one list by name, but no address of the other family in it; so each
/// family has a list of its own here.
fn shared_name(instance: &Instance, option: &str, kind: &str, family: Family) -> String {
    let name = match instance.option(option).map(|option| &option.value) {
        Some(Value::Text(name)) => &**name,
        _ => "DEFAULT",
    };
    format!("{kind}/{}/{name}", family_word(family))
}
