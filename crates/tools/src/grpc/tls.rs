//! Whom a gRPC server's certificate must come from, and who we are to it: files of the container that calls.

use std::sync::Arc;

use api::omnia::GrpcConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::client::Error;

/// What the files say; `None` when none is named.
pub(super) fn config(config: &GrpcConfig) -> Result<Option<ClientConfig>, Error> {
    if config.tls_insecure_skip_verify {
        return Err(Error::Invalid(
            "tlsInsecureSkipVerify is not followed here: name the authority in tlsCAPath".into(),
        ));
    }
    let (authority, own, key) = (&config.tls_ca_path, &config.tls_cert_path, &config.tls_key_path);
    if !config.tls || (authority.is_none() && own.is_none() && key.is_none()) {
        return Ok(None);
    }
    let unusable = |error: rustls::Error| Error::Invalid(format!("the certificates cannot be used: {error}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(unusable)?;
    let builder = match authority {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(unusable)?;
            }
            builder.with_root_certificates(roots)
        }
        None => builder.with_platform_verifier().map_err(unusable)?,
    };
    match (own, key) {
        (Some(own), Some(key)) => {
            let secret = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| Error::Invalid(format!("tlsKeyPath {key:?} cannot be read: {error}")))?;
            builder.with_client_auth_cert(certificates(own)?, secret).map(Some).map_err(unusable)
        }
        (None, None) => Ok(Some(builder.with_no_client_auth())),
        _ => Err(Error::Invalid("tlsCertPath and tlsKeyPath belong together".into())),
    }
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let unreadable = |error: rustls::pki_types::pem::Error| Error::Invalid(format!("{path:?} cannot be read: {error}"));
    CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)
}
