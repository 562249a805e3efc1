//! Tells users what happened, as `events.k8s.io/v1` Events: repeated ones become a series, chatty objects are slowed
//! down, and a lost Event never holds up the work it tells of.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::events::v1::{Event as Recorded, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use crate::decision::Event;
use crate::error::Error;
use crate::metrics::ControllerMetrics;

/// Events that wait to be written; more than that is a flood of which the rest is counted and dropped.
const WAITING: usize = 4096;
/// Events an object may have at once, and how soon it may have one more: as in client-go.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_mins(5);
/// A repeated event updates its series at most this often.
const SERIES_WRITE: Duration = Duration::from_secs(30);
/// A repetition after such a pause starts a new event.
const SERIES_END: Duration = Duration::from_hours(1);

/// Writes the Events of one controller.
pub(crate) struct Recorder {
    client: Client,
    controller: &'static str,
    instance: String,
    metrics: ControllerMetrics,
    state: Mutex<State>,
    waiting: Notify,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Event, Timestamp)>,
    series: HashMap<u64, Series>,
    budgets: HashMap<String, (f64, Timestamp)>,
    /// When series that have ended were last thrown away.
    swept: Timestamp,
}

struct Series {
    name: String,
    count: i32,
    last: Timestamp,
    written: Timestamp,
}

/// What to do about one event.
#[derive(Debug, PartialEq)]
enum Write {
    Create(String),
    Count(String, i32),
    Nothing,
}

impl Recorder {
    pub(crate) fn new(client: Client, controller: &'static str, instance: String, metrics: ControllerMetrics) -> Self {
        Self { client, controller, instance, metrics, state: Mutex::default(), waiting: Notify::new() }
    }

    /// Takes note; [`Recorder::flush`] writes.
    pub(crate) fn record(&self, events: &[Event], now: Timestamp) {
        if events.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for event in events {
            if state.queue.len() >= WAITING {
                self.metrics.dropped_event();
                continue;
            }
            state.queue.push_back((event.clone(), now));
        }
        drop(state);
        self.waiting.notify_one();
    }

    /// Completes when there is something to write.
    pub(crate) async fn waiting(&self) {
        self.waiting.notified().await;
    }

    /// Writes what was noted. An Event that cannot be written is logged and counted, nothing else.
    pub(crate) async fn flush(&self) {
        loop {
            let Some((event, now)) = self.state.lock().queue.pop_front() else { return };
            let write = self.state.lock().plan(&event, now);
            let result = match &write {
                Write::Nothing => Ok(()),
                Write::Create(name) => self.create(name, &event, now).await,
                Write::Count(name, count) => self.count(name, *count, &event, now).await,
            };
            if let Err(error) = result {
                tracing::warn!(
                    controller = self.controller,
                    reason = event.reason,
                    note = event.note,
                    error = %error.chain(),
                    "an Event was not recorded"
                );
                self.metrics.dropped_event();
            }
        }
    }

    fn api(&self, event: &Event) -> Api<Recorded> {
        Api::namespaced(self.client.clone(), namespace(event))
    }

