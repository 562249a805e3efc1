//! A Pod's directory and a driver, without an API.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use node::driver::{
    Confinement, ContainerSpec, Driver as _, Event, Exit, Identity, Root, Sandbox, SandboxSpec, State, Watch,
};
use node::process::{Process, Shims};

pub fn shim() -> Shims {
    shim_with(Vec::new())
}

/// The same with words that its process can be told by.
pub fn shim_with(words: Vec<String>) -> Shims {
    // Another user may not be able to reach where it was built.
    let copied = std::env::var_os("ORRERY_TEST_SHIM").map(PathBuf::from);
    let program = copied.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_orrery-shim")));
    Shims::new(program, words)
}

pub struct Bench {
    pub data: tempfile::TempDir,
    pub driver: Process,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(shim())
    }

    pub fn with(shims: Shims) -> Self {
        let data = tempfile::tempdir().unwrap();
        let driver = Process::new(data.path().to_owned(), shims);
        Self { data, driver }
    }

    pub fn identity(&self) -> Identity {
        self.driver.identity(&[]).unwrap()
    }

    /// Makes what the node makes before it opens a sandbox.
    pub fn pod_directory(&self, uid: &str) -> PathBuf {
        let directory = self.data.path().join(uid);
        for part in ["", "etc", "containers"] {
            std::fs::create_dir_all(directory.join(part)).unwrap();
        }
        for name in ["hosts", "hostname", "resolv.conf"] {
            std::fs::write(directory.join("etc").join(name), format!("{name} of {uid}\n")).unwrap();
        }
        own(&directory, &self.identity());
        directory
    }

    pub fn volume(&self, uid: &str, name: &str) -> PathBuf {
        let path = self.data.path().join(uid).join("volumes").join(name);
        std::fs::create_dir_all(&path).unwrap();
        own(&path, &self.identity());
        path
    }

    pub async fn open(&self, uid: &str, volumes: &[&str]) -> Arc<dyn Sandbox> {
        self.pod_directory(uid);
        let volumes: BTreeMap<String, PathBuf> =
            volumes.iter().map(|name| ((*name).to_owned(), self.volume(uid, name))).collect();
        self.driver.open(uid, &spec(self.identity(), volumes)).await.unwrap()
    }

    pub fn log(&self, uid: &str, container: &str, attempt: u32) -> String {
        let path = self.data.path().join(uid).join(format!("containers/{container}/{attempt}/log"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // timestamp, stream, tag, text
        text.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).collect::<Vec<_>>().join("\n")
    }
}

fn own(path: &std::path::Path, identity: &Identity) {
    if let Identity::Range { base, .. } = identity {
        std::os::unix::fs::chown(path, Some(*base), Some(*base)).unwrap();
        if path.is_dir() {
            for entry in std::fs::read_dir(path).unwrap() {
                own(&entry.unwrap().path(), identity);
            }
        }
    }
}

pub fn spec(identity: Identity, volumes: BTreeMap<String, PathBuf>) -> SandboxSpec {
    SandboxSpec {
        hostname: "pod".into(),
        identity,
        volumes,
        volume_group: None,
        memory_volumes: BTreeMap::new(),
        images: BTreeMap::new(),
        network: None,
        programs: BTreeMap::new(),
    }
}

pub fn container(name: &str, script: &str) -> ContainerSpec {
    ContainerSpec {
        name: name.into(),
        attempt: 0,
        root: Root::Host { hidden: Vec::new() },
        read_only_root: false,
        mounts: Vec::new(),
        command: vec!["sh".into(), "-c".into(), script.into()],
        environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into())],
        working_directory: "/".into(),
        confinement: Confinement {
            user: 0,
            group: 0,
            groups: Vec::new(),
            capabilities: 0,
            filter: true,
            no_new_privileges: true,
        },
        share_processes: false,
        termination_log: "/dev/termination-log".into(),
        input: node::driver::Input::None,
        terminal: false,
        cgroups: 0,
    }
}

pub async fn ended(watch: &mut Watch, name: &str) -> Exit {
    loop {
        let event: Event = watch.events.recv().await.expect("the shim is still there");
        if let (true, State::Ended(exit)) = (event.container == name, event.state) {
            return exit;
        }
    }
}

/// Runs a script to its end and returns its exit code and output.
pub async fn run(bench: &Bench, uid: &str, spec: &ContainerSpec) -> (i32, String) {
    let sandbox = bench.open(uid, &[]).await;
    let mut watch = sandbox.watch().await.unwrap();
    sandbox.start(spec, Vec::new()).await.unwrap();
    let exit = ended(&mut watch, &spec.name).await;
    sandbox.close(Vec::new()).await.unwrap();
    (exit.code, bench.log(uid, &spec.name, spec.attempt))
}

/// Waits until something is so.
pub async fn until(so: impl Fn() -> bool) {
    while !so() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// The process behind a shim's socket.
pub fn shim_process(directory: &std::path::Path) -> Option<nix::unistd::Pid> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt};
    use std::os::fd::AsRawFd as _;
    let caller = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).ok()?;
    let address = UnixAddr::new(&directory.join("shim.sock")).ok()?;
    connect(caller.as_raw_fd(), &address).ok()?;
    let peer = getsockopt(&caller, sockopt::PeerCredentials).ok()?;
    Some(nix::unistd::Pid::from_raw(peer.pid()))
}

/// Kills the shim of the Pod with this directory, as the kernel would when memory runs out.
pub fn kill_shim(directory: &std::path::Path) {
    if let Some(pid) = shim_process(directory) {
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
    }
}
