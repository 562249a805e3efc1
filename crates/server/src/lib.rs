//! The product's own door: REST, one event stream, and the web UI, for people and for programs that do not speak
//! Kubernetes.
//!
//! Owns routes, shapes and sessions. Refuses to be a second way to change things: every request becomes a Kubernetes
//! request in the caller's own name, so Kubernetes RBAC decides, and what a caller cannot see is not listed.
//!
//! ```text
//!  request ─▶ auth (token or cookie) ─▶ limit ─▶ audit ─▶ resources, actions, logs, … ─▶ kube::Client as that user
//!                                                        ▲
//!                                     kinds: one row a kind, with its view
//! ```

mod access;
mod actions;
mod app;
mod assets;
mod audit;
mod auth;
mod caller;
mod chat;
mod error;
mod events;
mod extract;
mod kinds;
mod limit;
mod logs;
mod metrics;
mod openapi;
mod packs;
mod peer;
mod policies;
mod query;
mod registries;
mod resources;
mod routes;
mod search;
mod stream;
mod terminal;
mod trace;
mod upcoming;

pub use app::{Options, Server, Streams};
pub use audit::Audit;
pub use auth::session::Sessions;
pub use caller::User;
pub use limit::Rate;
pub use openapi::document;
pub use trace::Adopt;
