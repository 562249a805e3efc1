use std::fmt;

/// What kind of failure it is; the words are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Not allowed.
    Permission,
    /// The pack or the configuration is wrong.
    Configuration,
    /// The object was refused.
    Resource,
    /// It took too long.
    Timeout,
    /// The other side could not be reached, or broke down.
    Network,
    /// It is not there.
    NotFound,
    /// It is not as we thought, or not ours.
    Conflict,
}

impl Category {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Permission => "permission",
            Self::Configuration => "configuration",
            Self::Resource => "resource",
            Self::Timeout => "timeout",
            Self::Network => "network",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
        }
    }
}

/// Why something could not be done, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", Hint(hint.as_deref()))]
pub struct Failure {
    /// What kind.
    pub category: Category,
    /// What happened.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

struct Hint<'a>(Option<&'a str>);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |hint| write!(f, " [hint: {hint}]"))
    }
}

impl Failure {
    /// A failure without advice.
    pub fn new(category: Category, message: impl Into<String>) -> Self {
        Self { category, message: message.into(), hint: None }
    }

    /// The same with advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same, with what was being done in front.
    #[must_use]
    pub fn during(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

/// Everything that stands in the way, so that it can be mended in one go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Problems(pub Vec<Failure>);

impl From<Failure> for Problems {
    fn from(failure: Failure) -> Self {
        Self(vec![failure])
    }
}
