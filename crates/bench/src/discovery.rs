//! Tools from a server: how long it takes until a registry lists what one OpenAPI document describes.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::report::{Number, Row, Section, Target};
use crate::stage::{PATIENCE, Stage};
use crate::{Arguments, machine};

const TOOLS: usize = 1000;
const REGISTRIES: &str = "/apis/omnia.altairalabs.ai/v1alpha1/namespaces/default/toolregistries";

/// What a row is called and what we want of it, in the order of [`measure`].
const ROWS: &[(&str, Option<Target>)] = &[(
    "1,000 tools of one OpenAPI document: from the registry's creation until its status lists them",
    Some(Target::AtMost(Number::Time(Duration::from_secs(1)))),
)];

/// Measures and takes the medians of the rounds.
pub fn run(arguments: &Arguments) -> Result<Section> {
    let orrery = arguments.orrery()?;
    let facts = machine::facts(&arguments.data)?;
    let rounds = arguments.rounds(|| measure(&orrery, &arguments.data))?;
    let now = Timestamp::now().strftime("%F");
    let introduction = format!(
        "`make bench`, {now}. {facts}\n\nOne `orrery up`, {} rounds, medians. The document is served by this program; each of \
         its operations has four parameters and a body whose schema refers to others.",
        arguments.rounds
    );
    Ok(Section { title: "Tool discovery", introduction, rows: Row::of(ROWS, &rounds)? })
}

async fn measure(orrery: &Path, data: &Path) -> Result<Vec<Number>> {
    let mut stage = Stage::start(orrery, data, &[]).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/openapi.json", listener.local_addr()?);
    let server = tokio::spawn(serve(listener, document()));
    let registry = json!({ "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "ToolRegistry", "metadata": { "name": "shop" },
        "spec": { "handlers": [{ "name": "shop", "type": "openapi", "openAPIConfig": { "specURL": url } }] } });
    let begin = Instant::now();
    stage.connection.create(REGISTRIES, registry.to_string().into()).await?;
    let took = loop {
        let found: Value = serde_json::from_slice(&stage.connection.get(&format!("{REGISTRIES}/shop")).await?)?;
        if found["status"]["discoveredToolsCount"] == TOOLS {
            ensure!(
                found["status"]["phase"] == "Ready",
                "not all tools are available: {}",
                found["status"]["conditions"]
            );
            break begin.elapsed();
        }
        ensure!(begin.elapsed() < PATIENCE, "the tools were not found: {}", found["status"]);
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    server.abort();
    Ok(vec![Number::Time(took)])
}

fn document() -> String {
    let parameter = |name: &str, place: &str| json!({ "name": name, "in": place, "required": place == "path", "description": "One of many.", "schema": { "type": "string" } });
    let operation = |number: usize| {
        let reference = json!({ "$ref": format!("#/components/schemas/Thing{}", number % 50) });
        let operation = json!({ "operationId": format!("change_thing_{number}"), "summary": "Changes a thing.",
            "parameters": [parameter("id", "path"), parameter("filter", "query"), parameter("page", "query"), parameter("X-Trace", "header")],
            "requestBody": { "required": true, "content": { "application/json": { "schema": reference } } } });
        (format!("/things/{number}/{{id}}"), json!({ "post": operation }))
    };
    let schema = |number: usize| {
        let fields: Map<String, Value> =
            (0..8).map(|n| (format!("field{n}"), json!({ "type": ["string", "null"], "maxLength": 100 }))).collect();
        let mut thing = json!({ "type": "object", "properties": fields, "required": ["field0"] });
        thing["properties"]["next"] =
            json!({ "$ref": format!("#/components/schemas/Thing{}", (number + 1) % 50 / 5 * 5) });
        (format!("Thing{number}"), thing)
    };
    let paths: Map<String, Value> = (0..TOOLS).map(operation).collect();
    let schemas: Map<String, Value> = (0..50).map(schema).collect();
    json!({ "openapi": "3.1.0", "info": { "title": "Things", "version": "1" }, "paths": paths, "components": { "schemas": schemas } }).to_string()
}

/// The smallest server there is: whatever is asked, this is the answer.
async fn serve(listener: TcpListener, body: String) -> Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).await? == 0 {
                break;
            }
            asked.extend(byte);
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        stream.shutdown().await?;
    }
}
