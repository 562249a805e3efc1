//! A plane with a node that only says what Pods do, so that thousands of Tasks can be looked at without running them.
//!
//! The plane's own node takes no Pods. A second Node object takes all of them, and this program is its kubelet: it sets the
//! phases of Pods through the API, as KWOK does. Everything else is the real thing.

mod limit;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::https::{Connection, Lines};
use testkit::up::Up;

pub use limit::Limit;

/// Where the kinds of the dialect are.
pub const GROUP: &str = "/apis/kubeopencode.io/v1alpha1";
/// Connections that create things at once.
pub const CLIENTS: usize = 16;
/// Nothing here takes longer than this.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// The plane.
pub struct Stage {
    /// To it.
    pub connection: Connection,
    orrery: PathBuf,
    place: PathBuf,
    up: Option<Up>,
    _directory: tempfile::TempDir,
}

impl Stage {
    /// Starts one; `flags` are those of `orrery up`.
    pub async fn start(orrery: &Path, data: &Path, flags: &[&str]) -> Result<Self> {
        let directory = tempfile::tempdir_in(data)?;
        let place = directory.path().canonicalize()?;
        let flags: Vec<&str> = ["--max-pods", "0"].into_iter().chain(flags.iter().copied()).collect();
        let up = Up::start_with(orrery, &place, &flags).await?;
        while !up.target.is_ready().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let connection = up.target.connect().await?;
        let mut stage = Self { connection, orrery: orrery.to_owned(), place, up: Some(up), _directory: directory };
        stage.add_node().await?;
        Ok(stage)
    }

    async fn add_node(&mut self) -> Result<()> {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "stage" } });
        self.connection.create("/api/v1/nodes", node.to_string().into()).await?;
        let room = json!({ "cpu": "100000", "memory": "100000Gi", "pods": "100000", "ephemeral-storage": "100000Gi" });
        let ready = json!([{ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "" }]);
        let status = json!({ "status": { "capacity": room, "allocatable": room, "conditions": ready } });
        self.connection.merge("/api/v1/nodes/stage/status", status.to_string().into()).await
    }

    /// A template; `extra` goes into its spec.
    pub async fn template(&mut self, namespace: &str, name: &str, extra: Value) -> Result<()> {
        let mut spec = json!({ "workspaceDir": "/workspace", "serviceAccountName": "default" });
        for (field, value) in extra.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        let body = json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "AgentTemplate",
            "metadata": { "name": name }, "spec": spec });
        self.connection.create(&format!("{GROUP}/namespaces/{namespace}/agenttemplates"), body.to_string().into()).await
    }

    /// Follows what happens from now on at a path.
    pub async fn follow(&mut self, path: &str) -> Result<Followed> {
        let list: Value = serde_json::from_slice(&self.connection.get(&format!("{path}?limit=1")).await?)?;
        let version = list["metadata"]["resourceVersion"].as_str().context("a list without resourceVersion")?;
        let path = format!("{path}?watch=1&resourceVersion={version}");
        Ok(Followed(self.connection.again().await?.watch(&path).await?))
    }

    /// Creates many objects at once.
    pub async fn create_all(&self, objects: Vec<(String, String)>) -> Result<()> {
        let mut tasks = tokio::task::JoinSet::new();
        let mut shares: Vec<Vec<(String, String)>> = vec![Vec::new(); CLIENTS];
        for (index, object) in objects.into_iter().enumerate() {
            shares[index % CLIENTS].push(object);
        }
        for share in shares {
            let mut connection = self.connection.again().await?;
            tasks.spawn(async move {
                for (path, body) in share {
                    connection.create(&path, body.into()).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }

    /// What the kubelet says when a Pod's containers have all ended well.
    pub async fn succeed(&mut self, namespace: &str, pod: &str) -> Result<()> {
        succeed(&mut self.connection, namespace, pod).await
    }

    /// Starts `orrery controller` as a process of its own, within a limit if there is one.
    pub async fn controller(&self, limit: Option<&Limit>) -> Result<Controllers> {
        let log = self.place.join("controller.log");
        let kubeconfig = self.place.join("kubeconfig");
        let mut command = Command::new("sh");
        // Into its group before it is what it will be: everything it ever has counts.
        let enter = limit.map_or_else(|| ":".to_owned(), |limit| format!("echo $$ > '{}'", limit.members().display()));
        command.arg("-c").arg(format!("{enter}; exec \"$@\"")).arg("sh").arg(&self.orrery);
        command.args(["controller", "--embedded", "--metrics-address", "127.0.0.1:0", "--kubeconfig"]).arg(kubeconfig);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&log)?);
        let mut controllers = Controllers { process: command.spawn()?, metrics: String::new(), log };
        controllers.metrics = controllers.listening().await?;
        Ok(controllers)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // No Pod has run here, but there is a network for them, which outlives the plane.
        drop(self.up.take());
        let _ = Command::new(&self.orrery).arg("down").arg("--data-dir").arg(&self.place).output();
    }
}

/// What the kubelet says when a Pod's containers have all ended well.
pub async fn succeed(connection: &mut Connection, namespace: &str, pod: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/status");
    connection.merge(&path, json!({ "status": { "phase": "Succeeded" } }).to_string().into()).await
}

/// A Task of a template: where to create it, and what.
pub fn task(namespace: &str, name: &str, template: &str) -> (String, String) {
    let body = json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": { "name": name },
        "spec": { "templateRef": { "name": template },
            "description": "Update the dependencies to their latest versions, run the tests, and say what was changed." } });
    (format!("{GROUP}/namespaces/{namespace}/tasks"), body.to_string())
}

