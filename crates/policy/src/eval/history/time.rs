//! Windows of wall-clock time (iptables' `time`).

use crate::model::TimeWindow;

const DAY: u64 = 86_400;

/// Whether a second since the epoch (UTC) is in a window.
pub fn in_window(window: &TimeWindow, second: u64) -> bool {
    let second = second.saturating_add_signed(i64::from(window.offset));
    if second < window.date_start || second > window.date_stop {
        return false;
    }
    let (mut day, of_day) = (second / DAY, second % DAY);
    let (start, stop) = (u64::from(window.day_start), u64::from(window.day_stop));
    if start < stop {
        if of_day < start || of_day > stop {
            return false;
        }
    } else {
        if of_day < start && of_day > stop {
            return false;
        }
        if window.contiguous && of_day <= stop {
            day = day.saturating_sub(1);
        }
    }
    // 1 January 1970 was a Thursday; Monday is 1.
    let week_day = (day + 3) % 7 + 1;
    window.week_days & 1 << week_day != 0 && window.month_days & 1 << month_day(day) != 0
}

/// Day of the month, from 1, of a day since the epoch (proleptic Gregorian calendar).
fn month_day(day: u64) -> u64 {
    // Count from 1 March of year 0, so that leap days come last.
    let shifted = day + 719_468;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    of_year - (153 * month + 2) / 5 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_month() {
        // date -u -d @N +%d
        for (second, expected) in [
            (0, 1),
            (951_782_400, 29),
            (951_868_800, 1),
            (1_709_164_800, 29),
            (1_798_675_200, 31),
        ] {
            assert_eq!(month_day(second / DAY), expected, "{second}");
        }
    }

    #[test]
    fn over_midnight() {
        let mut window = TimeWindow {
            date_start: 0,
            date_stop: u64::MAX,
            day_start: 22 * 3600,
            day_stop: 6 * 3600,
            month_days: u32::MAX,
            week_days: 1 << 5, // Friday
            offset: 0,
            contiguous: false,
        };
        let friday = 1_798_156_800; // 2026-12-25, a Friday
        assert!(in_window(&window, friday + 23 * 3600));
        assert!(in_window(&window, friday + 3 * 3600));
        assert!(!in_window(&window, friday + 12 * 3600));
        assert!(!in_window(&window, friday + 27 * 3600));
        window.contiguous = true;
        assert!(in_window(&window, friday + 27 * 3600));
        assert!(!in_window(&window, friday + 3 * 3600));
    }
}
