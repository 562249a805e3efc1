//! The embedded plane's Kubernetes API.
//!
//! One router, generic over a table of kinds: a kind is a row ([`kinds`]), not a module. It owns the
//! wire (paths, verbs, negotiation, discovery, `OpenAPI`), the one way into the store ([`write`]) and
//! who may use it ([`access`]). It refuses to run anything: Pods are the node's, controllers are
//! clients like everyone else.
//!
//! ```text
//!  request ─▶ authn ─▶ request info ─▶ authz ─▶ row of the table ─▶ verb ─▶ answer
//!                                                                   │  ▲
//!            decode ─▶ unknown fields ─▶ isolate ─▶ default ─▶ managers ─▶ validate ─▶ store
//! ```

pub mod access;
mod addresses;
pub mod attributes;
mod authn;
pub mod authz;
mod bootstrap;
mod call;
mod crd;
mod decode;
mod discovery;
mod dispatch;
mod health;
mod hooks;
pub mod kinds;
mod metrics;
mod negotiate;
mod object;
mod openapi;
mod options;
pub mod pki;
pub mod pods;
pub mod request;
mod respond;
pub mod reviews;
mod selection;
mod server;
mod subresources;
pub mod tls;
pub mod tokens;
pub mod user;
mod verbs;
mod write;

pub use server::{ApiServer, Config, SERVICE_RANGE};
