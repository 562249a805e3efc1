//! A client that counts, through a real router, two versions behind it, and everything that happens to a canary.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod count;
mod world;

use futures::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use count::{Counted, Direction};
use world::World;

/// At 10 %, the share over 10,000 sessions is within 1 point, measured the same by client and router, and no session of
/// those that come again is somewhere else.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenth_of_ten_thousand_sessions() {
    let world = World::start(10).await;
    let first = world.visit(0..10_000).await;
    let new = first.iter().filter(|version| *version == "new").count();
    assert!((900..=1100).contains(&new), "{new} of 10,000");
    let report = world.report().await;
    assert_eq!(
        (report["canary"]["requests"].as_u64(), report["stable"]["requests"].as_u64()),
        (Some(new as u64), Some(10_000 - new as u64))
    );
    assert_eq!((&report["canary"]["errors"], &report["canary"]["inFlight"]), (&0.into(), &0.into()));
    let again = world.visit(0..1000).await;
    assert_eq!(again, first[..1000], "no session switches");
    let metrics = world.get("metrics").await.text().await.unwrap();
    assert!(metrics.contains("omnia_router_requests_total{side=\"canary\",outcome=\"ok\"}"), "{metrics}");
    assert!(metrics.contains("omnia_router_weight_percent 10"), "{metrics}");
}

/// Shares that grow and shrink, a router that dies, promotion: no request is lost, and each change moves a session at most
/// once and one way only.
#[tokio::test(flavor = "multi_thread")]
async fn every_change_moves_a_session_at_most_once_and_loses_none() {
    let mut world = World::start(10).await;
    let counted = Counted::start(&world, 60);
    let stage = async |world: &mut World, direction, weight| {
        counted.begin();
        world.tell(|routing| routing.weight = weight).await;
        counted.everyone_twice().await;
        counted.check(direction)
    };
    assert!(stage(&mut world, Direction::Nowhere, 10).await.contains(&"new"));
    stage(&mut world, Direction::ToNew, 30).await;
    stage(&mut world, Direction::ToNew, 60).await;
    stage(&mut world, Direction::ToOld, 30).await;

    // The router dies, and the next one knows where everybody was.
    counted.begin();
    world.kill();
    world.revive().await;
    counted.everyone_twice().await;
    counted.check(Direction::Nowhere);

    // Promotion: everybody goes to the new version; then the first side plays it too, and takes everybody over.
    assert_eq!(stage(&mut world, Direction::ToNew, 100).await, ["new"]);
    world.idle("stable").await;
    let promoted = world.promoted.clone();
    world.tell(|routing| routing.stable = promoted).await;
    counted.begin();
    world.tell(|routing| (routing.weight, routing.retiring) = (0, true)).await;
    counted.everyone_twice().await;
    assert_eq!(counted.check(Direction::Nowhere), ["new"], "never the old version again");
    let (requests, lost) = counted.finish().await;
    assert!(requests > 600 && lost == 0, "{lost} of {requests} requests got no answer");
}

/// An abort moves those at the new version back, once.
#[tokio::test(flavor = "multi_thread")]
async fn an_abort_moves_everybody_back_once() {
    let mut world = World::start(50).await;
    let counted = Counted::start(&world, 40);
    counted.everyone_twice().await;
    counted.begin();
    world.tell(|routing| (routing.weight, routing.retiring) = (0, true)).await;
    counted.everyone_twice().await;
    counted.check(Direction::ToOld);
    counted.begin();
    counted.everyone_twice().await;
    assert_eq!(counted.check(Direction::Nowhere), ["old"]);
    let (_, lost) = counted.finish().await;
    assert_eq!(lost, 0);
}

/// Streams that are open while everything changes go on to their own end, on the side where they began, and are told of as
/// under way until then.
#[tokio::test(flavor = "multi_thread")]
async fn open_streams_go_on_where_they_began() {
    let mut world = World::start(100).await;
    let mut events =
        world.http.get(world.url("/events")).header("X-Omnia-Session", "s").send().await.unwrap().bytes_stream();
    let next = async |stream: &mut (dyn futures::Stream<Item = reqwest::Result<bytes::Bytes>> + Unpin + Send)| {
        String::from_utf8(stream.next().await.unwrap().unwrap().to_vec()).unwrap()
    };
    assert_eq!(next(&mut events).await, "data: new\n\n");
    let mut request = world.url("/ws").replace("http", "ws").into_client_request().unwrap();
    request.headers_mut().insert("x-omnia-session", "s".parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let say = async |socket: &mut tokio_tungstenite::WebSocketStream<_>, word: &str| {
        socket.send(Message::text(word)).await.unwrap();
        socket.next().await.unwrap().unwrap().into_text().unwrap().to_string()
    };
    assert_eq!(say(&mut socket, "one").await, "new: one");

    world.tell(|routing| (routing.weight, routing.window) = (0, "another".into())).await;
    assert_eq!(world.ask("s").await, "old", "the next request goes elsewhere");
    world.tick();
    assert_eq!(next(&mut events).await, "data: new\n\n", "the stream stays");
    assert_eq!(say(&mut socket, "two").await, "new: two");
    let report = world.report().await;
    assert_eq!((&report["canary"]["inFlight"], &report["canary"]["requests"]), (&2.into(), &0.into()));

    world.end_streams();
    while let Some(piece) = events.next().await {
        piece.unwrap();
    }
    socket.close(None).await.unwrap();
    while let Some(Ok(_)) = socket.next().await {}
    world.idle("canary").await;
}

/// A session is named by header, cookie, query or body; who names none is given a name that holds from then on.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_name_is_given_one() {
    let world = World::start(50).await;
    for _ in 0..20 {
        let answer = world.http.get(world.url("/")).send().await.unwrap();
        let id = answer.headers()["x-omnia-session"].to_str().unwrap().to_owned();
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        assert_eq!(cookie, format!("omnia-session={id}"));
        let version = answer.text().await.unwrap();
        let get = |path: &str| world.http.get(world.url(path));
        let body = serde_json::json!({ "message": "hello", "sessionId": id });
        for request in [
            get("/").header("X-Omnia-Session", &id),
            get("/").header("cookie", &cookie),
            get(&format!("/?sessionId={id}")),
            world.http.post(world.url("/")).json(&body),
        ] {
            let answer = request.send().await.unwrap();
            assert!(answer.headers().get("set-cookie").is_none());
            assert_eq!(answer.text().await.unwrap(), version);
        }
    }
}

/// What is measured: answers of 500 and more, answers that break off, and sides that do not answer.
#[tokio::test(flavor = "multi_thread")]
async fn failures_are_counted_on_their_side() {
    let mut world = World::start(100).await;
    for path in ["/broken", "/cut"] {
        let _ = world.http.get(world.url(path)).send().await.unwrap().bytes().await;
    }
    world.idle("canary").await;
    let report = world.report().await;
    assert_eq!((&report["canary"]["requests"], &report["canary"]["errors"]), (&2.into(), &2.into()));
    world.tell(|routing| routing.window = "another".into()).await;
    assert_eq!(world.report().await["canary"]["requests"], 0, "counting begins again with a window");
    let nowhere = world::free();
    world.tell(|routing| routing.canary = format!("127.0.0.1:{nowhere}")).await;
    assert_eq!(world.http.get(world.url("/")).send().await.unwrap().status(), 502);
    assert_eq!(world.report().await["canary"]["errors"], 1);
}
