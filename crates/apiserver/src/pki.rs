//! The plane's own certificates: one authority, a serving certificate, the administrator's client
//! certificate and the key that signs service account tokens.
//!
//! Everything lives in one folder that only its owner can read. [`Pki::open`] is idempotent: it makes what is
//! missing, renews what would expire soon and leaves the rest alone, so it runs at every start and once a day.
//! The authority's key never changes by itself: a renewed authority certificate keeps every kubeconfig valid.

mod files;

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

pub use files::write_private;

use crate::user::MASTERS;

const DAY: Duration = Duration::from_hours(24);
const AUTHORITY_LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);
const LEAF_LIFETIME: Duration = Duration::from_hours(365 * 24);
/// Renewed when less than this is left; longer than any reasonable time between two starts or daily checks.
const RENEW_BEFORE: Duration = Duration::from_hours(60 * 24);
/// Certificates start a little in the past, for clients whose clock is behind.
const SKEW: Duration = Duration::from_hours(1);

const AUTHORITY_NAME: &str = "orrery-ca";
/// The user name in the administrator's certificate.
pub const ADMIN: &str = "admin";

/// Names under which Pods and local clients reach the API.
const SERVING_NAMES: [&str; 7] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
];

/// Why the certificates could not be made ready.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {doing} {path}")]
    File {
        /// What we were doing.
        doing: &'static str,
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is there but is not what it should be.
    #[error("{path} is damaged ({why}); move it away and start again to get a new one")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate could not be made.
    #[error("cannot issue the {what} certificate")]
    Issue {
        /// Which one.
        what: &'static str,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
}

/// A certificate and its private key, both PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS #8.
    pub key: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Identity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Everything the plane proves itself with.
#[derive(Clone, Debug)]
pub struct Pki {
    /// The authority's certificate, PEM: what clients trust and what client certificates must chain to.
    pub authority: String,
    /// What the listener shows.
    pub serving: Identity,
    /// The administrator's client certificate.
    pub admin: Identity,
    /// The key that signs service account tokens; its `certificate` is the public key, PEM.
    pub tokens: Identity,
}

impl Pki {
    /// Makes the folder ready: reads what is there, makes what is missing, renews what ends soon.
    ///
    /// `names` are host names or addresses to serve under, besides loopback and `kubernetes.default.svc`.
    pub fn open(folder: &Path, names: &[String], now: Timestamp) -> Result<Self, Error> {
        files::private_folder(folder)?;
        let authority = Authority::open(folder, now)?;
        let mut serving_names: Vec<String> = SERVING_NAMES.iter().map(|&name| name.to_owned()).collect();
        serving_names.extend(names.iter().filter(|name| !SERVING_NAMES.contains(&name.as_str())).cloned());

        let serving = authority.leaf(
            folder,
            &Leaf { file: "serving", what: "serving", common_name: "orrery", organization: None, names: serving_names },
            now,
        )?;
        let admin = authority.leaf(
            folder,
            &Leaf {
                file: "admin",
                what: "administrator's",
                common_name: ADMIN,
                organization: Some(MASTERS),
                names: vec![],
            },
            now,
        )?;
        let (tokens, _) = files::key(folder, "service-account.key")?;
        let tokens = Identity { certificate: tokens.public_key_pem(), key: tokens.serialize_pem() };
        Ok(Self { authority: authority.certificate, serving, admin, tokens })
    }
}

/// The authority: signs leaves.
struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
    key_identifier: Vec<u8>,
}

/// What a leaf certificate says.
struct Leaf {
    file: &'static str,
    what: &'static str,
    common_name: &'static str,
    organization: Option<&'static str>,
    /// Empty for a client certificate.
    names: Vec<String>,
}

