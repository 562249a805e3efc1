//! The OpenAPI document is what is served, and what is committed.

use std::path::Path;

use axum::body::Body;

#[test]
fn the_committed_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json");
    let current = serde_json::to_string_pretty(orrery_server::document()).unwrap() + "\n";
    if std::env::var_os("ORRERY_UPDATE").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == current, "run: ORRERY_UPDATE=1 cargo test --package orrery-server --test it document");
}

/// Every operation of the document is served: with names of nothing it is refused for that, never for the route.
#[tokio::test]
async fn every_documented_operation_is_served() {
    let world = crate::embedded().await;
    let ada = world.administrator("document").await;
    assert_eq!(ada.get("/api/v1/openapi.json").await.json(), *orrery_server::document());
    let mut count = 0;
    for (path, methods) in orrery_server::document()["paths"].as_object().unwrap() {
        let path = path.replace("{namespace}", "red").replace("{name}", "nothing");
        // A stream does not end; that it begins is shown elsewhere.
        if path.ends_with("/stream") {
            continue;
        }
        for method in methods.as_object().unwrap().keys() {
            let answer = ada.send(&method.to_uppercase(), &path, &[], Body::empty()).await;
            let code = answer.code.as_u16();
            assert!(code < 500 && code != 405, "{method} {path}: {code} {}", answer.text);
            assert!(!answer.text.contains("no such route"), "{method} {path}");
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
}
