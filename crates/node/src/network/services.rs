//! Services: a listener on each address and port, balanced over ready endpoints.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use parking_lot::RwLock;
use tokio::net::TcpStream;
use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;

use super::Network;

/// What a Pod that is gone had sent is passed on for so long.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A Service or the ready endpoints behind one: namespace and name.
type Name = (String, String);

/// What is known about Services.
#[derive(Default)]
pub(super) struct Table {
    services: RwLock<BTreeMap<Name, Known>>,
    slices: RwLock<BTreeMap<Name, Slice>>,
    turn: AtomicUsize,
}

#[derive(Clone, Default)]
struct Known {
    address: Option<Ipv4Addr>,
    /// Port by name.
    ports: Vec<(String, u16)>,
}

#[derive(Clone, Default)]
struct Slice {
    service: Name,
    /// Ready addresses with their host names.
    addresses: Vec<(Ipv4Addr, Option<String>)>,
    ports: Vec<(String, u16)>,
}

impl Table {
    /// Addresses of a Service's name: its own, or those of its Pods when it has none. None when there is no such Service.
    pub(super) fn addresses(&self, namespace: &str, name: &str) -> Option<Vec<Ipv4Addr>> {
        let key = (namespace.to_owned(), name.to_owned());
        let known = self.services.read().get(&key).cloned()?;
        Some(known.address.map_or_else(|| self.pods(&key, None), |address| vec![address]))
    }

    /// Addresses of one Pod behind a Service, by its host name.
    pub(super) fn pod_addresses(&self, namespace: &str, service: &str, hostname: &str) -> Vec<Ipv4Addr> {
        self.pods(&(namespace.to_owned(), service.to_owned()), Some(hostname))
    }

    fn pods(&self, service: &Name, hostname: Option<&str>) -> Vec<Ipv4Addr> {
        let slices = self.slices.read();
        let endpoints = slices.values().filter(|slice| slice.service == *service).flat_map(|slice| &slice.addresses);
        let wanted = endpoints.filter(|(_, name)| hostname.is_none_or(|wanted| name.as_deref() == Some(wanted)));
        wanted.map(|(address, _)| *address).collect()
    }

    /// The next endpoint for a port of a Service.
    fn pick(&self, service: &Name, port: &str) -> Option<SocketAddr> {
        let slices = self.slices.read();
        let mut endpoints = Vec::new();
        for slice in slices.values().filter(|slice| slice.service == *service) {
            let target = slice.ports.iter().find(|(name, _)| name == port).map(|(_, number)| *number);
            endpoints.extend(slice.addresses.iter().filter_map(|(address, _)| Some((*address, target?))));
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        endpoints.get(turn.checked_rem(endpoints.len())?).map(|endpoint| SocketAddr::from(*endpoint))
    }
}

/// Follows Services and their endpoints, and listens for each.
pub(super) async fn serve(network: Arc<Network>, client: kube::Client) {
    let services: Api<Service> = Api::all(client.clone());
    let slices: Api<EndpointSlice> = Api::all(client);
    let mut services = watcher(services, watcher::Config::default()).boxed();
    let mut slices = watcher(slices, watcher::Config::default()).boxed();
    let mut listeners = HashMap::new();
    loop {
        tokio::select! {
            event = services.next() => match event {
                Some(Ok(event)) => {
                    apply(&network.table.services, event, known);
                    listen(&network, &mut listeners);
                }
                Some(Err(error)) => pause("Services", &error).await,
                None => return,
            },
            event = slices.next() => match event {
                Some(Ok(event)) => apply(&network.table.slices, event, slice),
                Some(Err(error)) => pause("EndpointSlices", &error).await,
                None => return,
            },
        }
    }
}

async fn pause(what: &str, error: &watcher::Error) {
    tracing::warn!(%error, "the watch on {what} was interrupted");
    tokio::time::sleep(Duration::from_millis(500)).await;
}

fn apply<K: kube::Resource, V>(map: &RwLock<BTreeMap<Name, V>>, event: watcher::Event<K>, read: fn(&K) -> V) {
    let name = |object: &K| (object.namespace().unwrap_or_default(), object.name_any());
    let mut map = map.write();
    match event {
        watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
            map.insert(name(&object), read(&object));
        }
        watcher::Event::Delete(object) => {
            map.remove(&name(&object));
        }
        watcher::Event::Init => map.clear(),
        watcher::Event::InitDone => {}
    }
}

fn known(service: &Service) -> Known {
    let spec = service.spec.clone().unwrap_or_default();
    let port = |number: i32| u16::try_from(number).ok();
    let is_tcp = |protocol: &Option<String>| protocol.as_deref().unwrap_or("TCP") == "TCP";
    let ports = spec.ports.unwrap_or_default().into_iter().filter(|declared| is_tcp(&declared.protocol));
    Known {
        address: spec.cluster_ip.and_then(|address| address.parse().ok()),
        ports: ports.filter_map(|declared| Some((declared.name.unwrap_or_default(), port(declared.port)?))).collect(),
    }
}

