//! The server and the web UI, as a person feels them: `orrery server` in front of `orrery up`, measured by a real
//! Chromium and by Node (`ui/tests/measure.mjs`).

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use testkit::https::Connection;
use testkit::up::Up;

use crate::report::{Number, Row, Section, Target};
use crate::{Arguments, machine, process};

const TASKS: usize = 1000;
const MANY_TASKS: usize = 10_000;
const TASKS_OF_DEFAULT: &str = "/apis/kubeopencode.io/v1alpha1/namespaces/default/tasks";

/// Measures once: the browser takes its own medians.
pub fn run(arguments: &Arguments) -> Result<Section> {
    let beside = std::env::current_exe()?.with_file_name("orrery");
    let binary = arguments.orrery.clone().unwrap_or(beside);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // Taken away afterwards: what the plane left running for its Pods ends with its directory.
    let directory = tempfile::tempdir_in(&arguments.data)?;
    let rows = runtime.block_on(measure(&binary, directory.path()))?;
    let introduction = format!(
        "{}\n`orrery server` in front of `orrery up`, in Chromium on the same machine. Milliseconds from sending a change to the \
         frame that shows it; from asking for the page to rows that can be used.",
        machine::facts(&arguments.data)?
    );
    Ok(Section { title: "Server and web UI", introduction, rows })
}

async fn measure(binary: &Path, data: &Path) -> Result<Vec<Row>> {
    let up = Up::start(binary, data).await?;
    while !up.target.is_ready().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut plane = up.target.connect().await?;
    let token = populate(&mut plane).await?;
    let (server, address) = Server::start(binary, &data.join("kubeconfig"))?;
    let few = browse(&address, &token, "everything")?;
    let memory = process::resident(&[server.0.id()])?;
    create_tasks(&mut plane, TASKS..MANY_TASKS).await?;
    let many = browse(&address, &token, "page")?;
    let many_memory = process::resident(&[server.0.id()])?;

    let time = |value: &Value| Number::Time(Duration::from_secs_f64(value.as_f64().unwrap_or_default() / 1000.0));
    let at_most = |milliseconds| Some(Target::AtMost(Number::Time(Duration::from_millis(milliseconds))));
    let row = |name, orrery, target| Row { name, orrery, kubernetes: None, target };
    Ok(vec![
        row(
            "First load, compressed",
            Number::Size(few["load"]["bytes"].as_u64().unwrap_or_default()),
            Some(Target::AtMost(Number::Size(300_000))),
        ),
        row("First load to rows that can be used, 1,000 Tasks", time(&few["load"]["milliseconds"]), at_most(1000)),
        row("Change sent → frame that shows it, p50", time(&few["pixel"]["p50"]), None),
        row("… p95", time(&few["pixel"]["p95"]), at_most(200)),
        row("REST list of 1,000 Tasks, p50", time(&few["list"]["p50"]), None),
        row("… p99", time(&few["list"]["p99"]), at_most(20)),
        row("500 streams: change sent → every stream has it, p95", time(&few["stream"]["p95"]), None),
        row(
            "Resident memory of the server after all of this",
            Number::Size(memory),
            Some(Target::AtMost(Number::Size(60_000_000))),
        ),
        row("First load to rows that can be used, 10,000 Tasks", time(&many["load"]["milliseconds"]), None),
        row("A letter in the filter → frame, 10,000 Tasks, slowest", time(&many["pixel"]["filtering"]), at_most(100)),
        row("Resident memory of the server, 10,000 Tasks", Number::Size(many_memory), None),
    ])
}

/// An Agent that lets Tasks wait, the Tasks, and somebody who may see them.
async fn populate(plane: &mut Connection) -> Result<String> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "measurer"}});
    create(plane, "/api/v1/namespaces/kube-system/serviceaccounts", &account).await?;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "measurer"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "measurer", "namespace": "kube-system"}],
    });
    create(plane, &format!("/apis/{group}/v1/clusterrolebindings"), &binding).await?;
    let agent = json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent", "metadata": {"name": "idle"},
        "spec": {"workspaceDir": "/workspace", "serviceAccountName": "default", "suspend": true},
    });
    create(plane, "/apis/kubeopencode.io/v1alpha1/namespaces/default/agents", &agent).await?;
    create_tasks(plane, 0..TASKS).await?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let path = "/api/v1/namespaces/kube-system/serviceaccounts/measurer/token";
    let (status, body) = plane.send("POST".parse()?, path, Bytes::from(request.to_string())).await?;
    ensure!(status.is_success(), "POST {path}: {status}");
    let answer: Value = serde_json::from_slice(&body)?;
    Ok(answer["status"]["token"].as_str().context("no token")?.to_owned())
}

async fn create_tasks(plane: &mut Connection, range: std::ops::Range<usize>) -> Result<()> {
    for index in range {
        let task = json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": format!("task-{index}")},
            "spec": {"description": "Update the dependencies, run the tests, describe what changed.", "agentRef": {"name": "idle"}},
        });
        create(plane, TASKS_OF_DEFAULT, &task).await?;
    }
    Ok(())
}

async fn create(plane: &mut Connection, path: &str, object: &Value) -> Result<()> {
    plane.create(path, Bytes::from(object.to_string())).await
}

/// A running `orrery server`; dropping it ends it.
struct Server(Child);

impl Server {
    fn start(binary: &Path, kubeconfig: &Path) -> Result<(Self, String)> {
        let mut child = Command::new(binary)
            .args(["server", "--server-port", "0", "--rate-limit", "100000", "--kubeconfig"])
            .arg(kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let said = child.stderr.take().context("stderr is piped")?;
        let server = Self(child);
        for line in BufReader::new(said).lines() {
            if let Some((_, rest)) = line?.split_once("http://") {
                let address = rest.split(' ').next().context("an address")?;
                return Ok((server, format!("http://{address}")));
            }
        }
        anyhow::bail!("orrery server ended without saying where it is")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; there is nobody to tell.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn browse(address: &str, token: &str, what: &str) -> Result<Value> {
    let ui: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "ui"].iter().collect();
    let output = Command::new("node").current_dir(ui).args(["tests/measure.mjs", address, token, what]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}
