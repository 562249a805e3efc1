//! What happened to Pods, said where their users look. The same words again are one Event that counts.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;
use tokio::sync::mpsc;

const COMPONENT: &str = "orrery-node";
/// Events that may wait to be written. More than that at once tell nobody anything.
const WAITING: usize = 4096;
/// Longest message, as the API takes it.
const LONGEST: usize = 1000;

/// How often the same may be said before it is only counted, and written once in a while.
const OFTEN: i32 = 10;
const ONCE_IN_A_WHILE: Duration = Duration::from_mins(1);

/// What was said about one Pod, by reason and message.
type Said = HashMap<(String, String), Word>;

/// One Event.
struct Word {
    name: String,
    count: i32,
    written: Instant,
}

enum Entry {
    Event(Box<Event>),
    Forget(String),
}

/// Takes what happened. Never waits.
pub struct Events {
    entries: mpsc::Sender<Entry>,
    node: String,
}

impl Events {
    /// The taker, and the task that writes what it took, one after the other.
    pub fn new(client: Client, node: String) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (entries, taken) = mpsc::channel(WAITING);
        (Self { entries, node }, write(client, taken))
    }

    /// Says what happened to a Pod.
    pub fn say(&self, pod: &Pod, kind: &str, reason: &str, message: &str) {
        let now = Some(Time(Timestamp::now()));
        let event = Event {
            metadata: ObjectMeta { namespace: pod.namespace(), ..ObjectMeta::default() },
            involved_object: pod.object_ref(&()),
            type_: Some(kind.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.chars().take(LONGEST).collect()),
            first_timestamp: now.clone(),
            last_timestamp: now,
            count: Some(1),
            source: Some(EventSource { component: Some(COMPONENT.into()), host: Some(self.node.clone()) }),
            reporting_component: Some(COMPONENT.into()),
            reporting_instance: Some(self.node.clone()),
            ..Event::default()
        };
        if self.entries.try_send(Entry::Event(Box::new(event))).is_err() {
            tracing::debug!(reason, "too much happens at once for every event to be written");
        }
    }

    /// A Pod is gone.
    pub fn forget(&self, uid: &str) {
        // One that does not fit is forgotten with the process.
        let _ = self.entries.try_send(Entry::Forget(uid.to_owned()));
    }
}

async fn write(client: Client, mut entries: mpsc::Receiver<Entry>) {
    let mut pods: HashMap<String, Said> = HashMap::new();
    while let Some(entry) = entries.recv().await {
        match entry {
            Entry::Forget(uid) => {
                pods.remove(&uid);
            }
            Entry::Event(event) => {
                let said = pods.entry(event.involved_object.uid.clone().unwrap_or_default()).or_default();
                if let Err(error) = record(&client, *event, said).await {
                    tracing::debug!(%error, "an event could not be written");
                }
            }
        }
    }
}

async fn record(client: &Client, mut event: Event, said: &mut Said) -> kube::Result<()> {
    let api: Api<Event> = Api::namespaced(client.clone(), event.metadata.namespace.as_deref().unwrap_or("default"));
    let words = (event.reason.clone().unwrap_or_default(), event.message.clone().unwrap_or_default());
    if let Some(word) = said.get_mut(&words) {
        word.count += 1;
        // A probe that fails every second for a day is not worth a write every second.
        if word.count > OFTEN && word.written.elapsed() < ONCE_IN_A_WHILE {
            return Ok(());
        }
        let patch = json!({ "count": word.count, "lastTimestamp": event.last_timestamp });
        match api.patch(&word.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => {
                word.written = Instant::now();
                return Ok(());
            }
            // Somebody removed it: said again from the beginning.
            Err(kube::Error::Api(error)) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let pod = event.involved_object.name.as_deref().unwrap_or_default();
    let name = format!("{pod}.{:x}", Timestamp::now().as_nanosecond());
    event.metadata.name = Some(name.clone());
    api.create(&PostParams::default(), &event).await?;
    said.insert(words, Word { name, count: 1, written: Instant::now() });
    Ok(())
}