    async fn create(&self, name: &str, event: &Event, now: Timestamp) -> Result<(), Error> {
        let recorded = Recorded {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace(event).to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(self.controller.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            action: Some(event.action.clone()),
            reason: Some(event.reason.clone()),
            // The API allows 1 kB.
            note: Some(event.note.chars().take(1000).collect()),
            type_: Some(if event.warning { "Warning" } else { "Normal" }.to_owned()),
            regarding: Some(event.regarding.clone()),
            ..Recorded::default()
        };
        match self.api(event).create(&PostParams::default(), &recorded).await.map_err(Error::from) {
            Err(error) if error.is_already_exists() => self.count(name, 2, event, now).await,
            // Nothing can be said in a namespace that goes away.
            Err(error) if error.is_terminating() => Ok(()),
            result => result.map(drop),
        }
    }

    async fn count(&self, name: &str, count: i32, event: &Event, now: Timestamp) -> Result<(), Error> {
        let series = EventSeries { count, last_observed_time: MicroTime(now) };
        let patch = Patch::Merge(json!({ "series": series }));
        match self.api(event).patch(name, &PatchParams::default(), &patch).await.map_err(Error::from) {
            Err(error) if error.is_not_found() => Ok(()),
            result => result.map(drop),
        }
    }
}

impl State {
    fn plan(&mut self, event: &Event, now: Timestamp) -> Write {
        let mut hasher = DefaultHasher::new();
        (&event.regarding.uid, &event.reason, &event.note, event.warning).hash(&mut hasher);
        let identity = hasher.finish();
        let since = |then: Timestamp| Duration::try_from(now.duration_since(then)).unwrap_or_default();
        if let Some(series) = self.series.get_mut(&identity).filter(|series| since(series.last) < SERIES_END) {
            series.count += 1;
            series.last = now;
            if series.count > 2 && since(series.written) < SERIES_WRITE {
                return Write::Nothing;
            }
            series.written = now;
            return Write::Count(series.name.clone(), series.count);
        }
        if !self.afford(event, now) {
            return Write::Nothing;
        }
        // Looking at all of them for each new one would make a flood of events cost its square.
        if since(self.swept) >= SERIES_WRITE {
            self.series.retain(|_, series| since(series.last) < SERIES_END);
            self.swept = now;
        }
        // The same event of a restarted process has the same name within the hour, and so joins the series.
        (now.as_second() / 3600).hash(&mut hasher);
        let object = event.regarding.name.as_deref().unwrap_or("unknown");
        let name = format!("{object}.{:016x}", hasher.finish());
        self.series.insert(identity, Series { name: name.clone(), count: 1, last: now, written: now });
        Write::Create(name)
    }

    fn afford(&mut self, event: &Event, now: Timestamp) -> bool {
        let uid = event.regarding.uid.clone().unwrap_or_default();
        let refilled = |left: f64, then: Timestamp| {
            let passed = now.duration_since(then).as_secs_f64().max(0.0);
            (left + passed / REFILL.as_secs_f64()).min(BURST)
        };
        if self.budgets.len() > WAITING {
            self.budgets.retain(|_, (left, then)| refilled(*left, *then) < BURST);
        }
        let (left, then) = self.budgets.get(&uid).copied().unwrap_or((BURST, now));
        let left = refilled(left, then);
        let affordable = left >= 1.0;
        self.budgets.insert(uid, (if affordable { left - 1.0 } else { left }, now));
        affordable
    }
}

fn namespace(event: &Event) -> &str {
    event.regarding.namespace.as_deref().unwrap_or("default")
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    fn event(note: &str) -> Event {
        let mut pod = Pod::default();
        pod.metadata.name = Some("p".into());
        pod.metadata.uid = Some("u".into());
        Event::warning(&pod, "Failed", "Start", note)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn a_repeated_event_becomes_a_series_that_is_written_now_and_then() {
        let mut state = State::default();
        let Write::Create(name) = state.plan(&event("x"), at(0)) else { panic!("the first is created") };
        assert_eq!(state.plan(&event("x"), at(1)), Write::Count(name.clone(), 2));
        assert_eq!(state.plan(&event("x"), at(2)), Write::Nothing);
        assert_eq!(state.plan(&event("x"), at(40)), Write::Count(name, 4));
        assert!(matches!(state.plan(&event("x"), at(40 + 3600)), Write::Create(_)), "after an hour it is news again");
    }

    #[test]
    fn a_chatty_object_is_slowed_down_and_recovers() {
        let mut state = State::default();
        let created = (0..40).filter(|n| matches!(state.plan(&event(&n.to_string()), at(0)), Write::Create(_))).count();
        assert_eq!(created, 25);
        assert!(matches!(state.plan(&event("later"), at(301)), Write::Create(_)));
    }
}
