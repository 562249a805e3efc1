//! The MCP server from npm that has everything, over each transport.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Duration;

use api::omnia::tools::ToolEntry;
use api::omnia::{HandlerType, McpTransport};
use orrery_tools::mcp::{Program, Source};
use orrery_tools::{Caller, Client, Error, Found};
use rstest::rstest;
use serde_json::{Value, json};

use crate::servers;

const PATIENCE: Duration = Duration::from_secs(30);

fn program() -> Program {
    Program { command: "node".into(), arguments: vec![servers::everything(), "stdio".into()], ..Program::default() }
}

fn entry(found: &Found, transport: McpTransport) -> ToolEntry {
    let tool = json!({ "name": found.name, "description": found.description, "inputSchema": found.input_schema });
    let program = program();
    let entry = json!({ "name": "everything", "type": HandlerType::Mcp, "registry": "desk", "endpoint": found.endpoint, "tool": tool,
        "mcpConfig": { "transport": transport, "tool": found.remote_name, "command": program.command, "args": program.arguments },
        "timeout": "30s" });
    serde_json::from_value(entry).unwrap()
}

#[rstest]
#[case::streamable_http(McpTransport::StreamableHttp)]
#[case::sse(McpTransport::Sse)]
#[case::stdio(McpTransport::Stdio)]
#[tokio::test]
async fn a_server_from_npm_is_discovered_and_called(#[case] transport: McpTransport) {
    let (mode, path) = if transport == McpTransport::Sse { ("sse", "/sse") } else { ("streamableHttp", "/mcp") };
    let server = (transport != McpTransport::Stdio).then(|| servers::everything_over(mode));
    let url = format!("http://127.0.0.1:{}{path}", server.as_ref().map_or(0, |server| server.port));
    let caller = Caller::default();
    let source = match transport {
        McpTransport::StreamableHttp => Source::Http { url, caller },
        McpTransport::Sse => Source::Sse { url, caller },
        McpTransport::Stdio => Source::Stdio(program()),
    };
    let client = Client::new().unwrap();
    let found = client.mcp_tools(&source, PATIENCE).await.unwrap();
    assert!(found.iter().all(|tool| tool.problem.is_none()), "{found:?}");
    let tool = |name: &str| found.iter().find(|tool| tool.name == name).unwrap_or_else(|| panic!("{name}: {found:?}"));
    assert_eq!(tool("get_sum").remote_name.as_deref(), Some("get-sum"));
    assert!(!tool("echo").description.is_empty());
    let call = async |name: &str, arguments: Value| {
        let entry = entry(tool(name), transport);
        client.call(&entry, &arguments, &|_| None).await
    };
    assert_eq!(call("echo", json!({ "message": "knock knock" })).await.unwrap(), "Echo: knock knock");
    assert!(call("get_sum", json!({ "a": 2, "b": 40 })).await.unwrap().contains("42"));
    assert!(matches!(call("get_sum", json!({ "a": "two", "b": 40 })).await, Err(Error::Arguments(_))));
}

#[tokio::test]
async fn a_program_sees_no_secrets_of_its_surroundings() {
    let client = Client::new().unwrap();
    let found = client.mcp_tools(&Source::Stdio(program()), PATIENCE).await.unwrap();
    let mut entry = entry(found.iter().find(|tool| tool.name == "get_env").unwrap(), McpTransport::Stdio);
    entry.mcp_config.as_mut().unwrap().env = BTreeMap::from([("MINE".to_owned(), "yes".to_owned())]);
    let answer = client.call(&entry, &json!({}), &|_| None).await.unwrap();
    assert!(answer.contains("MINE") && !answer.contains("CARGO_MANIFEST_DIR"), "{answer}");
}

#[rstest]
#[case::ends("exit 3", "Unreachable")]
#[case::silent("exec sleep 1000", "Timeout")]
#[case::chatty("exec yes x", "InvalidAnswer")]
#[case::endless("exec tr '\\0' ' ' < /dev/zero", "TooLarge")]
#[case::missing("", "Unreachable")]
#[tokio::test]
async fn programs_that_are_no_servers(#[case] script: &str, #[case] reason: &str) {
    let command = if script.is_empty() { "no-such-program" } else { "sh" };
    let program =
        Program { command: command.into(), arguments: vec!["-c".into(), script.into()], ..Program::default() };
    let patience = if reason == "Timeout" { Duration::from_millis(200) } else { PATIENCE };
    let problem = Client::new().unwrap().mcp_tools(&Source::Stdio(program), patience).await.unwrap_err();
    assert_eq!(problem.reason, reason, "{problem:?}");
}

#[tokio::test]
async fn nobody_listens() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let source = Source::Http { url: format!("http://127.0.0.1:{port}/mcp"), caller: Caller::default() };
    assert_eq!(Client::new().unwrap().mcp_tools(&source, PATIENCE).await.unwrap_err().reason, "Unreachable");
}
