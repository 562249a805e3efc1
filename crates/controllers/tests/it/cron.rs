//! Schedules over years, in many time zones, through outages and clocks that jump: decisions alone, no plane.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::kubeopencode::{CronTask, CronTaskStatus, Task};
use engine::{Decision, Step};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use orrery_controllers::kubeopencode::cron_task::{Observed, Present, decide};
use rstest::rstest;
use serde_json::json;

use crate::support::{at, yaml};

/// One for nearly every rule there is: no summer time, early and late changes, both hemispheres, half hours.
const ZONES: [&str; 30] = [
    "UTC",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Johannesburg",
    "America/Anchorage",
    "America/Asuncion",
    "America/Bogota",
    "America/Havana",
    "America/Los_Angeles",
    "America/New_York",
    "America/Nuuk",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Jerusalem",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Tehran",
    "Asia/Tokyo",
    "Australia/Adelaide",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/Chisinau",
    "Europe/London",
    "Pacific/Apia",
    "Pacific/Auckland",
    "Pacific/Chatham",
];

/// A schedule whose Tasks end at once.
struct Run {
    cron: CronTask,
    children: BTreeMap<String, Arc<Task>>,
    /// Every Task ever made, in order.
    made: Vec<String>,
    names: BTreeSet<String>,
}

impl Run {
    fn new(schedule: &str, zone: &str, created: &str, extra: &str) -> Self {
        let cron = yaml(&format!(
            "metadata: {{ name: c, namespace: n, uid: u, resourceVersion: '1', generation: 1, creationTimestamp: '{created}' }}\n\
             spec: {{ schedule: '{schedule}', timeZone: {zone}, {extra} taskTemplate: {{ spec: {{ templateRef: {{ name: t }} }} }} }}"
        ));
        Self { cron, children: BTreeMap::new(), made: Vec::new(), names: BTreeSet::new() }
    }

    /// Decides until nothing changes; answers when to look again.
    fn look(&mut self, now: Timestamp) -> Option<Timestamp> {
        for _ in 0..10 {
            let pending = self.cron.status.as_ref().and_then(|status| status.pending_task.clone());
            let present = Present {
                cron: Arc::new(self.cron.clone()),
                children: self.children.values().cloned().collect(),
                pending: pending.and_then(|name| self.children.get(&name).cloned()),
            };
            let decision = decide(&Observed::CronTask(Box::new(present)), now);
            if decision.steps.is_empty() {
                return decision.look_again;
            }
            self.act(&decision);
        }
        panic!("the schedule never comes to rest");
    }

