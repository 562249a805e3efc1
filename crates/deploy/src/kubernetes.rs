//! Kubernetes, as a place to keep states in.

pub(crate) mod http;
