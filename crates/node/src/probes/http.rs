//! One HTTP question, of which only the status line of the answer counts. Certificates are not checked, as a kubelet
//! does not: a container's is signed by anybody, and the connection never leaves the Pod.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, IpAddr, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::driver::Sandbox;

/// Asks, and says what is wrong with the answer.
pub async fn get(
    sandbox: &Arc<dyn Sandbox>,
    container: &Container,
    http: &HTTPGetAction,
    address: Ipv4Addr,
) -> Result<(), String> {
    let port = super::port(container, &http.port)?;
    let address = http.host.as_ref().and_then(|host| host.parse().ok()).unwrap_or(address);
    let connected = sandbox.connect(address, port).await;
    let connection = connected.map_err(|error| format!("port {port}: {error}"))?;
    let question = question(http, address, port);
    if http.scheme.as_deref() != Some("HTTPS") {
        return ask(connection, &question).await;
    }
    let config = config().map_err(|error| error.to_string())?;
    let name = ServerName::IpAddress(IpAddr::from(std::net::IpAddr::V4(address)));
    let secured = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, connection).await;
    ask(secured.map_err(|error| format!("port {port}: {error}"))?, &question).await
}

fn question(http: &HTTPGetAction, address: Ipv4Addr, port: u16) -> String {
    let path = http.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut request =
        format!("GET {slash}{path} HTTP/1.1\r\nConnection: close\r\nUser-Agent: kube-probe/1.33\r\nAccept: */*\r\n");
    let headers = http.http_headers.clone().unwrap_or_default();
    if !headers.iter().any(|header| header.name.eq_ignore_ascii_case("host")) {
        let _ = write!(request, "Host: {address}:{port}\r\n");
    }
    for header in headers {
        let _ = write!(request, "{}: {}\r\n", header.name, header.value);
    }
    request.push_str("\r\n");
    request
}

async fn ask(mut connection: impl AsyncRead + AsyncWrite + Unpin, question: &str) -> Result<(), String> {
    connection.write_all(question.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    let mut limited = connection.take(4096);
    while !answer.contains(&b'\n') {
        if limited.read_buf(&mut answer).await.map_err(|error| error.to_string())? == 0 {
            break;
        }
    }
    let line = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
    let code = line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
    match code {
        Some(200..=399) => Ok(()),
        Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
        None => Err("not an HTTP answer".to_owned()),
    }
}

fn config() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    Ok(config.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))).with_no_client_auth())
}

/// Takes any certificate whose key the server has.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
