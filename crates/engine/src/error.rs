//! What can go wrong while looking or writing, and what follows from it.

use std::fmt;

/// A request that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused, or could not be reached.
    #[error("the Kubernetes API request failed")]
    Api(#[from] kube::Error),
    /// The request could not be built; a name is not what Kubernetes allows.
    #[error("the request could not be built")]
    Request(#[source] kube::core::request::Error),
    /// Something outside of Kubernetes that a controller asked while observing.
    #[error("{0}")]
    Other(String),
}

impl Error {
    pub(crate) fn request(error: kube::core::request::Error) -> Self {
        Self::Request(error)
    }

    fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Api(kube::Error::Api(status)) => Some(status),
            _ => None,
        }
    }

    /// The HTTP status code, when the server answered at all.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// The object is not there.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The version asked for is no longer kept.
    pub(crate) fn is_expired(&self) -> bool {
        self.code() == Some(410) || self.status().is_some_and(|status| status.reason == "Expired")
    }

    pub(crate) fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// A precondition failed: the object is not what we thought.
    pub(crate) fn is_stale(&self) -> bool {
        self.code() == Some(409) && !self.is_already_exists() && !self.is_field_conflict()
    }

    /// Another field manager holds a field that we wanted to set.
    pub(crate) fn is_field_conflict(&self) -> bool {
        let causes = self.status().and_then(|status| status.details.as_ref()).map(|details| &details.causes);
        causes.is_some_and(|causes| causes.iter().any(|cause| cause.reason == "FieldManagerConflict"))
    }

    /// The namespace is going away: nothing can be created in it, and nothing needs to be.
    pub(crate) fn is_terminating(&self) -> bool {
        let causes = self.status().and_then(|status| status.details.as_ref()).map(|details| &details.causes);
        causes.is_some_and(|causes| causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
    }

    /// The error and everything behind it on one line; the server's own words when it spoke.
    pub fn chain(&self) -> impl fmt::Display + '_ {
        Chain(self)
    }
}

struct Chain<'a>(&'a Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(status) = self.0.status() {
            return f.write_str(&status.message);
        }
        write!(f, "{}", self.0)?;
        let mut source = std::error::Error::source(self.0);
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

/// Why a step of a decision could not be done, for the condition that tells the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A stable word: `Conflict`, `Invalid`, `Forbidden`, `Terminating`, `Unavailable`.
    pub reason: &'static str,
    /// The sentence a human reads.
    pub message: String,
    /// What follows.
    pub kind: FailureKind,
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Try again with growing delays.
    Transient,
    /// Look again when the obstacle changes, and after 30 s at the latest.
    Waiting,
    /// Wait for a change.
    Permanent,
}

impl Failure {
    /// Sorts a refused request by what should follow from it.
    pub(crate) fn of(what: &str, error: &Error) -> Self {
        let (reason, kind) = match error.code() {
            _ if error.is_terminating() => ("Terminating", FailureKind::Waiting),
            _ if error.is_field_conflict() => ("Conflict", FailureKind::Waiting),
            Some(400 | 413 | 422) => ("Invalid", FailureKind::Permanent),
            Some(401 | 403) => ("Forbidden", FailureKind::Transient),
            Some(404) => ("NotFound", FailureKind::Transient),
            _ => ("Unavailable", FailureKind::Transient),
        };
        Self { reason, message: format!("{what}: {}", error.chain()), kind }
    }
}
