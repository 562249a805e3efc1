//! Sends a scenario to one server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http::Request;
use serde_json::json;

use crate::client::{Answer, Client};
use crate::normalise::Normaliser;
use crate::scenario::{Scenario, Step};

/// The normalised answers, one a step.
pub async fn scenario(scenario: &Scenario, client: &Client) -> Vec<Answer> {
    // Both servers see the same name, so that lengths and order agree.
    let namespace = format!("s-{}", scenario.name);
    let create = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let request = Request::post("/api/v1/namespaces").header("content-type", "application/json");
    let created = client.send(request.body(create.to_string().into_bytes()).unwrap()).await;
    assert_eq!(created.status, 201, "{created:?}");
    let mut known = BTreeMap::from([("ns".to_owned(), namespace)]);
    let mut normaliser = Normaliser::default();
    let mut answers = Vec::new();
    for step in &scenario.steps {
        let answer = send(step, client, &known).await;
        for (name, pointer) in &step.keep {
            // Nothing there is a difference that the comparison shows; what follows shows it too.
            let value = answer.body.pointer(pointer).cloned().unwrap_or_default();
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            known.insert(name.clone(), text);
        }
        answers.push(normaliser.answer(answer));
    }
    answers
}

async fn send(step: &Step, client: &Client, known: &BTreeMap<String, String>) -> Answer {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let answer = client.send(request(step, known)).await;
        let Some((pointer, wanted)) = &step.until else {
            return answer;
        };
        if answer.body.pointer(pointer) == Some(wanted) || Instant::now() > deadline {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn request(step: &Step, known: &BTreeMap<String, String>) -> Request<Vec<u8>> {
    let (method, target) = step.action.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(fill(target, known));
    let body = match (&step.body, &step.raw) {
        (Some(body), _) => Some(fill(&body.to_string(), known)),
        (None, raw) => raw.as_ref().map(|raw| fill(raw, known)),
    };
    if body.is_some() {
        request = request.header("content-type", step.media_type());
    }
    request = request.header("accept", step.accept.as_deref().unwrap_or("application/json"));
    request = request.header("user-agent", "differential/1.0");
    request.body(body.unwrap_or_default().into_bytes()).unwrap()
}

fn fill(text: &str, known: &BTreeMap<String, String>) -> String {
    known.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value))
}
