//! Tests of decisions, with the objects as users write them.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, missing_docs, reason = "tests")]

mod agents;
mod canary;
mod cron;
mod economy;
mod manifests;
mod mutants;
mod omnia;
mod omnia_canary;
mod omnia_canary_scenarios;
mod omnia_discovery;
mod omnia_manifests;
mod omnia_packs;
mod omnia_scenarios;
mod omnia_seed;
mod omnia_tools;
mod scenarios;
mod support;
mod tasks;
mod world;
