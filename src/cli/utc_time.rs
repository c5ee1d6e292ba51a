//! Times as the original's tool writes them.

use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// `yyyy-MM-dd HH:mm:ss:SSS`. Unlike Kafka: in UTC, whose rules need no data base.
pub(crate) fn utc_time(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (year, month, day) = date(since.as_secs() / 86_400);
    let second = since.as_secs() % 86_400;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}:{:03}",
        second / 3_600,
        second / 60 % 60,
        second % 60,
        since.subsec_millis()
    )
}

/// Year, month and day so many days after 1970-01-01, in years that begin in March: the leap day is the last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leaps = day_of_era / 1_460 + day_of_era / 146_096 - day_of_era / 36_524;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_written_to_the_millisecond() {
        for (millis, text) in [
            (0, "1970-01-01 00:00:00:000"),
            (951_782_399_999, "2000-02-28 23:59:59:999"),
            (951_782_400_000, "2000-02-29 00:00:00:000"),
            (951_868_800_001, "2000-03-01 00:00:00:001"),
            (1_735_689_599_000, "2024-12-31 23:59:59:000"),
            (4_107_542_400_000, "2100-03-01 00:00:00:000"),
        ] {
            assert_eq!(utc_time(UNIX_EPOCH + Duration::from_millis(millis)), text);
        }
    }
}
