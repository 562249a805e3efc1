//! Tests of the whole binary.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod cli;
mod damage;
mod house;
mod init;
mod kill;
