//! Who asks a server.

use std::collections::BTreeMap;

use api::omnia::AuthType;
use api::omnia::tools::Access;
use base64::Engine as _;
use http::header::HeaderValue;

use crate::call::Secret;
use crate::client::Error;

/// What every request to one server has: headers, and who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller {
    /// Headers.
    pub headers: BTreeMap<String, String>,
    /// Who asks.
    pub credentials: Credentials,
}

impl Caller {
    /// As a tool's entry says, whose credentials are in a variable.
    pub(crate) fn of(access: &Access, secret: Secret<'_>) -> Result<Self, Error> {
        let headers = access.headers.clone();
        let Some(variable) = access.auth_env.as_deref().filter(|_| access.auth_type != AuthType::None) else {
            return Ok(Self { headers, credentials: Credentials::default() });
        };
        let secret =
            secret(variable).ok_or_else(|| Error::Invalid(format!("the credentials in {variable} are missing")))?;
        let credentials = Credentials::new(access.auth_type, &secret);
        let unfit = || Error::Invalid(format!("the credentials in {variable} cannot be sent in a header"));
        Ok(Self { headers, credentials: credentials.ok_or_else(unfit)? })
    }
}

/// What a request says in its header `authorization`. It is never shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credentials(pub(crate) Option<HeaderValue>);

impl Credentials {
    /// From a token, or from user:password. `None` if it cannot be sent in a header.
    pub fn new(type_: AuthType, secret: &str) -> Option<Self> {
        let secret = secret.trim();
        let words = match type_ {
            AuthType::None => return Some(Self::default()),
            AuthType::Bearer => format!("Bearer {secret}"),
            AuthType::Basic => {
                let pair = if secret.contains(':') { secret.to_owned() } else { format!("{secret}:") };
                format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
            }
        };
        let mut value = HeaderValue::from_str(&words).ok()?;
        // Whoever prints it sees that there is one.
        value.set_sensitive(true);
        Some(Self(Some(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_never_shown() {
        let credentials = Credentials::new(AuthType::Bearer, "hush\n").expect("a token");
        assert_eq!(credentials.0.as_ref().map(HeaderValue::as_bytes), Some(&b"Bearer hush"[..]));
        let caller = Caller { headers: BTreeMap::new(), credentials };
        assert!(!format!("{caller:?}").contains("hush"), "{caller:?}");
        assert_eq!(Credentials::new(AuthType::Bearer, "two\nlines"), None);
    }
}
