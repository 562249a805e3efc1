//! The embedded API judged by the real one.
//!
//! Every scenario under `scenarios/` is sent, request by request, to a kube-apiserver with etcd and to
//! an embedded server, and the answers are compared: status, warnings and body, with what must differ
//! (uids, times, versions) made equal. What remains is either a defect or stands in
//! `differences.yaml` with its reason; an entry there that no longer matches anything is an error too.
//!
//! `KUBEBUILDER_ASSETS` names the directory of the real binaries; `make test-kubernetes` sets it.
//! `DIFFERENTIAL_ONLY=name` runs only the scenarios whose name contains `name`, `DIFFERENTIAL_SHOW=1` prints every answer.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod allowed;
mod client;
mod compare;
mod embedded;
mod kubernetes;
mod normalise;
mod run;
mod scenario;

use std::fmt::Write as _;

use allowed::Allowed;

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_api_answers_as_kubernetes_does() {
    let only = std::env::var("DIFFERENTIAL_ONLY").unwrap_or_default();
    let scenarios: Vec<_> = scenario::load().into_iter().filter(|scenario| scenario.name.contains(&only)).collect();
    assert!(!scenarios.is_empty(), "no scenario is called {only:?}");
    // An error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubernetes = kubernetes::Kubernetes::start().await;
    let embedded = embedded::Embedded::start().await;
    let mut allowed = Allowed::load();
    let mut report = String::new();
    let (mut requests, mut found) = (0, 0);
    for scenario in &scenarios {
        eprintln!("{}", scenario.name);
        let left = run::scenario(scenario, kubernetes.client()).await;
        let right = run::scenario(scenario, embedded.client()).await;
        for (step, (left, right)) in
            scenario.steps.iter().zip(left.iter().zip(&right)).filter(|(step, _)| !step.prepare)
        {
            requests += 1;
            if std::env::var_os("DIFFERENTIAL_SHOW").is_some() {
                eprintln!("{} · {}\n  {left:?}\n  {right:?}", scenario.name, step.title());
            }
            let differences = compare::answers(left, right, &step.ignore);
            let statuses = (left.status, right.status);
            let unexpected: Vec<_> = differences
                .into_iter()
                .filter(|difference| !allowed.covers(&scenario.name, &step.action, statuses, difference))
                .collect();
            if !unexpected.is_empty() {
                found += unexpected.len();
                writeln!(report, "\n{} · {}", scenario.name, step.title()).unwrap();
                for difference in &unexpected {
                    writeln!(report, "  {difference}").unwrap();
                }
            }
        }
    }
    let unused = if only.is_empty() { allowed.unused() } else { Vec::new() };
    eprintln!("{requests} requests in {} scenarios", scenarios.len());
    assert!(found == 0, "{found} differences:\n{report}");
    assert!(unused.is_empty(), "differences.yaml has entries that match nothing: {unused:?}");
    allowed.check_documentation();
}
