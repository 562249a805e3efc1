//! The embedded plane's own controllers: what kube-controller-manager and kube-scheduler do on a cluster, as far as
//! agents and their tools need it, in the same words.
//!
//! They reach the plane only through `kube::Client`, and decide by pure functions. They run on the embedded plane alone:
//! on a cluster the cluster's own do this work.

mod account;
mod claim;
mod claims;
mod deployment;
mod endpoints;
mod garbage;
mod inventory;
mod namespace;
mod naming;
mod pod_collector;
mod pods;
mod replica_set;
mod scheduler;
mod start;

pub use start::{Options, start};
