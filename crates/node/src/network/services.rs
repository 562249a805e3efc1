//! Services: a listener on each address and port, balanced over ready endpoints.

use std::collections::{BTreeMap, HashMap, HashSet};
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

    /// Where to listen: on each address and port of a Service that somebody answers for. With nobody there a client must be
    /// refused before it has said anything, for only then it may safely try again.
    fn places(&self) -> HashSet<Place> {
        let slices = self.slices.read();
        let mut answered: HashSet<(&Name, &str)> = HashSet::new();
        for slice in slices.values().filter(|slice| !slice.addresses.is_empty()) {
            answered.extend(slice.ports.iter().map(|(port, _)| (&slice.service, port.as_str())));
        }
        let mut places = HashSet::new();
        for (name, known) in self.services.read().iter() {
            let Some(address) = known.address else { continue };
            let ports = known.ports.iter().filter(|(port, _)| is_api(name) || answered.contains(&(name, port)));
            places.extend(ports.map(|(port, number)| (name.clone(), port.clone(), address, *number)));
        }
        places
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
    let (mut listed_services, mut listed_slices) = (BTreeMap::new(), BTreeMap::new());
    let mut listeners = HashMap::new();
    loop {
        tokio::select! {
            event = services.next() => match event {
                Some(Ok(event)) => {
                    apply(&network.table.services, &mut listed_services, event, known);
                    listen(&network, &mut listeners);
                }
                Some(Err(error)) => pause("Services", &error).await,
                None => return,
            },
            event = slices.next() => match event {
                Some(Ok(event)) => {
                    apply(&network.table.slices, &mut listed_slices, event, slice);
                    listen(&network, &mut listeners);
                }
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

/// Follows a watch. What is listed again takes the old list's place when it is whole: until then nothing is missing.
fn apply<K: kube::Resource, V>(
    map: &RwLock<BTreeMap<Name, V>>,
    listed: &mut BTreeMap<Name, V>,
    event: watcher::Event<K>,
    read: fn(&K) -> V,
) {
    let name = |object: &K| (object.namespace().unwrap_or_default(), object.name_any());
    match event {
        watcher::Event::Apply(object) => {
            map.write().insert(name(&object), read(&object));
        }
        watcher::Event::Delete(object) => {
            map.write().remove(&name(&object));
        }
        watcher::Event::Init => listed.clear(),
        watcher::Event::InitApply(object) => {
            listed.insert(name(&object), read(&object));
        }
        watcher::Event::InitDone => *map.write() = std::mem::take(listed),
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

/// A Service, the name of its port, and where that is.
type Place = (Name, String, Ipv4Addr, u16);
type Listeners = HashMap<Place, AbortOnDropHandle<()>>;

/// The one Service whose endpoint is no Pod.
fn is_api(service: &Name) -> bool {
    service.0 == "default" && service.1 == "kubernetes"
}

/// Opens and closes listeners.
fn listen(network: &Arc<Network>, listeners: &mut Listeners) {
    let places = network.table.places();
    listeners.retain(|place, _| places.contains(place));
    for place in places {
        let open =
            |place: &Place| AbortOnDropHandle::new(tokio::spawn(accept_for_ever(network.clone(), place.clone())));
        listeners.entry(place).or_insert_with_key(open);
    }
}

async fn accept_for_ever(network: Arc<Network>, (service, port, address, number): Place) {
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
                // The last endpoint went just now, or does not answer: broken off, not hung up on.
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
    if is_api(service) {
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
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let connecting = TcpStream::connect(listener.local_addr().expect("an address"));
        let (near, far) = tokio::join!(connecting, listener.accept());
        (near.expect("connected"), far.expect("accepted").0)
    }

    fn object<K: serde::de::DeserializeOwned>(object: serde_json::Value) -> K {
        serde_json::from_value(object).expect("an object")
    }

    fn shop() -> Service {
        object(json!({
            "metadata": {"namespace": "default", "name": "shop"},
            "spec": {"clusterIP": "10.89.0.7", "ports": [{"name": "http", "port": 80}]},
        }))
    }

    fn answered(ready: bool) -> EndpointSlice {
        object(json!({
            "metadata": {"namespace": "default", "name": "shop-1", "labels": {"kubernetes.io/service-name": "shop"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.88.0.3"], "conditions": {"ready": ready}}],
            "ports": [{"name": "http", "port": 8080}],
        }))
    }

    #[test]
    fn a_service_that_nobody_answers_for_is_not_listened_on() {
        let table = Table::default();
        let follow = |service| apply(&table.services, &mut BTreeMap::new(), watcher::Event::Apply(service), known);
        let hear = |slices| apply(&table.slices, &mut BTreeMap::new(), watcher::Event::Apply(slices), slice);
        follow(shop());
        follow(object(json!({
            "metadata": {"namespace": "default", "name": "kubernetes"},
            "spec": {"clusterIP": "10.89.0.1", "ports": [{"name": "https", "port": 443}]},
        })));
        let ports =
            |table: &Table| table.places().iter().map(|place| place.3).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(ports(&table), [443].into(), "the API is no Pod");
        hear(answered(true));
        assert_eq!(ports(&table), [80, 443].into());
        hear(answered(false));
        assert_eq!(ports(&table), [443].into());
    }

    #[test]
    fn nothing_is_missing_while_everything_is_listed_again() {
        let (table, mut listed) = (Table::default(), BTreeMap::new());
        let is_known = |table: &Table| table.addresses("default", "shop").is_some();
        apply(&table.services, &mut listed, watcher::Event::Apply(shop()), known);
        apply(&table.services, &mut listed, watcher::Event::Init, known);
        assert!(is_known(&table));
        apply(&table.services, &mut listed, watcher::Event::InitApply(shop()), known);
        apply(&table.services, &mut listed, watcher::Event::InitDone, known);
        assert!(is_known(&table));
        apply(&table.services, &mut listed, watcher::Event::Init, known);
        apply(&table.services, &mut listed, watcher::Event::InitDone, known);
        assert!(!is_known(&table), "it went while nobody watched");
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
