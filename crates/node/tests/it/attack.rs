//! Each promise of isolation, tried by a Pod that breaks it if it can.

use serde_json::json;

use crate::plane::{World, container_state, phase};

/// Runs a script in a Pod to its end; `breach` in its log is a promise broken.
async fn try_to(world: &World, name: &str, script: &str) -> String {
    let container = json!([{ "name": "main", "command": ["sh", "-c", script] }]);
    world.create(name, json!({ "restartPolicy": "Never", "containers": container })).await;
    world.over(name).await;
    let log = world.logs(name, "main").await;
    assert!(!log.contains("breach"), "{name}: {log}");
    log
}

#[tokio::test(flavor = "multi_thread")]
async fn this_machines_files_and_secrets_are_not_there() {
    let world = World::new().await;
    // Something of ours in every place that people keep secrets in.
    let data = world.data.path().to_string_lossy().into_owned();
    std::fs::write(world.data.path().join("admin-credential"), "secret").unwrap();
    let home = std::env::var("HOME").unwrap();
    let script = format!(
        "for p in {data} {data}/admin-credential {home}/.ssh {home}/.cargo {home}/.aws {home}/.config; do \
           [ -e $p ] && echo breach $p; done; \
         [ -n \"$(ls -A /root /home /run 2>/dev/null)\" ] && ls -A /root /home /run | grep -v -e : -e '^$' -e secrets && echo breach home; \
         cat /etc/shadow && echo breach shadow; \
         find / -xdev -type s 2>/dev/null | grep . && echo breach socket; \
         for d in /dev/vda /dev/sda /dev/mem /dev/kvm /dev/net/tun; do [ -e $d ] && echo breach $d; done; \
         mknod /tmp/disk b 254 0 && head -c1 /tmp/disk && echo breach device; \
         env | grep -i -e KEY= -e TOKEN= -e SSH_AUTH_SOCK && echo breach environment; echo tried"
    );
    let log = try_to(&world, "thief", &script).await;
    assert!(log.contains("tried"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_keep_at_home_and_the_sockets_of_their_agents_are_not_there() {
    use std::os::unix::net::UnixListener;
    let world = World::new().await;
    // Planted where it would be found: at home, beside our data, in a place for sockets.
    let mark = format!("orrery-test-{}", std::process::id());
    let home = std::path::PathBuf::from(std::env::var("HOME").unwrap());
    let key = tempfile::Builder::new().prefix(&format!(".{mark}-key")).tempfile_in(&home).unwrap();
    std::fs::write(key.path(), "secret").unwrap();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(format!("{mark}.sock"));
    let _agent = UnixListener::bind(&path).unwrap();
    let abstract_name =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&mark);
    let _another = UnixListener::bind_addr(&abstract_name.unwrap()).unwrap();
    let script = format!(
        "find / -xdev -name '*{mark}*' 2>/dev/null | grep . && echo breach file; \
         cat {key} 2>/dev/null && echo breach key; \
         openssl s_client -unix {socket} </dev/null 2>&1 | grep -q CONNECTED && echo breach socket; \
         grep {mark} /proc/net/unix && echo breach abstract socket; \
         grep {mark} /proc/self/mountinfo && echo breach mounts; \
         cut -d' ' -f5 /proc/self/mountinfo | grep -x -e '/home.*' -e '{home}' && echo breach home; \
         env | grep -v -e ^PATH= -e ^HOME= -e ^HOSTNAME= -e ^PWD= -e ^KUBERNETES_ -e ^_= -e ^SHLVL= && echo breach environment; \
         echo tried",
        key = key.path().display(),
        socket = path.display(),
        home = home.display(),
    );
    let log = try_to(&world, "burglar", &script).await;
    assert!(log.contains("tried"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_pods_files_processes_and_loopback_are_not_there() {
    let world = World::new().await;
    let secret = "echo the-neighbours-secret > /data/secret; echo up; while :; do sleep 1; done # neighbour-process";
    world
        .create(
            "neighbour",
            json!({
                "containers": [{ "name": "main", "command": ["sh", "-c", secret],
                                 "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }],
                "volumes": [{ "name": "data", "emptyDir": {} }],
            }),
        )
        .await;
    world.until("neighbour", |pod| phase(pod) == "Running").await;
    let log = try_to(
        &world,
        "spy",
        "grep -rqs the-neighbours-secret /data /var /run /mnt /srv /home && echo breach files; \
         cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -q 'neighbour-[p]rocess' && echo breach processes; \
         ls /proc/1/root/proc >/dev/null 2>&1; [ $(ls -d /proc/[0-9]* | wc -l) -lt 20 ] || echo breach many processes; \
         kill -9 -1 2>/dev/null; ls /sys/class/net; echo tried",
    )
    .await;
    assert!(log.contains("tried") || log.is_empty(), "{log}");
    let pod = world.until("neighbour", |pod| phase(pod) == "Running").await;
    assert_eq!(container_state(&pod, 0)["restartCount"], 0, "the neighbour was hit");
    world.delete("neighbour").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_is_out_of_reach() {
    let world = World::new().await;
    let log = try_to(
        &world,
        "tinkerer",
        "unshare -Ur true 2>/dev/null && echo breach new user namespace; \
         unshare -m true 2>/dev/null && echo breach new mount namespace; \
         mount -t tmpfs none /mnt 2>/dev/null && echo breach mount; \
         echo 1 > /proc/sys/kernel/panic 2>/dev/null && echo breach sysctl; \
         echo b > /proc/sysrq-trigger 2>/dev/null; \
         hostname somebody-else 2>/dev/null && echo breach host name; \
         dmesg >/dev/null 2>&1 && echo breach kernel log; \
         nsenter -t 1 -a true 2>/dev/null && echo breach nsenter; \
         umount /proc 2>/dev/null && echo breach umount; \
         cat /proc/1/environ >/dev/null 2>&1 && echo breach shim environment; \
         ls /proc/1/root/ >/dev/null 2>&1 && echo breach shim root; \
         readlink /proc/1/fd/0 && echo breach shim descriptors; [ $(ls /proc/1/fd | wc -l) -lt 5 ] || echo breach open files; echo tried",
    )
    .await;
    assert!(log.contains("tried"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_a_volume_leads_nowhere_outside_it() {
    let world = World::new().await;
    let secret = world.data.path().join("outside");
    std::fs::create_dir(&secret).unwrap();
    std::fs::write(secret.join("key"), "secret").unwrap();
    std::os::unix::fs::chown(&secret, None, None).unwrap();
    let link = format!("ln -s {} /data/way; ln -s / /data/root", secret.display());
    let container = |name: &str, script: &str, sub_path: &str| {
        json!({ "name": name, "command": ["sh", "-c", script],
                "volumeMounts": [{ "name": "data", "mountPath": "/data", "subPath": sub_path }] })
    };
    for (name, sub_path) in [("by-path", "way"), ("by-root", "root")] {
        world
            .create(
                name,
                json!({
                    "restartPolicy": "Never",
                    "initContainers": [container("plant", &link, "")],
                    "containers": [container("main", "ls /data | grep . && echo breach", sub_path)],
                    "volumes": [{ "name": "data", "emptyDir": {} }],
                }),
            )
            .await;
        let pod = world.over(name).await;
        assert_eq!(phase(&pod), "Failed");
        let state = container_state(&pod, 0);
        assert_eq!(state["state"]["terminated"]["reason"], "ContainerCannotRun", "{state}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_offered_is_refused_in_words() {
    let world = World::new().await;
    let cases = [
        ("host-path", json!({ "volumes": [{ "name": "v", "hostPath": { "path": "/" } }] }), "hostPath"),
        ("host-network", json!({ "hostNetwork": true }), "hostNetwork"),
    ];
    for (name, more, word) in cases {
        let mut spec = json!({ "containers": [{ "name": "main", "command": ["true"] }] });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.create(name, spec).await;
        let says = |pod: &k8s_openapi::api::core::v1::Pod| serde_json::to_string(&pod.status).unwrap().contains(word);
        world.until(name, says).await;
    }
    let privileged = json!([{ "name": "main", "command": ["true"], "securityContext": { "privileged": true } }]);
    world.create("privileged", json!({ "containers": privileged })).await;
    world
        .until("privileged", |pod| {
            serde_json::to_string(&pod.status).unwrap().contains("this node runs no privileged container")
        })
        .await;
}
