//! The server in front of an embedded plane. The same scenarios run in front of a real kube-apiserver with
//! `make test-kubernetes` (`tests/differential`).

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod document;
mod door;
mod isolation;
mod routes;
mod world;

use world::World;

#[tokio::test]
async fn objects() {
    routes::objects(&World::embedded().await).await;
}

#[tokio::test]
async fn actions() {
    routes::actions(&World::embedded().await).await;
}

#[tokio::test]
async fn singles() {
    routes::singles(&World::embedded().await).await;
}

#[tokio::test]
async fn refusals() {
    routes::refusals(&World::embedded().await).await;
}

#[tokio::test]
async fn stream() {
    routes::stream(&World::embedded().await).await;
}

#[tokio::test]
async fn search() {
    routes::search(&World::embedded().await).await;
}

#[tokio::test]
async fn kept_logs() {
    routes::kept_logs(&World::embedded().await).await;
}

#[tokio::test]
async fn one_namespace() {
    isolation::one_namespace(&World::embedded().await).await;
}
