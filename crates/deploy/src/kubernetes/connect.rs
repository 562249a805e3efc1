use std::fmt;

use kube::{Client, Config};

use crate::failure::{Category, Failure};

/// An API and who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it is.
    pub url: String,
    /// Proves who asks.
    pub token: String,
}

impl fmt::Debug for Endpoint {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A client of an endpoint. A private authority's certificate comes from the file that `SSL_CERT_FILE` names.
pub fn client(endpoint: &Endpoint) -> Result<Client, Failure> {
    let wrong = |error: &dyn fmt::Display| Failure::new(Category::Configuration, format!("api_endpoint: {error}"));
    let url = endpoint.url.parse().map_err(|error: ::http::uri::InvalidUri| wrong(&error))?;
    let mut config = Config::new(url);
    config.auth_info.token = Some(endpoint.token.clone().into());
    // Writes are repeated here, by those who can tell whether that is safe.
    config.default_retry = false;
    if let Some(file) = std::env::var_os("SSL_CERT_FILE") {
        let pem = std::fs::read(&file).map_err(|error| wrong(&format!("cannot read {}: {error}", file.display())))?;
        let certificates = rustls_pki_types::pem::PemObject::pem_slice_iter(&pem);
        let certificates: Result<Vec<rustls_pki_types::CertificateDer>, _> = certificates.collect();
        let certificates = certificates.map_err(|error| wrong(&format!("{}: {error}", file.display())))?;
        config.root_cert = Some(certificates.into_iter().map(|certificate| certificate.to_vec()).collect());
    }
    Client::try_from(config).map_err(|error| wrong(&error))
}
