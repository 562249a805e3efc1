//! The pack and the tools: files that change under a running process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::omnia::pack::Pack;
use api::omnia::tools::ToolsFile;
use parking_lot::Mutex;

/// A file that is read again when asked, and parsed again when it changed.
pub(crate) struct Watched<T> {
    path: PathBuf,
    parse: fn(&str) -> Result<T, String>,
    last: Mutex<Option<(String, Arc<T>)>>,
}

impl<T> Watched<T> {
    /// What the file says now. A content that cannot be read leaves the one before in place, and is logged.
    pub(crate) fn now(&self) -> Result<Arc<T>, String> {
        let read = std::fs::read_to_string(&self.path).map_err(|error| format!("{}: {error}", self.path.display()));
        let mut last = self.last.lock();
        let parsed = read.and_then(|text| match &*last {
            Some((before, known)) if *before == text => Ok((text, known.clone())),
            _ => (self.parse)(&text).map(|parsed| (text, Arc::new(parsed))),
        });
        match (parsed, &*last) {
            (Ok(fresh), _) => {
                let known = fresh.1.clone();
                *last = Some(fresh);
                Ok(known)
            }
            (Err(error), Some((_, known))) => {
                tracing::error!(error, "the file cannot be used; what it said before still holds");
                Ok(known.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    /// A digest of what the file said last, as the names of kept contents have it.
    pub(crate) fn digest(&self) -> Option<String> {
        self.last.lock().as_ref().map(|(text, _)| api::omnia::names::digest([text.as_str()]))
    }
}

/// The pack.
pub(crate) fn pack(path: &Path) -> Watched<Pack> {
    let parse = |text: &str| Pack::parse(text).map_err(|invalid| invalid.to_string());
    Watched { path: path.to_owned(), parse, last: Mutex::new(None) }
}

/// The tools.
pub(crate) fn tools(path: &Path) -> Watched<ToolsFile> {
    let parse = |text: &str| serde_saphyr::from_str(text).map_err(|error| error.to_string());
    Watched { path: path.to_owned(), parse, last: Mutex::new(None) }
}
