//! The real thing: a kube-apiserver and its etcd on loopback, for whoever wants to compare.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Knows everything; only on loopback, only for the life of the test.
const TOKEN: &str = "administrator-of-a-test";

/// A running kube-apiserver with etcd. Dropping it ends both.
#[derive(Debug)]
pub struct Kubernetes {
    /// Where the API is, as in `https://127.0.0.1:6443`.
    pub url: String,
    /// A bearer token of a cluster administrator.
    pub token: String,
    /// The certificate to trust, PEM.
    pub certificate: String,
    etcd: Child,
    apiserver: Child,
}

impl Kubernetes {
    /// Starts both from the directory of binaries `assets` (`scripts/kubernetes-binaries` prints one), with their data
    /// and logs in `directory`, where earlier data is used again. The API is not ready yet: ask `/readyz`.
    pub fn start(assets: &Path, directory: &Path) -> io::Result<Self> {
        Self::start_with(assets, directory, &[])
    }

    /// The same with more arguments for kube-apiserver.
    pub fn start_with(assets: &Path, directory: &Path, arguments: &[&str]) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let key = rcgen::KeyPair::generate().map_err(io::Error::other)?;
        let certificate = rcgen::CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])
            .and_then(|parameters| parameters.self_signed(&key))
            .map_err(io::Error::other)?;
        fs::write(directory.join("tls.crt"), certificate.pem())?;
        fs::write(directory.join("tls.key"), key.serialize_pem())?;
        fs::write(directory.join("tokens.csv"), format!("{TOKEN},administrator,administrator,system:masters\n"))?;
        let (client, peer, secure) = (free_port()?, free_port()?, free_port()?);
        let etcd = etcd(assets, directory, client, peer)?;
        let apiserver = apiserver(assets, directory, client, secure, arguments)?;
        Ok(Self {
            url: format!("https://127.0.0.1:{secure}"),
            token: TOKEN.to_owned(),
            certificate: certificate.pem(),
            etcd,
            apiserver,
        })
    }

    /// The process ids of kube-apiserver and etcd.
    pub fn processes(&self) -> [u32; 2] {
        [self.apiserver.id(), self.etcd.id()]
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        for child in [&mut self.apiserver, &mut self.etcd] {
            // It may have ended already; there is nobody to tell.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn etcd(assets: &Path, directory: &Path, client: u16, peer: u16) -> io::Result<Child> {
    let client = format!("http://127.0.0.1:{client}");
    let peer = format!("http://127.0.0.1:{peer}");
    Command::new(assets.join("etcd"))
        .arg("--data-dir")
        .arg(directory.join("etcd"))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        // A restart has another peer port; a lone member does not care.
        .arg("--force-new-cluster")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(directory.join("etcd.log"))?)
        .spawn()
}

fn apiserver(assets: &Path, directory: &Path, etcd: u16, secure: u16, arguments: &[&str]) -> io::Result<Child> {
    let file = |flag: &str, name: &str| -> String {
        let path: PathBuf = directory.join(name);
        format!("--{flag}={}", path.display())
    };
    Command::new(assets.join("kube-apiserver"))
        .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
        .arg(format!("--secure-port={secure}"))
        .args(["--bind-address=127.0.0.1", "--authorization-mode=RBAC"])
        .args(["--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount"])
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(file("service-account-key-file", "tls.crt"))
        .arg(file("service-account-signing-key-file", "tls.key"))
        .arg(file("tls-cert-file", "tls.crt"))
        .arg(file("tls-private-key-file", "tls.key"))
        .arg(file("token-auth-file", "tokens.csv"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(directory.join("kube-apiserver.log"))?)
        .spawn()
}

/// A port that nobody has at the moment.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