/// News of a kind.
pub struct Followed(Lines);

/// What is looked at of it.
#[derive(Deserialize)]
pub struct News {
    /// `ADDED`, `MODIFIED`, `DELETED`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The object.
    pub object: Object,
}

/// An object, as far as it matters here.
#[derive(Deserialize)]
pub struct Object {
    /// Who it is.
    pub metadata: Metadata,
    #[serde(default)]
    status: Status,
}

/// Who an object is.
#[derive(Deserialize)]
pub struct Metadata {
    /// Its name.
    pub name: String,
    /// Where it is.
    #[serde(default)]
    pub namespace: String,
    /// How often what is wanted of it changed.
    #[serde(default)]
    pub generation: i64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    next_schedule_time: Option<String>,
}

impl Object {
    /// Its phase.
    pub fn phase(&self) -> &str {
        self.status.phase.as_deref().unwrap_or_default()
    }

    /// Whether it says when it comes next.
    pub fn is_scheduled(&self) -> bool {
        self.status.next_schedule_time.is_some()
    }
}

impl Followed {
    /// What happens next.
    pub async fn next(&mut self) -> Result<News> {
        let line = tokio::time::timeout(PATIENCE, self.0.next()).await.context("nothing happens any more")??;
        serde_json::from_slice(&line).with_context(|| String::from_utf8_lossy(&line).into_owned())
    }

    /// The next that is new.
    pub async fn added(&mut self) -> Result<Object> {
        loop {
            let news = self.next().await?;
            if news.kind == "ADDED" {
                return Ok(news.object);
            }
        }
    }
}

/// `orrery controller`. Ended when dropped.
pub struct Controllers {
    process: Child,
    metrics: String,
    log: PathBuf,
}

impl Controllers {
    /// Its process id.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// Whether it still runs; what it said when it does not.
    pub fn check(&mut self) -> Result<()> {
        let ended = self.process.try_wait()?;
        ensure!(ended.is_none(), "orrery controller ended: {ended:?} {}", std::fs::read_to_string(&self.log)?);
        Ok(())
    }

    async fn listening(&mut self) -> Result<String> {
        let begin = std::time::Instant::now();
        loop {
            let said = std::fs::read_to_string(&self.log)?;
            if said.contains("controllers run against")
                && let Some((_, rest)) = said.split_once("metrics on http://")
                && let Some((address, _)) = rest.split_once('/')
            {
                return Ok(address.to_owned());
            }
            self.check()?;
            ensure!(begin.elapsed() < Duration::from_mins(1), "orrery controller does not start: {said}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Requests that changed something, Events not among them.
    pub async fn writes(&self) -> Result<u64> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(&self.metrics).await?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let lines = text.lines().filter(|line| line.starts_with("orrery_controller_writes_total"));
        lines.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<u64>()?)).sum()
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
