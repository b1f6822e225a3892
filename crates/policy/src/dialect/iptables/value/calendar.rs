//! The calendar: days since 1970 and dates, for `-m time`. UTC only, no leap seconds.

/// Year, month and day of a day since 1970-01-01 (proleptic Gregorian calendar).
#[must_use]
pub fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Days since 1970-01-01 of a date, the inverse of [`civil`]; `year` from 1970.
#[must_use]
pub fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let shifted_year = year - u64::from(month <= 2);
    let (era, of_era) = (shifted_year / 400, shifted_year % 400);
    let shifted_month = (month + 9) % 12;
    let of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// A date and time of day, UTC, as it is written.
pub(super) fn date_text(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_read_back() {
        assert_eq!(date_text(0), "1970-01-01T00:00:00");
        assert_eq!(date_text(2_147_483_647), "2038-01-19T03:14:07");
        for days in 0..40_000 {
            let (year, month, day) = civil(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }
}
