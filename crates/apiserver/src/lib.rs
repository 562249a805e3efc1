//! apiserver

pub mod attributes;
pub mod pki;
pub mod tls;
pub mod user;
