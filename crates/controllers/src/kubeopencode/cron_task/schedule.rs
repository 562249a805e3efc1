//! Instants of a schedule in a time zone. Pure.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

/// Missed instants are counted up to here; more are one "too many".
const COUNTED: usize = 100;

/// A schedule that has been read.
#[derive(Clone, Debug)]
pub struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

/// A schedule that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchedule {
    /// The five fields.
    #[error("spec.schedule: {schedule:?} is not a schedule ({problem}); write five fields, e.g. \"0 9 * * 1-5\"")]
    Expression {
        /// As written.
        schedule: String,
        /// What the parser says.
        problem: String,
    },
    /// The time zone.
    #[error("spec.timeZone: {0:?} is not a time zone; use an IANA name, e.g. Europe/Berlin")]
    Zone(String),
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The latest instant that has come.
    pub instant: Timestamp,
    /// How many have come, at most 101.
    pub missed: usize,
}

impl Due {
    /// Whether so many have been missed that they are not even counted.
    pub fn too_many(&self) -> bool {
        self.missed > COUNTED
    }
}

impl Schedule {
    /// Reads a schedule; UTC when there is no zone.
    pub fn parse(schedule: &str, zone: Option<&str>) -> Result<Self, InvalidSchedule> {
        let invalid = |problem: String| InvalidSchedule::Expression { schedule: schedule.into(), problem };
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        if schedule.contains("TZ=") {
            return Err(invalid("a time zone belongs into spec.timeZone".into()));
        }
        let cron = parser.parse(schedule).map_err(|error| invalid(error.to_string()))?;
        let zone = match zone.filter(|zone| !zone.is_empty()) {
            None => TimeZone::UTC,
            Some(name) => TimeZone::get(name).map_err(|_| InvalidSchedule::Zone(name.into()))?,
        };
        Ok(Self { cron, zone })
    }

    /// The first instant after `time`; `None` when the schedule never comes again (31 February).
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let mut after = self.local(time);
        loop {
            let next = self.cron.find_next_occurrence(&after, false).ok()?;
            if self.cron.is_time_matching(&next).unwrap_or(false) || self.skipped_before(&next) {
                return Some(next.timestamp());
            }
            // The library stops after every gap at midnight, whether the schedule falls into it or not.
            after = next;
        }
    }

    /// Whether the clock skipped a time of this schedule to come here.
    fn skipped_before(&self, time: &Zoned) -> bool {
        let instant = time.timestamp();
        let Some(before) = instant.checked_sub(SignedDuration::from_secs(1)).ok() else { return false };
        let Ok(mut skipped) = self.zone.to_offset(before).to_datetime(instant).to_zoned(TimeZone::UTC) else {
            return false;
        };
        let end = time.datetime();
        while skipped.datetime() < end {
            if self.cron.is_time_matching(&skipped).unwrap_or(false) {
                return true;
            }
            skipped = &skipped + SignedDuration::from_mins(1);
        }
        false
    }

    /// What has come after `settled`, up to and with `now`.
    pub fn due(&self, settled: Timestamp, now: Timestamp) -> Option<Due> {
        let mut missed = 0;
        let mut latest = settled;
        while missed <= COUNTED {
            match self.next_after(latest) {
                Some(instant) if instant <= now && instant > latest => {
                    latest = instant;
                    missed += 1;
                }
                _ => break,
            }
        }
        if missed > COUNTED {
            let previous = self.cron.find_previous_occurrence(&self.local(now), true).ok();
            latest = previous.map_or(latest, |zoned| zoned.timestamp()).max(latest);
        }
        (missed > 0).then_some(Due { instant: latest, missed })
    }

    fn local(&self, time: Timestamp) -> Zoned {
        time.to_zoned(self.zone.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn schedule(expression: &str, zone: Option<&str>) -> Schedule {
        Schedule::parse(expression, zone).expect("a schedule")
    }

    #[test]
    fn five_fields_in_a_zone() {
        let berlin = schedule("30 9 * * 1-5", Some("Europe/Berlin"));
        assert_eq!(berlin.next_after(at("2026-01-02T12:00:00Z")), Some(at("2026-01-05T08:30:00Z")));
        assert_eq!(berlin.next_after(at("2026-07-01T12:00:00Z")), Some(at("2026-07-02T07:30:00Z")));
    }

    #[test]
    fn what_is_not_a_schedule_says_so() {
        for text in ["", "* * * *", "* * * * * *", "61 * * * *", "TZ=UTC * * * * *"] {
            let error = Schedule::parse(text, None).expect_err(text);
            assert!(error.to_string().contains("spec.schedule"), "{error}");
        }
        assert_eq!(
            Schedule::parse("* * * * *", Some("Mars/Base")).err(),
            Some(InvalidSchedule::Zone("Mars/Base".into()))
        );
    }

    #[test]
    fn only_the_latest_of_the_missed_is_due() {
        let hourly = schedule("0 * * * *", None);
        let settled = at("2026-01-01T00:00:00Z");
        assert_eq!(hourly.due(settled, at("2026-01-01T00:59:59Z")), None);
        let due = hourly.due(settled, at("2026-01-01T03:30:00Z")).expect("due");
        assert_eq!((due.instant, due.missed), (at("2026-01-01T03:00:00Z"), 3));
    }

    #[test]
    fn too_many_missed_still_find_the_latest() {
        let minutely = schedule("* * * * *", None);
        let due = minutely.due(at("2026-01-01T00:00:00Z"), at("2026-01-31T00:00:30Z")).expect("due");
        assert!(due.too_many());
        assert_eq!(due.instant, at("2026-01-31T00:00:00Z"));
    }

    #[test]
    fn a_time_that_the_clock_skips_still_comes_once() {
        // Berlin goes from 02:00 to 03:00 on 29 March 2026.
        let skipped = schedule("30 2 * * *", Some("Europe/Berlin"));
        let next = skipped.next_after(at("2026-03-28T12:00:00Z")).expect("an instant");
        assert_eq!(next, at("2026-03-29T01:00:00Z"), "the first moment after the gap");
        assert_eq!(skipped.next_after(next), Some(at("2026-03-30T00:30:00Z")));
    }

    #[test]
    fn a_midnight_that_the_clock_skips_brings_nothing_that_is_not_due() {
        // Cairo goes from 00:00 to 01:00 on 24 April 2026.
        let later = schedule("30 2 * * *", Some("Africa/Cairo"));
        assert_eq!(later.next_after(at("2026-04-23T12:00:00Z")), Some(at("2026-04-23T23:30:00Z")));
        let midnight = schedule("0 0 * * *", Some("Africa/Cairo"));
        assert_eq!(midnight.next_after(at("2026-04-23T12:00:00Z")), Some(at("2026-04-23T22:00:00Z")));
    }

    #[test]
    fn a_time_that_the_clock_repeats_comes_once() {
        // Berlin goes from 03:00 back to 02:00 on 25 October 2026.
        let repeated = schedule("30 2 * * *", Some("Europe/Berlin"));
        let first = repeated.next_after(at("2026-10-24T12:00:00Z")).expect("an instant");
        let second = repeated.next_after(first).expect("an instant");
        assert_eq!(first, at("2026-10-25T00:30:00Z"));
        assert_eq!(second, at("2026-10-26T01:30:00Z"));
    }
}
