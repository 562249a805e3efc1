//! Work in progress: a bar where there is a terminal, lines elsewhere.

use std::io::IsTerminal as _;

use deploy::{Event, EventKind, Report};
use indicatif::{ProgressBar, ProgressStyle};

use crate::style;

/// Shows events on stderr.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    pub fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::new(100);
        let look = ProgressStyle::with_template("{bar:30} {percent:>3}% {wide_msg}");
        bar.set_style(look.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(Some(bar))
    }
}

impl Report for Progress {
    fn event(&self, event: Event) {
        let Some(bar) = &self.0 else { return style::say(event.message) };
        if let Some(percent) = event.percent {
            bar.set_position(u64::try_from(percent).unwrap_or(100));
        }
        match event.kind {
            EventKind::Progress => bar.set_message(event.message),
            EventKind::Complete => {
                bar.finish_and_clear();
                style::say(event.message);
            }
            EventKind::Resource | EventKind::Error => bar.println(event.message),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
