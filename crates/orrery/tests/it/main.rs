//! Tests of the whole binary.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod agents;
mod cli;
mod clients;
mod contexts;
mod controller;
mod damage;
mod demo;
mod deploy;
mod filling_pod;
mod full_disk;
mod house;
mod images;
mod init;
mod kill;
mod kubectl;
mod omnia;
mod omnia_canary;
mod omnia_tools;
mod plane;
mod promptarena;
mod seed;
mod server;
mod survive;
mod traces;
mod up;
mod work;
