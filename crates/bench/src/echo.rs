//! What runs inside Pods to measure the way between them: one side sends back what it gets, the other takes the time.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::report::quantile;

/// Where the answering side listens.
pub const PORT: u16 = 7007;
const QUESTIONS: usize = 5000;
const CONNECTIONS: usize = 1000;

/// Which side.
#[derive(Clone, Debug, clap::Subcommand)]
#[command(hide = true)]
pub enum Role {
    /// Sends back what it gets.
    EchoServer,
    /// Asks there directly, then by the other name, and says what the other costs more: nanoseconds for a question on an
    /// open connection, and for a new connection with a question.
    EchoClient {
        /// The Pod.
        direct: String,
        /// The Service.
        service: String,
    },
}

/// Plays a side.
pub fn play(role: Role) -> Result<()> {
    match role {
        Role::EchoServer => serve(),
        Role::EchoClient { direct, service } => ask(&direct, &service),
    }
}

fn serve() -> Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", PORT))?;
    loop {
        let (mut connection, _) = listener.accept()?;
        std::thread::spawn(move || {
            let _ = connection.set_nodelay(true);
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = connection.read(&mut buffer) {
                if connection.write_all(&buffer[..count]).is_err() {
                    return;
                }
            }
        });
    }
}

#[expect(clippy::print_stdout, reason = "the answer is read from the Pod's log")]
fn ask(direct: &str, service: &str) -> Result<()> {
    let patience = Instant::now() + Duration::from_mins(1);
    for host in [direct, service] {
        while one(host).is_err() {
            anyhow::ensure!(Instant::now() < patience, "{host} does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let added = |with: Duration, without: Duration| with.saturating_sub(without).as_nanos();
    // In turn, so that both meet the same noise.
    let (mut questions, mut connections) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let address = |host: &str| -> Result<std::net::SocketAddr> {
        use std::net::ToSocketAddrs as _;
        (host, PORT).to_socket_addrs()?.next().context("no address")
    };
    let hosts = [address(direct)?, address(service)?];
    let mut open = Vec::new();
    for host in hosts {
        let connection = TcpStream::connect(host)?;
        connection.set_nodelay(true)?;
        open.push(connection);
    }
    for _ in 0..QUESTIONS {
        for (connection, times) in open.iter_mut().zip(&mut questions) {
            times.push(question(connection)?);
        }
    }
    for _ in 0..CONNECTIONS {
        for (host, times) in hosts.iter().zip(&mut connections) {
            let start = Instant::now();
            question(&mut TcpStream::connect(host)?)?;
            times.push(start.elapsed());
        }
    }
    let middle = |times: &mut [Vec<Duration>; 2]| {
        let [without, with] = times;
        added(quantile(with, 0.5), quantile(without, 0.5))
    };
    println!("{} {}", middle(&mut questions), middle(&mut connections));
    Ok(())
}

fn one(host: &str) -> Result<()> {
    question(&mut TcpStream::connect((host, PORT))?).map(drop)
}

fn question(connection: &mut TcpStream) -> Result<Duration> {
    let start = Instant::now();
    connection.write_all(&[7; 100])?;
    let mut answer = [0; 100];
    connection.read_exact(&mut answer)?;
    Ok(start.elapsed())
}
