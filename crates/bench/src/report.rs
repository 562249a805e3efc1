//! Numbers into words.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

/// A part of the report.
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// What was measured, where and how.
    pub introduction: String,
    /// The rows of its table.
    pub rows: Vec<Row>,
}

/// One measured quantity.
pub struct Row {
    /// What it is.
    pub name: &'static str,
    /// Ours.
    pub orrery: Number,
    /// Theirs, if they are there.
    pub kubernetes: Option<Number>,
    /// What we want.
    pub target: Option<Target>,
}

/// A quantity in its unit.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// Per second: more is better.
    Rate(f64),
    /// Less is better.
    Time(Duration),
    /// Bytes: less is better.
    Size(u64),
    /// Of things: less is better.
    Count(f64),
}

/// What we want a number to be.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At least so many times better than theirs.
    Times(f64),
    /// No more than this.
    AtMost(Number),
}

impl Number {
    fn raw(self) -> f64 {
        match self {
            Self::Rate(number) | Self::Count(number) => number,
            Self::Time(time) => time.as_secs_f64(),
            #[expect(clippy::cast_precision_loss, reason = "for people to read")]
            Self::Size(bytes) => bytes as f64,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Rate(rate) => format!("{rate:.0}/s"),
            Self::Time(time) => milliseconds(time),
            Self::Size(_) => format!("{:.1} MB", self.raw() / 1e6),
            Self::Count(count) if count.fract() == 0.0 => format!("{count:.0}"),
            Self::Count(count) => format!("{count:.2}"),
        }
    }

    /// How many times better this is than the other.
    fn better_than(self, other: Self) -> f64 {
        match self {
            Self::Rate(rate) => rate / other.raw(),
            Self::Time(_) | Self::Size(_) | Self::Count(_) => other.raw() / self.raw(),
        }
    }

    /// The one in the middle.
    pub fn median(mut numbers: Vec<Self>) -> Option<Self> {
        numbers.sort_by(|one, other| one.raw().total_cmp(&other.raw()));
        numbers.get(numbers.len() / 2).copied()
    }
}

impl Row {
    /// The medians of what was measured in each round, where there is nothing to compare with.
    pub fn of(rows: &[(&'static str, Option<Target>)], rounds: &[Vec<Number>]) -> Result<Vec<Self>> {
        let row = |(index, (name, target)): (usize, &(&'static str, Option<Target>))| {
            let numbers = rounds.iter().map(|round| round[index]).collect();
            let orrery = Number::median(numbers).context("no round was measured")?;
            Ok(Self { name, orrery, kubernetes: None, target: *target })
        };
        rows.iter().enumerate().map(row).collect()
    }

    fn line(&self) -> String {
        let ratio = self.kubernetes.map(|theirs| self.orrery.better_than(theirs));
        let (target, met) = match self.target {
            None => (String::new(), None),
            Some(Target::Times(times)) => (format!("≥ {times:.0} times better"), ratio.map(|ratio| ratio >= times)),
            Some(Target::AtMost(number)) => (format!("≤ {}", number.text()), Some(self.orrery.raw() <= number.raw())),
        };
        format!(
            "| {} | {} | {} | {} | {} | {} |",
            self.name,
            self.orrery.text(),
            self.kubernetes.map_or("–".to_owned(), Number::text),
            ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.1} times")),
            target,
            met.map_or("", |met| if met { "yes" } else { "**no**" }),
        )
    }
}

impl Section {
    /// The table, as Markdown.
    pub fn table(&self) -> String {
        let mut table =
            "| | Orrery | kube-apiserver + etcd | better by | target | met |\n|---|---|---|---|---|---|\n".to_owned();
        for row in &self.rows {
            // Writing into a string cannot fail.
            let _ = writeln!(table, "{}", row.line());
        }
        table
    }
}

/// Puts a section into the report, in place of what an earlier run wrote there.
pub fn write(path: &Path, name: &str, section: &Section) -> Result<()> {
    let (open, close) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let old = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "# Benchmarks\n\nWritten by `make bench`. Every section says how it was measured; the numbers are of one run.\n".to_owned()
        }
        Err(error) => return Err(error.into()),
    };
    let part = format!("{open}\n## {}\n\n{}\n\n{}{close}", section.title, section.introduction, section.table());
    let new = match (old.find(&open), old.find(&close)) {
        (Some(start), Some(end)) if start < end => {
            format!("{}{part}{}", &old[..start], &old[end + close.len()..])
        }
        _ => format!("{}\n\n{part}\n", old.trim_end()),
    };
    std::fs::write(path, new).with_context(|| format!("failed to write {}", path.display()))
}

/// The value below which this share of all lies.
pub fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let index = (times.len() as f64 * share) as usize;
    times.get(index.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// A time for people.
pub fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    if milliseconds < 100.0 { format!("{milliseconds:.2} ms") } else { format!("{milliseconds:.0} ms") }
}
