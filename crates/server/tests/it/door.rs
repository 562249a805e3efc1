//! The door: credentials, sessions, forged requests, rates, headers, the audit log.

use std::os::unix::fs::PermissionsExt as _;

use axum::body::Body;
use orrery_server::{Audit, Options, Rate, Server, User};
use serde_json::{Value, json};

use crate::world::Person;

#[tokio::test]
async fn nobody_gets_in_without_credentials() {
    let world = crate::embedded().await;
    let stranger = Person { router: Server::new(world.options()).router(), token: None };
    for path in
        ["/api/v1/tasks", "/api/v1/info", "/api/v1/stream", "/metrics", "/api/v1/nowhere", "/api/v1/openapi.json"]
    {
        let answer = stranger.get(path).await;
        assert!(answer.headers.contains_key("www-authenticate"), "{path}");
        answer.refused(401);
    }
    let liar = Person { token: Some("not.a.token".to_owned()), ..stranger.clone() };
    liar.get("/api/v1/info").await.refused(401);
    // Only a chosen user stands for those without credentials, with the rights of that user.
    let nobody = Some(User { name: "nobody".to_owned(), ..User::default() });
    let open = Person { router: Server::new(Options { anonymous: nobody, ..world.options() }).router(), token: None };
    assert_eq!(open.get("/api/v1/whoami").await.json()["name"], "nobody");
    assert_eq!(open.get("/api/v1/tasks").await.json()["total"], 0);
    open.get("/api/v1/namespaces/red/tasks").await.refused(403);
}

#[tokio::test]
async fn a_session_changes_nothing_without_our_header() {
    let world = crate::embedded().await;
    let options = world.options();
    let sessions = std::sync::Arc::clone(&options.sessions);
    let browser = Person { router: Server::new(options).router(), token: None };
    let admin = User { name: "admin".to_owned(), groups: vec!["system:masters".to_owned()], uid: None };
    let link = format!("/login?token={}", sessions.invite(admin));
    let answer = browser.get(&link).await;
    assert_eq!((answer.code.as_u16(), &answer.headers["location"]), (303, &"/".parse().unwrap()));
    let cookie = answer.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    browser.get(&link).await.refused(401);

    assert_eq!(browser.send("GET", "/api/v1/info", &[("cookie", &cookie)], Body::empty()).await.code, 200);
    let task = json!({"name": "a", "description": "a", "templateRef": {"name": "b"}}).to_string();
    let forged = browser.send("POST", "/api/v1/namespaces/red/tasks", &[("cookie", &cookie)], task.clone()).await;
    assert!(forged.refused(403).contains("x-orrery-request"));
    let ours = [("cookie", cookie.as_str()), ("x-orrery-request", "1"), ("content-type", "application/json")];
    assert_eq!(browser.send("POST", "/api/v1/namespaces/red/tasks", &ours, task).await.code, 201);
    assert_eq!(browser.send("POST", "/logout", &[("cookie", &cookie)], Body::empty()).await.code, 204);
    browser.send("GET", "/api/v1/info", &[("cookie", &cookie)], Body::empty()).await.refused(401);
}

#[tokio::test]
async fn every_answer_is_hardened() {
    let world = crate::embedded().await;
    let stranger = Person { router: Server::new(world.options()).router(), token: None };
    for path in ["/", "/tasks", "/health", "/api/v1/info"] {
        let headers = stranger.get(path).await.headers;
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("script-src") && !policy.contains("unsafe-"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["x-frame-options"], "DENY");
    }
}

#[tokio::test]
async fn one_caller_asks_no_more_than_is_given_and_others_are_not_touched() {
    let world = crate::embedded().await;
    let rate = Rate { per_second: 1, burst: 5 };
    let router = Server::new(Options { rate, ..world.options() }).router();
    let ada = Person { router: router.clone(), token: Some(world.token("default", "ada", None).await) };
    let bob = Person { router, token: Some(world.token("default", "bob", None).await) };
    let mut last = ada.get("/api/v1/info").await;
    for _ in 0..20 {
        last = ada.get("/api/v1/info").await;
    }
    assert!(last.headers.contains_key("retry-after"));
    assert!(last.refused(429).contains("Try again"));
    assert_eq!(bob.get("/api/v1/info").await.code, 200);
}

