//! Pods talk: to each other, to Services, to names, to this machine.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::plane::{World, phase};

/// A model server of this machine, as far as a Pod can tell: it answers every request with its name.
fn answer_on_loopback(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let _ = connection.read(&mut [0; 1024]);
            let body = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{name}", name.len());
            let _ = connection.write_all(body.as_bytes());
        }
    });
    address
}

/// A Pod that answers on port 4096 with its own name.
fn agent(name: &str) -> Value {
    let script =
        format!("mkdir -p /www && echo I am {name} > /www/index.html && exec busybox httpd -f -p 4096 -h /www");
    json!({ "containers": [{
        "name": "main", "command": ["sh", "-c", script],
        "readinessProbe": { "httpGet": { "path": "/", "port": 4096 }, "periodSeconds": 1 },
    }] })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn address(pod: &Pod) -> String {
    pod.status.as_ref().unwrap().pod_ip.clone().unwrap()
}

async fn run(world: &World, name: &str, script: &str) -> String {
    let container = json!([{ "name": "main", "command": ["sh", "-c", script] }]);
    world.create(name, json!({ "restartPolicy": "Never", "containers": container })).await;
    let pod = world.over(name).await;
    let log = world.logs(name, "main").await;
    assert_eq!(phase(&pod), "Succeeded", "{log}");
    log
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_one_port_services_names_and_this_machine() {
    let api = answer_on_loopback("the api");
    let model = answer_on_loopback("the model");
    let world = World::with_network(api).await;
    let mut endpoints = Vec::new();
    for name in ["one", "two"] {
        world.create(name, agent(name)).await;
        let pod = world.until(name, is_ready).await;
        endpoints.push(json!({ "addresses": [address(&pod)], "conditions": { "ready": true } }));
    }
    for name in ["agents", "nobody"] {
        let service: Service = serde_json::from_value(json!({
            "metadata": { "name": name }, "spec": { "ports": [{ "name": "http", "port": 80, "targetPort": 4096 }] },
        }))
        .unwrap();
        world.api().create(&PostParams::default(), &service).await.unwrap();
    }
    let one = endpoints[0]["addresses"][0].as_str().unwrap().to_owned();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": { "name": "agents-1", "labels": { "kubernetes.io/service-name": "agents" } },
        "addressType": "IPv4", "endpoints": endpoints, "ports": [{ "name": "http", "port": 4096, "protocol": "TCP" }],
    }))
    .unwrap();
    world.api().create(&PostParams::default(), &slice).await.unwrap();

    let get = "get() { curl -sS --max-time 10 --retry 20 --retry-delay 1 --retry-all-errors \"$1\"; echo; };";
    let script = format!(
        "{get} for i in 1 2 3 4; do get http://agents; done; get http://agents.default.svc.cluster.local; \
         get http://host.orrery.internal:{}; get http://$KUBERNETES_SERVICE_HOST:443; \
         get http://{one}:4096; cat /proc/net/arp",
        model.port()
    );
    let log = run(&world, "caller", &script).await;
    assert!(log.contains("I am one") && log.contains("I am two"), "a Service is balanced: {log}");
    assert!(log.contains("the model") && log.contains("the api"), "{log}");
    // The gateway's own hardware address, not that of a cable: it stays when Pods go.
    // A Pod's follows from its address: who knew the one that had it before need not ask again.
    for neighbour in ["10.88.0.1", &one] {
        let [a, b, c, d] = neighbour.parse::<Ipv4Addr>().unwrap().octets();
        let known = log.lines().find(|line| line.starts_with(&format!("{neighbour} "))).unwrap_or_default();
        assert!(known.contains(&format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")), "{neighbour}: {log}");
    }

    // What must not be reached: another Pod's loopback is its own, this machine's is not ours, clouds' secrets are not served.
    // A Service that nobody answers for refuses (7 in curl's words), as it does on a cluster.
    let refused = format!(
        "for a in 127.0.0.1:4096 127.0.0.1:{} 169.254.169.254:80 nothing.default.svc.cluster.local:80; do \
           curl -sS --max-time 3 http://$a && exit 1; done; \
         curl -sS --max-time 3 http://nobody; test $? = 7",
        model.port()
    );
    run(&world, "prober", &refused).await;
    for name in ["one", "two"] {
        world.delete(name).await;
    }
    world.network.as_ref().unwrap().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_network_outlives_the_node() {
    let api = answer_on_loopback("the api");
    let mut world = World::with_network(api).await;
    world.create("steady", agent("steady")).await;
    let pod = world.until("steady", is_ready).await;
    world.stop().await;
    world.start().await;
    let log = run(&world, "caller", &format!("curl -sS --max-time 10 http://{}:4096", address(&pod))).await;
    assert!(log.contains("I am steady"), "{log}");
    // A Pod's cable goes with its network namespace.
    let holder = crate::support::shim_process(&world.data.path().join("network")).unwrap();
    let cables = || {
        let devices = std::fs::read_to_string(format!("/proc/{holder}/net/dev")).unwrap();
        devices.lines().filter(|line| line.trim_start().starts_with("pod") && !line.contains("pods:")).count()
    };
    world.delete("caller").await;
    crate::support::until(|| cables() == 1).await;
    world.delete("steady").await;
    crate::support::until(|| cables() == 0).await;
    world.network.as_ref().unwrap().close().await.unwrap();
}