impl Authority {
    fn open(folder: &Path, now: Timestamp) -> Result<Self, Error> {
        let (key, fresh) = files::key(folder, "ca.key")?;
        let mut params = CertificateParams::default();
        lifetime(&mut params, now, AUTHORITY_LIFETIME);
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, AUTHORITY_NAME);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];

        let path = folder.join("ca.crt");
        let kept = match files::read(&path)? {
            Some(pem) if !fresh && !ends_soon(&parse(&path, &pem)?.1, now) => Some(pem),
            _ => None,
        };
        let certificate = if let Some(pem) = kept {
            pem
        } else {
            let issued = params.self_signed(&key).map_err(|source| Error::Issue { what: "authority's", source })?.pem();
            files::write(&path, &issued)?;
            issued
        };
        let key_identifier = params.key_identifier(&key);
        Ok(Self { certificate, issuer: Issuer::new(params, key), key_identifier })
    }

    fn leaf(&self, folder: &Path, leaf: &Leaf, now: Timestamp) -> Result<Identity, Error> {
        let (key, fresh) = files::key(folder, &format!("{}.key", leaf.file))?;
        let path = folder.join(format!("{}.crt", leaf.file));
        if let Some(pem) = files::read(&path)?
            && !fresh
        {
            let (der, ends) = parse(&path, &pem)?;
            if !ends_soon(&ends, now) && self.issued(&der, &leaf.names) {
                return Ok(Identity { certificate: pem, key: key.serialize_pem() });
            }
        }
        let certificate = self.issue(leaf, &key, now).map_err(|source| Error::Issue { what: leaf.what, source })?;
        files::write(&path, &certificate)?;
        Ok(Identity { certificate, key: key.serialize_pem() })
    }

    fn issue(&self, leaf: &Leaf, key: &KeyPair, now: Timestamp) -> Result<String, rcgen::Error> {
        let mut params = CertificateParams::new(leaf.names.clone())?;
        lifetime(&mut params, now, LEAF_LIFETIME);
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(organization) = leaf.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.distinguished_name.push(DnType::CommonName, leaf.common_name);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![if leaf.names.is_empty() {
            ExtendedKeyUsagePurpose::ClientAuth
        } else {
            ExtendedKeyUsagePurpose::ServerAuth
        }];
        params.use_authority_key_identifier_extension = true;
        Ok(params.signed_by(key, &self.issuer)?.pem())
    }

    /// Whether this authority's key issued the certificate, for exactly these names.
    fn issued(&self, der: &CertificateDer<'_>, names: &[String]) -> bool {
        let Ok((_, certificate)) = X509Certificate::from_der(der) else { return false };
        let mut ours = false;
        let mut served = Vec::new();
        for extension in certificate.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::AuthorityKeyIdentifier(identifier) => {
                    ours = identifier.key_identifier.as_ref().is_some_and(|id| id.0 == self.key_identifier);
                }
                ParsedExtension::SubjectAlternativeName(alternative) => {
                    served = alternative.general_names.iter().filter_map(san).collect();
                }
                _ => {}
            }
        }
        let wanted = CertificateParams::new(names.to_vec()).map(|params| params.subject_alt_names);
        ours && wanted.is_ok_and(|wanted| wanted == served)
    }
}

fn san(name: &GeneralName<'_>) -> Option<SanType> {
    match name {
        GeneralName::DNSName(name) => Some(SanType::DnsName((*name).try_into().ok()?)),
        GeneralName::IPAddress(bytes) => {
            let address = <[u8; 4]>::try_from(*bytes)
                .map(IpAddr::from)
                .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from))
                .ok()?;
            Some(SanType::IpAddress(address))
        }
        _ => None,
    }
}

fn lifetime(params: &mut CertificateParams, now: Timestamp, lifetime: Duration) {
    let now = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now.as_second().unsigned_abs());
    params.not_before = now - SKEW;
    params.not_after = now + lifetime + DAY;
}

/// The DER form and when it ends.
fn parse(path: &Path, pem: &str) -> Result<(CertificateDer<'static>, Timestamp), Error> {
    let damaged = |why: String| Error::Damaged { path: path.display().to_string(), why };
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| damaged(error.to_string()))?;
    let (_, certificate) = X509Certificate::from_der(&der).map_err(|error| damaged(error.to_string()))?;
    let ends = Timestamp::from_second(certificate.validity().not_after.timestamp())
        .map_err(|error| damaged(error.to_string()))?;
    Ok((der, ends))
}

fn ends_soon(ends: &Timestamp, now: Timestamp) -> bool {
    ends.duration_since(now) < jiff::SignedDuration::try_from(RENEW_BEFORE).expect("sixty days fit")
}
