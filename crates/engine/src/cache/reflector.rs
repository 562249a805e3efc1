//! Keeps a cache up to date: list, then watch from the version of the list, and list again when that version expired.

use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::{Request, WatchEvent};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{AnyCache, Cache, Cached};
use crate::clock::SharedClock;
use crate::error::Error;
use crate::key::collection_path;

/// Small enough that a page of large objects does not show in our memory, large enough to need few of them.
const PAGE: u32 = 250;
const RECONNECT_FIRST: Duration = Duration::from_millis(100);
const RECONNECT_LAST: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Page {
    metadata: PageMeta,
    // kube-apiserver writes `null` for an empty list of some kinds.
    items: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// Lists one scope into the cache; answers the version of the list.
pub(super) async fn list<K: Cached>(cache: &Cache<K>, client: &Client, scope: &str) -> Result<String, Error> {
    let request = Request::new(collection_path(&cache.resource, scope));
    let mut params = ListParams::default().limit(PAGE);
    if !cache.selector.selects_all() {
        params = params.labels(&cache.selector.to_string());
    }
    let mut objects = Vec::new();
    let version = loop {
        let page: Page = client.request(request.list(&params).map_err(Error::request)?).await?;
        objects.extend(page.items.unwrap_or_default().into_iter().filter_map(|item| cache.parse(&item)));
        match page.metadata.next.filter(|next| !next.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => break page.metadata.resource_version,
        }
    };
    let changes = cache.store.write().replace(scope, objects, &version);
    cache.announce(changes);
    Ok(version)
}

/// Lists and watches one scope until told to stop.
pub(super) async fn run<K: Cached>(
    cache: &Cache<K>,
    client: &Client,
    clock: &SharedClock,
    scope: &str,
    stop: &CancellationToken,
) {
    let mut first = true;
    let mut delay = RECONNECT_FIRST;
    let mut from = None;
    loop {
        let attempt = async {
            let version = match from.take() {
                Some(version) => version,
                None => list(cache, client, scope).await?,
            };
            if std::mem::take(&mut first) {
                cache.synced.send_modify(|count| *count += 1);
            }
            watch(cache, client, scope, version, &mut from).await
        };
        let result = tokio::select! {
            () = stop.cancelled() => return,
            result = attempt => result,
        };
        match result {
            // The server ends a watch every few minutes; one that ends it at once must not keep us busy.
            Ok(()) => delay = RECONNECT_FIRST,
            Err(error) => {
                if error.is_expired() {
                    from = None;
                }
                tracing::warn!(kind = cache.resource.kind, scope, error = %error.chain(), "the watch was interrupted");
                delay = (delay * 2).min(RECONNECT_LAST);
            }
        }
        let wake = clock.now() + delay;
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep_until(wake) => {}
        }
    }
}

/// Watches until the server ends it; `reached` is where to go on from.
async fn watch<K: Cached>(
    cache: &Cache<K>,
    client: &Client,
    scope: &str,
    version: String,
    reached: &mut Option<String>,
) -> Result<(), Error> {
    let mut params = WatchParams { bookmarks: true, ..WatchParams::default() };
    if !cache.selector.selects_all() {
        params = params.labels(&cache.selector.to_string());
    }
    let request = Request::new(collection_path(&cache.resource, scope));
    let request = request.watch(&params, &version).map_err(Error::request)?;
    *reached = Some(version);
    let mut events = client.request_events::<Value>(request).await?.boxed();
    while let Some(event) = events.next().await {
        let event = event?;
        match &event {
            WatchEvent::Error(status) => return Err(kube::Error::Api(status.clone()).into()),
            WatchEvent::Bookmark(bookmark) => *reached = Some(bookmark.metadata.resource_version.clone()),
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                if let Some(version) = object.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
                    *reached = Some(version.to_owned());
                }
            }
        }
        cache.deliver(scope, event);
    }
    Ok(())
}
