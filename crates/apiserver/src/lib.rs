//! apiserver

pub mod attributes;
pub mod user;
