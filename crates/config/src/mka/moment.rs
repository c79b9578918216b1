//! Dates and moments, as `fallback_until` has them.

use std::time::SystemTime;

use time::{Date, Month, UtcOffset};
use toml::value::{Datetime, Offset};

/// The end of a day in UTC, or a moment with its offset.
pub(super) fn moment(written: Datetime) -> Option<SystemTime> {
    let date = written.date?;
    let month = Month::try_from(date.month).ok()?;
    let day = Date::from_calendar_date(date.year.into(), month, date.day).ok()?;
    let (at, offset) = match (written.time, written.offset) {
        (None, None) => (day.next_day()?.midnight(), UtcOffset::UTC),
        (Some(time), Some(offset)) => {
            let minutes = match offset {
                Offset::Z => 0,
                Offset::Custom { minutes } => i32::from(minutes),
            };
            let at = day.with_hms(time.hour, time.minute, time.second.unwrap_or(0)).ok()?;
            (at, UtcOffset::from_whole_seconds(minutes * 60).ok()?)
        }
        _ => return None,
    };
    Some(at.assume_offset(offset).into())
}

/// Whether that moment is past.
pub(super) fn is_over(until: Option<SystemTime>) -> bool {
    until.is_some_and(|until| SystemTime::now() >= until)
}
