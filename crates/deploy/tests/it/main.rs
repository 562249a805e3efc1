//! What the engine promises, on a target in memory.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod decisions;
mod laws;
mod memory;
mod torture;

use testkit::Plane;

/// Serves a plane on loopback to processes of a test, as its administrator.
async fn serve(plane: &Plane) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = plane.server();
    let routes = server.access().trust(apiserver::user::User::master("admin"), server.routes());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    url
}
