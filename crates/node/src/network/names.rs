//! Names: Services and Pods of the plane, this machine, and whatever this machine can resolve.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use simple_dns::rdata::{A, AAAA, RData};
use simple_dns::{CLASS, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};
use tokio::net::UdpSocket;

use super::{DOMAIN, HOST_ADDRESS, HOST_NAME, Network};

const TIME_TO_LIVE: u32 = 5;
const PATIENCE: Duration = Duration::from_secs(4);

/// Answers questions.
pub(super) async fn serve(network: Arc<Network>) -> std::io::Result<()> {
    let socket = Arc::new(network.udp_socket(network.name_server(), 53).await?);
    let mut question = vec![0; 4096];
    loop {
        let (length, from) = socket.recv_from(&mut question).await?;
        let (network, socket, question) = (network.clone(), socket.clone(), question[..length].to_vec());
        tokio::spawn(async move {
            if let Some(answer) = answer(&network, &question).await {
                let _ = socket.send_to(&answer, from).await;
            }
        });
    }
}

async fn answer(network: &Network, raw: &[u8]) -> Option<Vec<u8>> {
    let question = Packet::parse(raw).ok()?;
    let asked = question.questions.first()?.clone();
    let name = asked.qname.to_string().trim_end_matches('.').to_ascii_lowercase();
    let found = match (own(network, &name), asked.qtype) {
        (Own::Known(addresses), _) => Ok(addresses.into_iter().map(IpAddr::V4).collect()),
        (Own::Unknown, _) => Err(RCODE::NameError),
        (Own::Foreign, QTYPE::TYPE(TYPE::A | TYPE::AAAA)) => foreign(&name).await,
        (Own::Foreign, _) => return forward(raw).await,
    };
    let mut reply = Packet::new_reply(question.id());
    reply.set_flags(PacketFlag::RECURSION_AVAILABLE | PacketFlag::RECURSION_DESIRED);
    match found {
        Ok(addresses) => {
            for address in addresses {
                let data = match (address, asked.qtype) {
                    (IpAddr::V4(address), QTYPE::TYPE(TYPE::A) | QTYPE::ANY) => RData::A(A { address: address.into() }),
                    (IpAddr::V6(address), QTYPE::TYPE(TYPE::AAAA) | QTYPE::ANY) => {
                        RData::AAAA(AAAA { address: address.into() })
                    }
                    _ => continue,
                };
                reply.answers.push(ResourceRecord::new(asked.qname.clone(), CLASS::IN, TIME_TO_LIVE, data));
            }
        }
        Err(code) => *reply.rcode_mut() = code,
    }
    reply.questions.push(asked);
    reply.build_bytes_vec().ok()
}

enum Own {
    Known(Vec<Ipv4Addr>),
    Unknown,
    Foreign,
}

/// A name that only we know.
fn own(network: &Network, name: &str) -> Own {
    if name == HOST_NAME {
        return Own::Known(vec![HOST_ADDRESS]);
    }
    // The resolver tries this machine's name with every search domain first.
    let Some(inside) = name.strip_suffix(DOMAIN).and_then(|rest| rest.strip_suffix('.')) else { return Own::Foreign };
    let parts: Vec<&str> = inside.split('.').collect();
    let found = match parts[..] {
        [service, namespace, "svc"] => network.table.addresses(namespace, service),
        [hostname, service, namespace, "svc"] => {
            Some(network.table.pod_addresses(namespace, service, hostname)).filter(|found| !found.is_empty())
        }
        [address, _, "pod"] => address.replace('-', ".").parse().ok().map(|address| vec![address]),
        _ => None,
    };
    found.map_or(Own::Unknown, Own::Known)
}

/// As this machine's other programs resolve it: its hosts file, its resolver, whatever it has.
async fn foreign(name: &str) -> Result<Vec<IpAddr>, RCODE> {
    match tokio::time::timeout(PATIENCE, tokio::net::lookup_host((name, 0))).await {
        Ok(Ok(addresses)) => Ok(addresses.map(|address| address.ip()).collect()),
        Ok(Err(_)) => Err(RCODE::NameError),
        Err(_) => Err(RCODE::ServerFailure),
    }
}

/// Other kinds of questions go to this machine's own name server as they are.
async fn forward(raw: &[u8]) -> Option<Vec<u8>> {
    let text = tokio::fs::read_to_string("/etc/resolv.conf").await.ok()?;
    let server: IpAddr = text.lines().find_map(|line| line.strip_prefix("nameserver ")?.trim().parse().ok())?;
    let local: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(local).await.ok()?;
    socket.connect((server, 53)).await.ok()?;
    socket.send(raw).await.ok()?;
    let mut reply = vec![0; 4096];
    let length = tokio::time::timeout(PATIENCE, socket.recv(&mut reply)).await.ok()?.ok()?;
    reply.truncate(length);
    Some(reply)
}
