//! Service account tokens: JWTs, signed with ES256, that live no longer than what they are bound to.
//!
//! A token names its service account and, when it was made for one, a Pod or Secret, each with its uid. Every
//! use asks the store whether they are still there, so deleting any of them revokes the token at once.

mod request;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::access::Access;
use crate::pki::Identity;
use crate::user::User;

/// Who signs, and the audience of tokens that ask for none.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// Objects that are being deleted stay good this long, so that a Pod can finish what it is doing.
const GRACE: SignedDuration = SignedDuration::from_secs(60);
/// Verified signatures remembered; checking one costs a hundred times a look-up.
const REMEMBERED: usize = 4096;

/// Why a token proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// Not a JWT, not ours, or changed.
    #[error("malformed, foreign or forged")]
    Signature,
    /// Its time is over.
    #[error("expired")]
    Expired,
    /// Its time has not come.
    #[error("not valid yet")]
    Early,
    /// It is for someone else.
    #[error("issued for another audience")]
    Audience,
    /// Something it is bound to is gone.
    #[error("the {0} it is bound to is gone")]
    Revoked(&'static str),
}

/// The key that cannot be used to sign tokens.
#[derive(Debug, thiserror::Error)]
#[error("the service account key cannot be used")]
pub struct KeyError(#[from] jsonwebtoken::errors::Error);

/// A name with the uid that tells it from its successors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reference {
    name: String,
    uid: String,
}

/// What a token says.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Vec<String>,
    exp: i64,
    nbf: i64,
    iat: i64,
    jti: String,
    #[serde(rename = "kubernetes.io")]
    bound: Bound,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Bound {
    namespace: String,
    serviceaccount: Reference,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Reference>,
}

/// A token that proved good.
pub struct Verified {
    /// Whom it stands for.
    pub user: User,
    /// For which of the audiences asked about.
    pub audiences: Vec<String>,
}

/// Signs and reads tokens. Cheap to clone.
#[derive(Clone)]
pub struct Tokens(Arc<Keys>);

struct Keys {
    signing: EncodingKey,
    verifying: DecodingKey,
    /// Claims by the hash of the token: the signature was good once, so it is good forever.
    known: Mutex<HashMap<[u8; 32], Claims>>,
}

impl Tokens {
    /// Signs with this key pair (see [`crate::pki::Pki::tokens`]).
    pub fn new(key: &Identity) -> Result<Self, KeyError> {
        Ok(Self(Arc::new(Keys {
            signing: EncodingKey::from_ec_pem(key.key.as_bytes())?,
            verifying: DecodingKey::from_ec_pem(key.certificate.as_bytes())?,
            known: Mutex::default(),
        })))
    }

    /// Signs with a key that nobody keeps: tokens end with the process.
    pub fn ephemeral() -> Result<Self, KeyError> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
            .map_err(|_| jsonwebtoken::errors::new_error(jsonwebtoken::errors::ErrorKind::InvalidEcdsaKey))?;
        Self::new(&Identity { certificate: key.public_key_pem(), key: key.serialize_pem() })
    }

    fn sign(&self, claims: &Claims) -> Result<String, KeyError> {
        Ok(jsonwebtoken::encode(&Header::new(Algorithm::ES256), claims, &self.0.signing)?)
    }

    /// The claims, when we signed them. Says nothing about time, audience or what is still alive.
    fn read(&self, token: &str) -> Result<Claims, Invalid> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(claims) = self.0.known.lock().get(&hash) {
            return Ok(claims.clone());
        }
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_issuer(&[ISSUER]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        // Ours to check, against the caller's clock and audience.
        validation.validate_exp = false;
        validation.validate_aud = false;
        let claims = jsonwebtoken::decode::<Claims>(token, &self.0.verifying, &validation)
            .map_err(|_| Invalid::Signature)?
            .claims;
        let mut known = self.0.known.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(hash, claims.clone());
        Ok(claims)
    }
}

/// What a live check needs to know about an object.
pub(crate) struct Live {
    pub(crate) uid: String,
    pub(crate) deleted: Option<Timestamp>,
    /// `spec.serviceAccountName`, for Pods.
    pub(crate) service_account: String,
}

impl Live {
    pub(crate) fn read(object: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
            #[serde(default)]
            spec: Spec,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            uid: String,
            deletion_timestamp: Option<Timestamp>,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            service_account_name: String,
        }
        let object: Object = serde_json::from_slice(object).ok()?;
        Some(Self {
            uid: object.metadata.uid,
            deleted: object.metadata.deletion_timestamp,
            service_account: object.spec.service_account_name,
        })
    }

    fn is(&self, reference: &Reference, now: Timestamp) -> bool {
        self.uid == reference.uid && self.deleted.is_none_or(|deleted| now.duration_since(deleted) < GRACE)
    }
}

impl Access {
    /// Checks a token. With no audiences asked about, it must be meant for this API.
    pub fn verify_token(&self, token: &str, audiences: &[String], now: Timestamp) -> Result<Verified, Invalid> {
        let claims = self.tokens.read(token)?;
        if now.as_second() >= claims.exp {
            return Err(Invalid::Expired);
        }
        if now.as_second() < claims.nbf {
            return Err(Invalid::Early);
        }
        let own = [ISSUER.to_owned()];
        let asked = if audiences.is_empty() { own.as_slice() } else { audiences };
        let audiences: Vec<String> = asked.iter().filter(|audience| claims.aud.contains(audience)).cloned().collect();
        if audiences.is_empty() {
            return Err(Invalid::Audience);
        }
        self.check_alive(&claims.bound, now)?;
        Ok(Verified { user: user(&claims), audiences })
    }

    fn check_alive(&self, bound: &Bound, now: Timestamp) -> Result<(), Invalid> {
        let bindings = [
            ("/serviceaccounts", "service account", Some(&bound.serviceaccount)),
            ("/pods", "Pod", bound.pod.as_ref()),
            ("/secrets", "Secret", bound.secret.as_ref()),
        ];
        for (resource, what, reference) in bindings {
            let Some(reference) = reference else { continue };
            let live = self.live(resource, &bound.namespace, &reference.name);
            if !live.is_some_and(|live| live.is(reference, now)) {
                return Err(Invalid::Revoked(what));
            }
        }
        Ok(())
    }
}

fn user(claims: &Claims) -> User {
    let bound = &claims.bound;
    let mut user = User::service_account(&bound.namespace, &bound.serviceaccount.name, &bound.serviceaccount.uid);
    let mut add = |key: &str, value: String| {
        user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
    };
    add("credential-id", format!("JTI={}", claims.jti));
    if let Some(pod) = &bound.pod {
        add("pod-name", pod.name.clone());
        add("pod-uid", pod.uid.clone());
    }
    user
}
