//! The product's controllers, on this machine.

use std::io;
use std::sync::Arc;

use apiserver::pods::PodAccess;
use controllers::ask::{Dial, Dialled, Server, Stream};
use controllers::kubeopencode::session::HttpSessions;
use controllers::omnia::tool_registry::discover::Asker;
use controllers::pod::{Linked, Tools};
use engine::Engine;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use node::images::Images;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

/// The controllers, ready to run.
pub struct Controllers {
    engine: Engine,
}

impl Controllers {
    /// Puts them together.
    pub fn new(
        client: kube::Client,
        pods: Arc<dyn PodAccess>,
        mut options: controllers::Options,
        images: Images,
    ) -> Self {
        // The agent's binary is on this machine already; a copy for each Pod would cost a second and 185 MB.
        options.policy.system.tools = Tools::Linked;
        options.policy.system.linked_images = Linked(Arc::new(move |image| images.are_own_files(image)));
        // So that a pack runs here without an image from elsewhere.
        options.omnia.own_image = Some("host".into());
        options.omnia.router_image = Some("host".into());
        let inside: Arc<dyn Dial> = Arc::new(Inside { client: client.clone(), pods });
        options.omnia.ask = Arc::new(Dialled(Arc::clone(&inside)));
        options.omnia.discover = Arc::new(Asker::new(Some(Arc::clone(&inside))));
        let sessions = HttpSessions::new(inside);
        let engine = Engine::new(client, engine::RealClock::shared(), options.engine.clone());
        Self { engine: controllers::install(engine, &options, Arc::new(sessions)) }
    }

    /// Their numbers, for a scrape.
    pub fn register(&self, registry: &mut Registry) {
        self.engine.metrics().register(registry);
    }

    /// Runs them until `stop`. One plane, one process: no election.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        self.engine.run(None, stop).await;
        Ok(())
    }
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
