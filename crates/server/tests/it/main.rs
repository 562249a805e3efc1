//! The server in front of an embedded plane. The same scenarios run in front of a real kube-apiserver with
//! `make test-kubernetes` (`tests/differential`).

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod document;
mod door;
mod isolation;
mod metrics;
mod routes;
mod streams;
mod world;

use testkit::Plane;
use world::World;

async fn embedded() -> World {
    let plane = Plane::start().await;
    World::on(plane.client(), Box::new(plane)).await
}

#[tokio::test]
async fn objects() {
    routes::objects(&embedded().await).await;
}

#[tokio::test]
async fn actions() {
    routes::actions(&embedded().await).await;
}

#[tokio::test]
async fn packs() {
    routes::packs(&embedded().await).await;
}

#[tokio::test]
async fn singles() {
    routes::singles(&embedded().await).await;
}

#[tokio::test]
async fn refusals() {
    routes::refusals(&embedded().await).await;
}

#[tokio::test]
async fn stream() {
    routes::stream(&embedded().await).await;
}

#[tokio::test]
async fn search() {
    routes::search(&embedded().await).await;
}

#[tokio::test]
async fn kept_logs() {
    routes::kept_logs(&embedded().await).await;
}

#[tokio::test]
async fn one_namespace() {
    isolation::one_namespace(&embedded().await).await;
}
