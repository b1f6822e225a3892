//! Dates, times of day, days of the week and of the month, as `-m time` writes them.

use super::super::names::small::WEEKDAYS;
use super::super::value::{Value, days_from_civil};
use super::address::Fault;

/// The last second that the original can name.
pub(super) const DATE_STOP_MAX: u64 = 2_147_483_647;
/// The last second of a day.
pub(super) const DAY_STOP: u64 = 86_399;

fn decimal(text: &str, least: u64, most: u64) -> Option<u64> {
    let short = !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
    let value = short.then(|| text.parse::<u64>().ok()).flatten()?;
    (least..=most).contains(&value).then_some(value)
}

/// `YYYY[-MM[-DD[Thh[:mm[:ss]]]]]` as seconds since the epoch, UTC.
pub(super) fn date(text: &str) -> Result<Value, Fault> {
    date_seconds(text).map(Value::Number).ok_or_else(|| {
        Fault::new(format!("bad date `{text}`"))
            .help("`YYYY-MM-DDThh:mm:ss`, from 1970-01-01 to 2038-01-19T03:14:07")
    })
}

fn date_seconds(text: &str) -> Option<u64> {
    let (day, time) = match text.split_once('T') {
        Some((day, time)) => (day, Some(time)),
        None => (text, None),
    };
    let mut parts = day.split('-');
    let year = decimal(parts.next()?, 1970, 2038)?;
    let month = parts.next().map_or(Some(1), |text| decimal(text, 1, 12))?;
    let day = parts.next().map_or(Some(1), |text| decimal(text, 1, 31))?;
    if parts.next().is_some() || day > days_in(year, month) {
        return None;
    }
    let mut clock = [0; 3];
    if let Some(time) = time {
        let mut parts = time.split(':');
        for (value, most) in clock.iter_mut().zip([23, 59, 59]) {
            *value = parts
                .next()
                .map_or(Some(0), |text| decimal(text, 0, most))?;
        }
        if parts.next().is_some() {
            return None;
        }
    }
    let seconds =
        days_from_civil(year, month, day) * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2];
    (seconds <= DATE_STOP_MAX).then_some(seconds)
}

fn days_in(year: u64, month: u64) -> u64 {
    let next = if month == 12 {
        (year + 1, 1)
    } else {
        (year, month + 1)
    };
    days_from_civil(next.0, next.1, 1) - days_from_civil(year, month, 1)
}

/// `hh:mm[:ss]` as seconds of the day.
pub(super) fn time_of_day(text: &str) -> Result<Value, Fault> {
    let parts: Vec<_> = text.split(':').collect();
    let seconds = match parts.as_slice() {
        [hour, minute] => clock(hour, minute, "0"),
        [hour, minute, second] => clock(hour, minute, second),
        _ => None,
    };
    seconds.map(Value::Number).ok_or_else(|| {
        Fault::new(format!("bad time `{text}`")).help("`hh:mm` or `hh:mm:ss`, 00:00 to 23:59:59")
    })
}

fn clock(hour: &str, minute: &str, second: &str) -> Option<u64> {
    Some(decimal(hour, 0, 23)? * 3600 + decimal(minute, 0, 59)? * 60 + decimal(second, 0, 59)?)
}

/// Days of the month, as bits 1 to 31.
pub(super) fn month_days(text: &str) -> Result<Value, Fault> {
    let mut bits = 0;
    for part in text.split(',') {
        let day = decimal(part, 1, 31)
            .ok_or_else(|| Fault::new(format!("bad day of the month `{part}`")).help("1 to 31"))?;
        bits |= 1u64 << day;
    }
    Ok(Value::Number(bits))
}

/// Days of the week, as bits 1 (Monday) to 7.
pub(super) fn week_days(text: &str) -> Result<Value, Fault> {
    let mut bits = 0;
    for part in text.split(',') {
        // As the original: two letters are enough, and what follows the third isn't looked at.
        let named = |name: &str| {
            let length = part.len().min(3);
            length >= 2
                && part.is_ascii()
                && name
                    .get(..length)
                    .is_some_and(|n| n.eq_ignore_ascii_case(&part[..length]))
        };
        let day = match WEEKDAYS.iter().position(|name| named(name)) {
            Some(index) => index as u64 + 1,
            None => decimal(part, 1, 7).ok_or_else(|| {
                Fault::new(format!("bad day of the week `{part}`"))
                    .help("Mon, Tue, Wed, Thu, Fri, Sat, Sun, or 1 to 7")
            })?,
        };
        bits |= 1u64 << day;
    }
    Ok(Value::Number(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_may_stop_early() {
        assert_eq!(date_seconds("1970"), Some(0));
        assert_eq!(date_seconds("2020-01-02T03:04"), Some(1_577_934_240));
        assert_eq!(date_seconds("2038-01-19T03:14:07"), Some(DATE_STOP_MAX));
        for wrong in [
            "",
            "1969",
            "2038-01-19T03:14:08",
            "2020-13",
            "2020-02-30",
            "2020-1-1T24",
            "2020-01-01T00:00:00:00",
            "20-01-01",
            "2020-01-01 00:00",
        ] {
            assert_eq!(date_seconds(wrong), None, "{wrong}");
        }
        assert!(date_seconds("2020-02-29").is_some() && date_seconds("2021-02-29").is_none());
    }

    #[test]
    fn days_and_times() {
        assert_eq!(time_of_day("8:00"), Ok(Value::Number(28_800)));
        assert_eq!(time_of_day("23:59:59"), Ok(Value::Number(DAY_STOP)));
        for wrong in ["24:00", "8", "8:60", "8:00:60", "8:00:00:0", ":", "-1:00"] {
            assert!(time_of_day(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            week_days("Mo,Sun,3"),
            Ok(Value::Number(1 << 1 | 1 << 7 | 1 << 3))
        );
        assert_eq!(month_days("1,31"), Ok(Value::Number(1 << 1 | 1 << 31)));
        for wrong in ["M", "Foo", "8", "0", ""] {
            assert!(week_days(wrong).is_err(), "{wrong}");
        }
        for wrong in ["32", "0", "", "1,,2"] {
            assert!(month_days(wrong).is_err(), "{wrong}");
        }
    }
}
