use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use orrery_engine::{Election, RealClock, SharedClock, VirtualClock};
use testkit::Plane;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Leads until stopped, and says when a term begins and ends.
fn candidate(
    plane: &Plane,
    name: &'static str,
    clock: SharedClock,
    stop: CancellationToken,
    news: mpsc::UnboundedSender<(&'static str, bool)>,
) -> tokio::task::JoinHandle<()> {
    let election = Election::new(plane.client(), "default", "the-lease", name);
    tokio::spawn(async move {
        let work = |term: CancellationToken| {
            let news = news.clone();
            async move {
                news.send((name, true)).unwrap();
                term.cancelled().await;
                let _ = news.send((name, false));
            }
        };
        election.lead(&clock, &stop, work).await;
    })
}

#[tokio::test]
async fn one_leads_at_a_time_and_hands_over_when_it_stops() {
    let plane = Plane::start().await;
    let (send, mut news) = mpsc::unbounded_channel();
    let (stop_first, stop_second) = (CancellationToken::new(), CancellationToken::new());
    let first = candidate(&plane, "first", RealClock::shared(), stop_first.clone(), send.clone());
    assert_eq!(news.recv().await, Some(("first", true)));
    let clock = VirtualClock::at(jiff::Timestamp::now());
    let second = candidate(&plane, "second", Arc::new(clock.clone()), stop_second.clone(), send);

    stop_first.cancel();
    first.await.unwrap();
    assert_eq!(news.recv().await, Some(("first", false)));
    let leases = Api::<Lease>::default_namespaced(plane.client());
    let given_back = leases.get("the-lease").await.unwrap().spec.unwrap();
    assert_eq!(given_back.holder_identity.as_deref(), Some(""), "given back, not left to run out");

    // No lease duration has to pass: the next try takes it.
    let next = async {
        loop {
            clock.advance(Duration::from_secs(3));
            if let Ok(event) = tokio::time::timeout(Duration::from_millis(50), news.recv()).await {
                break event;
            }
        }
    };
    assert_eq!(next.await, Some(("second", true)));
    let held = leases.get("the-lease").await.unwrap().spec.unwrap();
    assert_eq!((held.holder_identity.as_deref(), held.lease_transitions), (Some("second"), Some(1)));
    stop_second.cancel();
    second.await.unwrap();
}

#[tokio::test]
async fn a_leader_that_is_deposed_ends_its_term() {
    let plane = Plane::start().await;
    let (send, mut news) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let clock = VirtualClock::at(jiff::Timestamp::now());
    let leader = candidate(&plane, "first", Arc::new(clock.clone()), stop.clone(), send);
    assert_eq!(news.recv().await, Some(("first", true)));
    // Someone else takes the lease, as after a long pause of the first.
    let leases = Api::<Lease>::default_namespaced(plane.client());
    let mut lease = leases.get("the-lease").await.unwrap();
    lease.spec.as_mut().unwrap().holder_identity = Some("other".into());
    leases.replace("the-lease", &kube::api::PostParams::default(), &lease).await.unwrap();
    let ended = async {
        loop {
            clock.advance(Duration::from_secs(3));
            if let Ok(event) = tokio::time::timeout(Duration::from_millis(50), news.recv()).await {
                break event;
            }
        }
    };
    assert_eq!(ended.await, Some(("first", false)));
    let kept = leases.get("the-lease").await.unwrap().spec.unwrap();
    assert_eq!(kept.holder_identity.as_deref(), Some("other"));
    stop.cancel();
    leader.await.unwrap();
}
