//! apiserver

pub mod access;
pub mod attributes;
mod authn;
pub mod authz;
pub mod pki;
pub mod reviews;
pub mod tls;
pub mod tokens;
pub mod user;
