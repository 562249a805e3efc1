//! Query parameters, typed where they have a type.

use machinery::status::Status;

use super::percent_decode;

/// The query string of a request. Unknown parameters are ignored, as clients expect; known ones
/// with a bad value are refused.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent parameters")]
pub struct Query {
    /// `watch`
    pub watch: bool,
    /// `allowWatchBookmarks`
    pub allow_watch_bookmarks: bool,
    /// `sendInitialEvents`
    pub send_initial_events: Option<bool>,
    /// `resourceVersion`
    pub resource_version: String,
    /// `resourceVersionMatch`
    pub resource_version_match: String,
    /// `timeoutSeconds`
    pub timeout_seconds: Option<u64>,
    /// `limit`
    pub limit: Option<u64>,
    /// `continue`
    pub continuation: String,
    /// `labelSelector`
    pub label_selector: String,
    /// `fieldSelector`
    pub field_selector: String,
    /// `dryRun=All`
    pub dry_run: bool,
    /// `force`
    pub force: Option<bool>,
    /// `fieldManager`
    pub field_manager: String,
    /// `fieldValidation`
    pub field_validation: String,
    /// `pretty`
    pub pretty: bool,
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads a raw query string.
    pub fn parse(raw: &str) -> Result<Self, Status> {
        let mut pairs = Vec::new();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode_form(key)?, decode_form(value)?));
        }
        let mut query = Self { pairs, ..Self::default() };
        query.watch = query.flag("watch").unwrap_or(false);
        query.allow_watch_bookmarks = query.flag("allowWatchBookmarks").unwrap_or(false);
        query.send_initial_events = query.flag("sendInitialEvents");
        query.force = query.flag("force");
        // `?pretty` without a value means yes; anything but an explicit no does too.
        query.pretty = query.get("pretty").is_some_and(|value| !matches!(value, "false" | "0"));
        query.timeout_seconds = query.number("timeoutSeconds")?;
        query.limit = query.signed("limit")?.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0);
        query.resource_version = query.text("resourceVersion");
        query.resource_version_match = query.text("resourceVersionMatch");
        query.continuation = query.text("continue");
        query.label_selector = query.text("labelSelector");
        query.field_selector = query.text("fieldSelector");
        query.field_manager = query.text("fieldManager");
        query.field_validation = query.text("fieldValidation");
        let dry_run = query.all("dryRun").any(|value| value == "All");
        query.dry_run = dry_run;
        Ok(query)
    }

    /// The first value of a parameter.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter, in order.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// A boolean parameter: anything but `false` and `0` is yes, also no value at all.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// A whole number.
    pub fn number(&self, key: &str) -> Result<Option<u64>, Status> {
        match self.get(key) {
            None | Some("") => Ok(None),
            Some(value) => self
                .signed(key)?
                .and_then(|number| u64::try_from(number).ok())
                .map(Some)
                .ok_or_else(|| bad_parameter(key, value, "must be a whole number, zero or more")),
        }
    }

    fn signed(&self, key: &str) -> Result<Option<i64>, Status> {
        match self.get(key) {
            None | Some("") => Ok(None),
            Some(value) => value.parse().map(Some).map_err(|_| bad_parameter(key, value, "must be a whole number")),
        }
    }

    fn text(&self, key: &str) -> String {
        self.get(key).unwrap_or_default().to_owned()
    }
}

fn bad_parameter(key: &str, value: &str, why: &str) -> Status {
    Status::bad_request(format!("invalid query parameter {key}={value:?}: {why}"))
}

fn decode_form(raw: &str) -> Result<String, Status> {
    let spaced = raw.replace('+', " ");
    percent_decode(&spaced).ok_or_else(|| Status::bad_request("the query is not valid percent-encoded UTF-8"))
}