#[tokio::test]
async fn tokens_cannot_be_guessed_fast_and_good_ones_still_work() {
    let world = crate::embedded().await;
    let router = Server::new(world.options()).router();
    let ada = Person { router: router.clone(), token: Some(world.token("default", "ada", None).await) };
    assert_eq!(ada.get("/api/v1/info").await.code, 200);
    let mut codes = Vec::new();
    for guess in 0..80 {
        let liar = Person { router: router.clone(), token: Some(format!("guess-{guess}")) };
        codes.push(liar.get("/api/v1/info").await.code.as_u16());
    }
    assert_eq!((codes.first(), codes.last()), (Some(&401), Some(&429)));
    // From the same address, but somebody we know.
    assert_eq!(ada.get("/api/v1/info").await.code, 200);
}

#[tokio::test]
async fn a_cookie_is_secure_when_the_browser_speaks_tls() {
    let world = crate::embedded().await;
    let token = world.token("default", "ada", None).await;
    let ada = Person { router: Server::new(world.options()).router(), token: Some(token) };
    for (headers, secure) in [(&[("x-forwarded-proto", "https")][..], true), (&[], false)] {
        let answer = ada.send("POST", "/login", headers, Body::empty()).await;
        let cookie = answer.headers["set-cookie"].to_str().unwrap();
        assert_eq!(cookie.contains("; Secure"), secure, "{cookie}");
    }
}

/// Behind a proxy, the audit log names whom the proxy heard; without one, nobody can pretend.
#[tokio::test]
async fn an_address_is_taken_from_a_proxy_only_when_there_is_one() {
    let world = crate::embedded().await;
    let folder = tempfile::tempdir().unwrap();
    let token = world.token("default", "ada", None).await;
    for (behind_proxy, from) in [(true, "192.0.2.7"), (false, "")] {
        let file = folder.path().join(behind_proxy.to_string());
        let options = Options { behind_proxy, audit: Audit::to(&file).unwrap(), ..world.options() };
        let ada = Person { router: Server::new(options).router(), token: Some(token.clone()) };
        let headers = [("x-forwarded-for", "203.0.113.1, 192.0.2.7")];
        ada.send("DELETE", "/api/v1/namespaces/red/tasks/nowhere", &headers, Body::empty()).await;
        let line: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(line["from"], from);
    }
}

#[tokio::test]
async fn passwords_cannot_be_guessed_fast() {
    let world = crate::embedded().await;
    let stranger = Person { router: Server::new(world.options()).router(), token: None };
    let mut codes = Vec::new();
    for _ in 0..80 {
        codes.push(stranger.get("/login?token=guess").await.code.as_u16());
    }
    assert_eq!(codes.first(), Some(&401));
    assert_eq!(codes.last(), Some(&429));
}

#[tokio::test]
async fn every_change_is_written_down_and_nothing_of_its_content() {
    let world = crate::embedded().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.log");
    let audit = Audit::to(&file).unwrap();
    let token = world.token("default", "ada", None).await;
    let ada = Person { router: Server::new(Options { audit, ..world.options() }).router(), token: Some(token.clone()) };
    let task = json!({"name": "a", "description": "a secret plan", "templateRef": {"name": "b"}});
    ada.post("/api/v1/namespaces/red/tasks", &task).await;
    ada.get("/api/v1/namespaces/red/tasks/a").await;
    ada.send("POST", "/api/v1/namespaces/red/tasks/a/stop", &[("user-agent", "a-test")], Body::empty()).await;
    ada.send("DELETE", "/api/v1/namespaces/red/tasks/nowhere", &[], Body::empty()).await;

    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("secret plan") && !text.contains(&token), "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> = lines
        .iter()
        .map(|line| {
            (line["method"].as_str().unwrap(), line["path"].as_str().unwrap(), line["status"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("POST", "/api/v1/namespaces/red/tasks", 201),
            ("POST", "/api/v1/namespaces/red/tasks/a/stop", 200),
            ("DELETE", "/api/v1/namespaces/red/tasks/nowhere", 404),
        ]
    );
    assert!(lines.iter().all(|line| line["user"] == "system:serviceaccount:default:ada" && line["time"].is_string()));
    assert_eq!(lines[1]["userAgent"], "a-test");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}