fn slice(slice: &EndpointSlice) -> Slice {
    let service = slice.labels().get("kubernetes.io/service-name").cloned().unwrap_or_default();
    let ready = slice
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true));
    let mut addresses = Vec::new();
    for endpoint in ready {
        let parsed = endpoint.addresses.iter().filter_map(|address| address.parse().ok());
        addresses.extend(parsed.map(|address: Ipv4Addr| (address, endpoint.hostname.clone())));
    }
    let ports = slice.ports.iter().flatten();
    let ports = ports.filter_map(|port| Some((port.name.clone().unwrap_or_default(), u16::try_from(port.port?).ok()?)));
    Slice { service: (slice.namespace().unwrap_or_default(), service), addresses, ports: ports.collect() }
}

type Listeners = HashMap<(Name, String, Ipv4Addr, u16), AbortOnDropHandle<()>>;

/// Opens and closes listeners so that there is one for each address and port of a Service.
fn listen(network: &Arc<Network>, listeners: &mut Listeners) {
    let mut wanted = Vec::new();
    for (name, known) in network.table.services.read().iter() {
        let Some(address) = known.address else { continue };
        wanted.extend(known.ports.iter().map(|(port, number)| (name.clone(), port.clone(), address, *number)));
    }
    listeners.retain(|key, _| wanted.contains(key));
    for key in wanted {
        listeners
            .entry(key.clone())
            .or_insert_with(|| AbortOnDropHandle::new(tokio::spawn(accept_for_ever(network.clone(), key))));
    }
}

async fn accept_for_ever(network: Arc<Network>, (service, port, address, number): (Name, String, Ipv4Addr, u16)) {
    loop {
        if let Err(error) = accept(&network, &service, &port, SocketAddr::from((address, number))).await {
            tracing::warn!(%error, service = service.1, "a Service's listener failed; it is opened again");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn accept(network: &Arc<Network>, service: &Name, port: &str, address: SocketAddr) -> std::io::Result<()> {
    let socket = network.tcp_socket().await?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(1024)?;
    loop {
        let (inbound, _) = listener.accept().await?;
        let (network, service, port) = (network.clone(), service.clone(), port.to_owned());
        let gone = network.gone.subscribe();
        tokio::spawn(async move {
            match connect(&network, &service, &port).await {
                Ok(outbound) => {
                    let _ = inbound.set_nodelay(true);
                    let _ = outbound.set_nodelay(true);
                    carry(inbound, outbound, gone).await;
                }
                // No endpoint is ready: refused, not hung up on.
                Err(_) => {
                    let _ = inbound.set_zero_linger();
                }
            }
        });
    }
}

/// Carries bytes until both sides have said their last, or one of them is gone without a word: a Pod's network may end
/// before its last packet has left.
async fn carry(mut inbound: TcpStream, mut outbound: TcpStream, mut gone: broadcast::Receiver<Ipv4Addr>) {
    let ends = [inbound.peer_addr(), outbound.peer_addr()].map(|end| end.ok().map(|end| end.ip()));
    let mut copying = std::pin::pin!(tokio::io::copy_bidirectional(&mut inbound, &mut outbound));
    loop {
        tokio::select! {
            _ = &mut copying => return,
            address = gone.recv() => match address {
                Ok(address) if ends.contains(&Some(address.into())) => break,
                // Missed the news: a connection that is silent is asked, later.
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => break,
            },
        }
    }
    // What had arrived is still passed on.
    let _ = tokio::time::timeout(LAST_WORDS, copying).await;
}

async fn connect(network: &Network, service: &Name, port: &str) -> std::io::Result<TcpStream> {
    if *service == ("default".to_owned(), "kubernetes".to_owned()) {
        return TcpStream::connect(network.api).await;
    }
    let endpoint = network.table.pick(service, port);
    let endpoint = endpoint.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::ConnectionRefused))?;
    let socket = network.tcp_socket().await?;
    let connecting = socket.connect(endpoint);
    tokio::time::timeout(Duration::from_secs(10), connecting).await?
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let connecting = TcpStream::connect(listener.local_addr().expect("an address"));
        let (near, far) = tokio::join!(connecting, listener.accept());
        (near.expect("connected"), far.expect("accepted").0)
    }

    #[tokio::test]
    async fn a_pod_that_is_gone_without_a_word_is_hung_up_on() {
        let ((mut pod, inbound), (outbound, mut server)) = (pair().await, pair().await);
        let gone = broadcast::Sender::new(4);
        let carrying = tokio::spawn(carry(inbound, outbound, gone.subscribe()));
        gone.send("10.88.0.9".parse().expect("an address")).expect("it listens");
        pod.write_all(b"last words").await.expect("carried");
        gone.send(Ipv4Addr::LOCALHOST).expect("it listens still: that was somebody else");
        let mut heard = String::new();
        // Ends, although the Pod's side is open.
        server.read_to_string(&mut heard).await.expect("an end");
        assert_eq!(heard, "last words");
        carrying.await.expect("no panic");
    }
}
