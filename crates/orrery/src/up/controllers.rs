//! The product's controllers, on this machine.

use std::io;
use std::sync::Arc;

use apiserver::pods::PodAccess;
use controllers::kubeopencode::session::{Dial, HttpSessions, Server, Stream};
use controllers::pod::Tools;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use tokio_util::sync::CancellationToken;

/// Runs them until `stop`.
pub async fn run(
    client: kube::Client,
    pods: Arc<dyn PodAccess>,
    mut options: controllers::Options,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // The agent's binary is on this machine already; a copy for each Pod would cost a second and 185 MB.
    options.policy.system.tools = Tools::Linked;
    let sessions = HttpSessions::new(Arc::new(Inside { client: client.clone(), pods }));
    controllers::start(client, engine::RealClock::shared(), &options, Arc::new(sessions), stop).await;
    Ok(())
}

/// Connects to Pods of this machine without a way through the API's front door.
struct Inside {
    client: kube::Client,
    pods: Arc<dyn PodAccess>,
}

impl Dial for Inside {
    fn dial<'a>(&'a self, server: &'a Server) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let api: kube::Api<Pod> = kube::Api::namespaced(self.client.clone(), &server.namespace);
            let pod = api.get(&server.pod).await.map_err(io::Error::other)?;
            let pod = serde_json::to_value(pod).map_err(io::Error::other)?;
            let stream = self.pods.port_forward(&pod, server.port).await;
            let stream = stream.map_err(|status| io::Error::other(status.message))?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}
