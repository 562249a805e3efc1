//! Streams that are many, and streams that are long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, DeleteParams};
use orrery_server::{Options, Server, Streams};
use serde_json::json;

use crate::world::{Listening, Person, Sent};

const PATH: &str = "/api/v1/stream?kinds=tasks&namespace=red";

async fn post(ada: &Person, name: &str) {
    let task = json!({"name": name, "description": "a", "templateRef": {"name": "shell"}});
    assert_eq!(ada.post("/api/v1/namespaces/red/tasks", &task).await.code, 201);
}

fn names(events: &[Sent]) -> Vec<&str> {
    let changes = events.iter().filter(|event| event.event == "change");
    changes.map(|event| event.data["object"]["name"].as_str().unwrap()).collect()
}

impl Listening {
    /// Reads what comes next, be it a word in the silence.
    async fn more(&mut self) {
        let chunk = tokio::time::timeout(Duration::from_mins(1), self.body.next()).await;
        if let Some(chunk) = chunk.expect("a stream is never silent for a minute") {
            self.text.push_str(&String::from_utf8_lossy(&chunk.unwrap()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_at_once_all_hear_every_change_in_order() {
    let world = crate::embedded().await;
    let ada = world.administrator("many").await;
    let mut streams: Vec<Listening> = Vec::new();
    for _ in 0..500 {
        streams.push(ada.listen(PATH, None).await);
    }
    for stream in &mut streams {
        stream.until(|events| !events.is_empty()).await;
    }
    let expected: Vec<String> = (0..10).map(|index| format!("task-{index}")).collect();
    for name in &expected {
        post(&ada, name).await;
    }
    for stream in &mut streams {
        stream.until(|events| events.len() > expected.len()).await;
        assert_eq!(names(&stream.events()), expected);
    }
}

/// A client that counts the watches it begins.
fn counting(client: kube::Client, begun: &Arc<AtomicUsize>) -> kube::Client {
    let (begun, namespace) = (Arc::clone(begun), client.default_namespace().to_owned());
    let service = tower::service_fn(move |request: axum::http::Request<kube::client::Body>| {
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            begun.fetch_add(1, Ordering::SeqCst);
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    kube::Client::new(service, namespace)
}

/// Pages of one user share a watch, whenever they come; another user has another, and no rights of the first.
#[tokio::test]
async fn streams_of_one_user_share_a_watch() {
    let world = crate::embedded().await;
    let begun = Arc::new(AtomicUsize::new(0));
    let options = world.options();
    let client = counting(options.client.clone(), &begun);
    let router = Server::new(Options { client, ..options }).router();
    let token = world.token("default", "sharing", None).await;
    let ada = Person { router: router.clone(), token: Some(token) };
    let mut first = ada.listen(PATH, None).await;
    first.until(|events| !events.is_empty()).await;
    let before = begun.load(Ordering::SeqCst);
    post(&ada, "one").await;
    first.until(|events| names(events) == ["one"]).await;
    let one = first.events().last().unwrap().id.clone();
    post(&ada, "two").await;
    first.until(|events| names(events) == ["one", "two"]).await;

    // Who comes back hears what it missed, once; who is new begins with a list.
    let mut back = ada.listen(PATH, Some(&one)).await;
    back.until(|events| names(events) == ["two"]).await;
    let mut new = ada.listen(PATH, None).await;
    new.until(|events| !events.is_empty()).await;
    post(&ada, "three").await;
    new.until(|events| names(events) == ["three"]).await;
    back.until(|events| names(events) == ["two", "three"]).await;
    first.until(|events| names(events) == ["one", "two", "three"]).await;
    assert_eq!(begun.load(Ordering::SeqCst), before, "they all listen to the first one's watch");

    // The watch ends with its last listener.
    drop((first, back, new));
    let mut again = ada.listen(PATH, Some(&one)).await;
    again.until(|events| names(events) == ["two", "three"]).await;
    assert_eq!(begun.load(Ordering::SeqCst), before + 1);
    let stranger = Person { router, token: Some(world.token("blue", "stranger", Some(json!([]))).await) };
    let mut refused = stranger.listen(PATH, Some(&one)).await;
    refused.until(|events| !events.is_empty()).await;
    assert!(refused.events().iter().all(|event| event.event == "trouble"), "{}", refused.text);
}

/// Half an hour in short: silence is filled so that no proxy cuts it, the watches below are renewed again and again, and
/// no change is lost or told twice. `ORRERY_TEST_LONG` makes it the whole half hour with the real intervals.
#[tokio::test]
async fn a_stream_that_is_left_open_stays_right() {
    let long = std::env::var_os("ORRERY_TEST_LONG").is_some();
    let short = Streams { keep_alive: Duration::from_millis(100), watch: Duration::from_secs(1), ..Streams::default() };
    let streams = if long { Streams::default() } else { short };
    let renewals = if long { 7 } else { 4 };
    let world = crate::embedded().await;
    let token = world.token("default", "patient", None).await;
    let router = Server::new(Options { streams, ..world.options() }).router();
    let ada = Person { router, token: Some(token) };
    let mut stream = ada.listen(PATH, None).await;
    stream.until(|events| !events.is_empty()).await;

    let begin = Instant::now();
    let mut posted = Vec::new();
    // A change in each quarter of a watch, so that some are made while one watch ends and the next begins.
    while begin.elapsed() < streams.watch * renewals {
        let name = format!("task-{}", posted.len());
        post(&ada, &name).await;
        posted.push(name);
        let silences = |stream: &Listening| stream.text.lines().filter(|line| line.starts_with(':')).count();
        let before = silences(&stream);
        let next = Instant::now() + streams.watch / 4;
        while Instant::now() < next {
            let text = stream.text.len();
            stream.more().await;
            assert!(stream.text.len() > text, "the stream ended");
        }
        assert!(silences(&stream) > before, "nothing was said in the silence: {}", stream.text);
    }
    stream.until(|events| events.len() > posted.len()).await;
    assert_eq!(names(&stream.events()), posted);
    assert_eq!(stream.events().iter().filter(|event| event.event == "snapshot").count(), 1);
}

impl Listening {
    /// Reads until the stream ends, which must be within a minute.
    async fn end(&mut self) {
        let ended = async { while self.body.next().await.is_some() {} };
        tokio::time::timeout(Duration::from_mins(1), ended).await.expect("the stream ends");
    }
}

/// A stream that was opened by a session ends when the session does; others go on.
#[tokio::test]
async fn streams_end_with_the_session() {
    let world = crate::embedded().await;
    let token = world.token("default", "leaving", None).await;
    let ada = Person { router: Server::new(world.options()).router(), token: Some(token) };
    let login = ada.send("POST", "/login", &[], Body::empty()).await;
    let cookie = login.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let browser = Person { token: None, ..ada.clone() };
    let opened = browser.open("GET", PATH, &[("cookie", &cookie)], Body::empty()).await;
    let mut stream = Listening { body: opened.into_body().into_data_stream(), text: String::new() };
    let mut other = ada.listen(PATH, None).await;
    for stream in [&mut stream, &mut other] {
        stream.until(|events| !events.is_empty()).await;
    }
    assert_eq!(browser.send("POST", "/logout", &[("cookie", &cookie)], Body::empty()).await.code, 204);
    stream.end().await;
    post(&ada, "after").await;
    other.until(|events| names(events) == ["after"]).await;
}

/// A token that was taken away ends what was opened by it, be it the token itself or a session that was begun with it.
#[tokio::test]
async fn streams_end_with_the_token() {
    let world = crate::embedded().await;
    let streams = Streams { review: Duration::from_millis(200), ..Streams::default() };
    let token = world.token("default", "revoked", None).await;
    let ada = Person { router: Server::new(Options { streams, ..world.options() }).router(), token: Some(token) };
    let login = ada.send("POST", "/login", &[], Body::empty()).await;
    let cookie = login.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let browser = Person { token: None, ..ada.clone() };
    let opened = browser.open("GET", PATH, &[("cookie", &cookie)], Body::empty()).await;
    let mut of_session = Listening { body: opened.into_body().into_data_stream(), text: String::new() };
    let mut of_token = ada.listen(PATH, None).await;
    for stream in [&mut of_session, &mut of_token] {
        stream.until(|events| !events.is_empty()).await;
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), "default");
    accounts.delete("revoked", &DeleteParams::default()).await.unwrap();
    of_session.end().await;
    of_token.end().await;
    ada.get("/api/v1/info").await.refused(401);
    browser.send("GET", "/api/v1/info", &[("cookie", &cookie)], Body::empty()).await.refused(401);
}
