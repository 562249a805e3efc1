//! An app of `FastAPI`, and documents in the older dialect.

use std::collections::BTreeMap;
use std::time::Duration;

use api::omnia::tools::{Access, OperationCall, ToolCard, ToolEntry};
use api::omnia::{HandlerType, Location};
use orrery_tools::openapi::{Source, operations};
use orrery_tools::{Client, Error, Found, Problem};
use serde_json::{Value, json};

use crate::servers;

const PATIENCE: Duration = Duration::from_secs(20);

fn entry(found: &Found) -> ToolEntry {
    ToolEntry {
        name: "shop".into(),
        type_: HandlerType::Openapi,
        registry: "desk".into(),
        endpoint: found.endpoint.clone(),
        tool: ToolCard {
            name: found.name.clone(),
            description: found.description.clone(),
            input_schema: found.input_schema.clone(),
            output_schema: None,
        },
        http_config: None,
        grpc_config: None,
        grpc_method: None,
        mcp_config: None,
        openapi_config: found.operation.clone().map(|operation| OperationCall { operation, access: Access::default() }),
        timeout: "20s".into(),
        retries: 0,
        audited_by: Vec::new(),
    }
}

#[tokio::test]
async fn a_fastapi_app_is_discovered_and_called() {
    let server = servers::python("shop.py");
    let url = format!("http://127.0.0.1:{}/openapi.json", server.port);
    let client = Client::new().unwrap();
    let found = client.operations(&Source { url, ..Source::default() }, PATIENCE).await.unwrap();
    let names: Vec<(&str, &str)> = found.iter().map(|tool| (tool.name.as_str(), tool.description.as_str())).collect();
    assert_eq!(
        names,
        [("read_pet_pets__pet_id__get", "Reads one pet."), ("write_pet_pets__pet_id__put", "Writes one pet.")]
    );
    assert!(found.iter().all(|tool| tool.problem.is_none()), "{found:?}");
    let (read, write) = (entry(&found[0]), entry(&found[1]));
    assert_eq!(read.tool.input_schema["required"], json!(["pet_id"]));

    let call = async |entry: &ToolEntry, arguments: Value| {
        let answer = client.call(entry, &arguments, &|_| None).await?;
        Ok::<Value, Error>(serde_json::from_str(&answer).unwrap())
    };
    let answer = call(&read, json!({ "pet_id": 7, "tags": ["a", "b"], "x-trace": "t" })).await;
    assert_eq!(answer.unwrap(), json!({ "id": 7, "tags": ["a", "b"], "trace": "t" }));
    let pet = json!({ "name": "Rex", "age": 3, "parent": { "name": "Ada", "age": null, "parent": null } });
    assert_eq!(call(&write, json!({ "pet_id": 7, "body": pet })).await.unwrap(), pet);
    assert!(matches!(call(&read, json!({ "pet_id": 404 })).await, Err(Error::Refused { status: 404, .. })));
    let unfit = call(&write, json!({ "pet_id": 7, "body": { "name": "Rex", "parent": { "age": 1 } } })).await;
    assert!(matches!(unfit, Err(Error::Arguments(_))), "the parent has no name: {unfit:?}");
}

const OLD: &str = "
openapi: 3.0.3
servers: [{ url: '/{version}', variables: { version: { default: v2 } } }]
paths:
  /notes/{id}:
    parameters: [{ name: id, in: path, required: true, schema: { type: string } }]
    get:
      operationId: note.read
      summary: Reads a note
      parameters: [{ $ref: '#/components/parameters/Lang' }]
    post:
      operationId: upload
      requestBody: { content: { image/png: {} } }
    delete: {}
components:
  parameters:
    Lang: { name: lang, in: query, explode: false, description: Which, schema: { type: array, items: { type: string, nullable: true } } }
";

fn read(text: &str, source: &Source) -> Result<Vec<Found>, Problem> {
    operations(text.as_bytes(), &source.url.parse().unwrap(), source)
}

fn at(url: &str) -> Source {
    Source { url: url.into(), ..Source::default() }
}

#[test]
fn an_old_document_in_yaml_is_understood() {
    let found = read(OLD, &at("http://a.test/doc/openapi.yaml")).unwrap();
    let by_name: BTreeMap<&str, &Found> = found.iter().map(|tool| (tool.name.as_str(), tool)).collect();
    let note = by_name["note_read"];
    assert_eq!((note.endpoint.as_str(), note.description.as_str()), ("http://a.test/v2", "Reads a note"));
    assert_eq!(note.remote_name.as_deref(), Some("note.read"));
    let parameters = &note.operation.as_ref().unwrap().parameters;
    assert_eq!(parameters.iter().map(|p| p.location).collect::<Vec<_>>(), [Location::Path, Location::Query]);
    assert_eq!(
        note.input_schema["properties"]["lang"],
        json!({ "type": "array", "items": { "type": ["string", "null"] }, "description": "Which" })
    );
    assert_eq!(by_name["upload"].problem.as_ref().unwrap().reason, "Unsupported");
    assert!(by_name["delete_notes_id"].problem.is_none());
}

#[test]
fn only_what_is_wanted_becomes_a_tool() {
    let source = Source { filter: vec!["note.read".into(), "gone".into()], ..at("http://a.test/") };
    let found = read(OLD, &source).unwrap();
    let reasons: Vec<_> =
        found.iter().map(|tool| (tool.name.as_str(), tool.problem.as_ref().map(|p| p.reason))).collect();
    assert_eq!(reasons, [("note_read", None), ("gone", Some("OperationNotFound"))]);
}

#[test]
fn calls_stay_where_the_handler_says() {
    let abroad = OLD.replace("'/{version}'", "'https://elsewhere.test/v2'");
    assert_eq!(read(&abroad, &at("http://a.test/doc")).unwrap_err().reason, "ForeignServer");
    let named = Source { base: Some("https://elsewhere.test/v3".into()), ..at("http://a.test/doc") };
    assert_eq!(read(&abroad, &named).unwrap()[0].endpoint, "https://elsewhere.test/v3");
    let service = Source { at_home: true, ..at("http://a.test:81/doc") };
    assert_eq!(read(&abroad, &service).unwrap()[0].endpoint, "http://a.test:81/v2");
}

#[test]
fn a_thousand_operations_are_read_and_more_refused() {
    let document = |count: usize| {
        let path = |n: usize| (format!("/things/{n}"), json!({ "get": { "operationId": format!("get_{n}") } }));
        let paths: serde_json::Map<String, Value> = (0..count).map(path).collect();
        json!({ "openapi": "3.1.0", "paths": paths }).to_string()
    };
    assert_eq!(read(&document(1000), &at("http://a.test/")).unwrap().len(), 1000);
    assert_eq!(read(&document(2001), &at("http://a.test/")).unwrap_err().reason, "TooManyTools");
}
