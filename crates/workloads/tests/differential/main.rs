//! The same scenarios on our controllers and on a real kube-controller-manager: the same statuses must come out.
//!
//! No kubelet is needed: a stand-in binds Pods and reports them running, on both sides.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod pods;
mod scenarios;
mod sides;
mod snapshot;

use sides::Side;

/// Plays every scenario on both sides, in a namespace each, and compares what was seen on the way.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_statuses_come_out() {
    let real = Side::kubernetes().await;
    let ours = Side::embedded().await;
    let mut different = Vec::new();
    for (name, scenario) in scenarios::ALL {
        let (expected, found) = tokio::join!(real.play(name, *scenario), ours.play(name, *scenario));
        for (expected, found) in expected.iter().zip(&found) {
            if expected != found {
                different.push(format!("{name}\n  Kubernetes: {expected:#}\n  Orrery: {found:#}"));
            }
        }
        assert_eq!(expected.len(), found.len(), "{name}");
        assert!(!expected.is_empty(), "{name} looks at nothing");
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}
