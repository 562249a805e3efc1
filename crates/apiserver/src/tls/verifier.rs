//! Client certificates: asked for, never demanded, judged after the handshake.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Error;
use crate::user::User;

/// What a client's certificate says, when it chains to our authority.
#[derive(Clone, Debug)]
pub struct Identified {
    /// Common name and organizations; `system:authenticated` is not among the groups yet.
    pub user: User,
    /// The certificate's end: a long connection does not outlive it.
    pub ends: Timestamp,
}

/// Why a client's certificate is not accepted.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Rejected(String);

/// The client certificate of a connection, as an `http` extension of its requests (in an `Arc`).
pub type Certificate = Result<Identified, Rejected>;

/// Judges client certificates.
pub(super) struct Clients {
    verifier: Arc<dyn ClientCertVerifier>,
    provider: Arc<CryptoProvider>,
}

impl Clients {
    pub(super) fn new(authority: &str, provider: &Arc<CryptoProvider>) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            roots.add(certificate?)?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build()?;
        Ok(Self { verifier, provider: Arc::clone(provider) })
    }

    /// Who the chain says the client is. The handshake has proven that the client holds the key.
    pub(super) fn check(&self, chain: &[CertificateDer<'_>]) -> Certificate {
        let (leaf, intermediates) = chain.split_first().ok_or_else(|| Rejected("no certificate".into()))?;
        self.verifier
            .verify_client_cert(leaf, intermediates, UnixTime::now())
            .map_err(|error| Rejected(error.to_string()))?;
        identify(leaf)
    }
}

fn identify(leaf: &CertificateDer<'_>) -> Certificate {
    let unreadable = |error: &dyn std::fmt::Display| Rejected(format!("unreadable certificate: {error}"));
    let (_, certificate) = X509Certificate::from_der(leaf).map_err(|error| unreadable(&error))?;
    let ends =
        Timestamp::from_second(certificate.validity().not_after.timestamp()).map_err(|error| unreadable(&error))?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next().and_then(|name| name.as_str().ok()).unwrap_or_default();
    if name.is_empty() {
        return Err(Rejected("the certificate has no common name, so it names no user".into()));
    }
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned).collect();
    Ok(Identified { user: User { name: name.to_owned(), groups, ..User::default() }, ends })
}

/// Asks for a certificate in the handshake and takes any, as [`Clients::check`] judges it afterwards.
#[derive(Debug)]
pub(super) struct Ask {
    provider: Arc<CryptoProvider>,
}

impl Ask {
    pub(super) fn new(clients: &Clients) -> Self {
        Self { provider: Arc::clone(&clients.provider) }
    }
}

impl ClientCertVerifier for Ask {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // No hint: a client with a foreign certificate sends it and learns that it is not accepted.
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