    fn act(&mut self, decision: &Decision) {
        for step in &decision.steps {
            match step {
                Step::Patch(patch) if patch.subresource == Some("status") => {
                    let mut status = json!(self.cron.status.clone().unwrap_or_default());
                    merge(&mut status, &patch.body["status"]);
                    self.cron.status = Some(serde_json::from_value::<CronTaskStatus>(status).unwrap());
                }
                Step::Create(object) => {
                    let mut task: Task = serde_json::from_value(object.value.clone()).unwrap();
                    assert!(self.names.insert(task.name_any()), "an instant ran twice");
                    self.made.push(task.name_any());
                    task.status = Some(serde_json::from_value(json!({ "phase": "Completed" })).unwrap());
                    self.children.insert(task.name_any(), Arc::new(task));
                }
                // Let go: recorded, and cleaned up at once.
                Step::Patch(patch) if patch.target.resource.kind == "Task" => {
                    self.children.remove(&patch.target.key.name);
                }
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    /// Looks whenever it asked to, from `from` to `to`.
    fn between(&mut self, from: Timestamp, to: Timestamp) {
        let mut now = from;
        while now < to {
            let next = self.look(now).expect("this schedule always comes again");
            assert!(next > now, "time goes on");
            now = next;
        }
    }

    fn instants(&self) -> Vec<Timestamp> {
        let instant = |name: &String| Timestamp::from_second(name.rsplit('-').next()?.parse().ok()?).ok();
        self.made.iter().map(|name| instant(name).unwrap()).collect()
    }
}

fn merge(into: &mut serde_json::Value, patch: &serde_json::Value) {
    let Some(patch) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    let into = into.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            into.remove(name);
        } else {
            merge(into.entry(name).or_insert(serde_json::Value::Null), value);
        }
    }
}

#[test]
fn two_years_in_thirty_zones_one_task_a_day() {
    for zone in ZONES {
        let (from, to) = (at("2026-01-01T12:00:00Z"), at("2028-01-01T12:00:00Z"));
        let mut run = Run::new("30 2 * * *", zone, "2026-01-01T12:00:00Z", "");
        run.between(from, to);
        let zone = TimeZone::get(zone).unwrap();
        let dates: Vec<_> = run.instants().iter().map(|instant| instant.to_zoned(zone.clone()).date()).collect();
        let different: BTreeSet<_> = dates.iter().collect();
        assert_eq!(different.len(), dates.len(), "{zone:?}: no day has two");
        let first = *dates.first().unwrap();
        for (index, date) in dates.iter().enumerate() {
            let days = i64::try_from(index).unwrap();
            assert_eq!(*date, first.checked_add(jiff::Span::new().days(days)).unwrap(), "{zone:?}: no day has none");
        }
        assert!((729..=731).contains(&dates.len()), "{zone:?}: {}", dates.len());
    }
}

#[test]
fn around_every_change_of_the_clock_half_hours_stay_half_hours() {
    let (from, to) = (at("2026-01-01T12:00:00Z"), at("2028-01-01T12:00:00Z"));
    for name in ZONES {
        let zone = TimeZone::get(name).unwrap();
        for change in zone.following(from).map(|change| change.timestamp()).take_while(|change| *change < to) {
            let start = change - SignedDuration::from_hours(3);
            let mut run = Run::new("*/30 * * * *", name, &start.to_string(), "");
            run.between(start, change + SignedDuration::from_hours(3));
            let instants = run.instants();
            let steps: BTreeSet<_> = instants.windows(2).map(|pair| pair[1].duration_since(pair[0])).collect();
            assert_eq!(steps, BTreeSet::from([SignedDuration::from_mins(30)]), "{name} at {change}: {instants:?}");
        }
    }
}

/// From a minute to thirty days, a fifth longer each time, and with them a second that is not a full minute.
fn outages() -> impl Iterator<Item = SignedDuration> {
    std::iter::successors(Some(60_i64), |seconds| Some(seconds * 6 / 5 + 1))
        .chain([30 * 24 * 3600])
        .take_while(|seconds| *seconds <= 30 * 24 * 3600)
        .map(SignedDuration::from_secs)
}

#[rstest]
#[case::every_minute("* * * * *", "UTC", 1)]
#[case::every_ten_minutes("*/10 * * * *", "Asia/Kathmandu", 10)]
#[case::every_night_over_a_change_of_the_clock("30 2 * * *", "Europe/Berlin", 24 * 9)]
#[case::twice_a_week("0 9 * * 1,4", "America/Los_Angeles", 24 * 9)]
fn an_outage_costs_one_run_at_most(#[case] schedule: &str, #[case] zone: &str, #[case] hours: i64) {
    let around = SignedDuration::from_hours(hours);
    let start = at("2026-03-02T00:00:30Z");
    // What a plane that was never down makes of it.
    let mut calm = Run::new(schedule, zone, "2026-03-02T00:00:30Z", "");
    calm.between(start, start + around + SignedDuration::from_hours(24 * 30) + around);
    let calm = calm.instants();
    for outage in outages() {
        let (down, back) = (start + around, start + around + outage);
        let mut run = Run::new(schedule, zone, "2026-03-02T00:00:30Z", "");
        run.between(start, down);
        run.look(back);
        run.between(back, back + around);
        let last = *run.instants().last().unwrap();
        let due = calm.iter().copied().filter(|instant| *instant <= last);
        let missed: Vec<Timestamp> = due.clone().filter(|instant| *instant > down && *instant <= back).collect();
        // Of what was missed the latest is made up for; all the rest comes as ever.
        let lost: BTreeSet<Timestamp> = missed.iter().rev().skip(1).copied().collect();
        let expected: Vec<Timestamp> = due.filter(|instant| !lost.contains(instant)).collect();
        assert_eq!(run.instants(), expected, "{schedule} in {zone}, down for {outage:?}");
    }
}

#[test]
fn a_deadline_skips_what_is_too_late() {
    let start = at("2026-03-01T00:00:30Z");
    let mut run = Run::new("0 * * * *", "UTC", "2026-03-01T00:00:30Z", "startingDeadlineSeconds: 60,");
    run.look(start);
    run.look(at("2026-03-01T01:30:00Z"));
    assert!(run.made.is_empty(), "half an hour late is too late");
    run.look(at("2026-03-01T02:00:10Z"));
    assert_eq!(run.made.len(), 1);
}

#[rstest]
#[case(SignedDuration::from_mins(1))]
#[case(SignedDuration::from_hours(5))]
#[case(SignedDuration::from_hours(24 * 400))]
fn a_clock_that_jumps_ahead_and_back_neither_repeats_nor_wedges(#[case] jump: SignedDuration) {
    let start = at("2026-03-01T00:00:30Z");
    let mut run = Run::new("*/10 * * * *", "UTC", "2026-03-01T00:00:30Z", "");
    run.between(start, start + SignedDuration::from_hours(1));
    let wrong = start + SignedDuration::from_hours(1) + jump;
    run.look(wrong);
    let right = start + SignedDuration::from_hours(1);
    run.look(right);
    let before = run.made.len();
    run.between(right, right + SignedDuration::from_hours(2));
    assert!(run.made.len() >= before + 10, "it goes on at the right time: {}", run.made.len() - before);
}
