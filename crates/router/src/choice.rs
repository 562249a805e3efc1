//! Which side a session belongs to.

use api::omnia::routing::Routing;
use sha2::{Digest as _, Sha256};

/// A side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The active version.
    Stable,
    /// The new version.
    Canary,
}

impl Side {
    /// The word in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Canary => "canary",
        }
    }
}

/// Points on the line that sessions are spread over; a percent is a hundred of them.
const POINTS: u64 = 10_000;

/// The side of a session. Each session has its point on a line, and the new version has the line up to its share: a larger
/// share takes sessions over and gives none back.
pub fn side(routing: &Routing, session: &str) -> Side {
    let mut hash = Sha256::new();
    hash.update(routing.salt.len().to_be_bytes());
    hash.update(&routing.salt);
    hash.update(session);
    let mut first = [0; 8];
    first.copy_from_slice(&hash.finalize()[..8]);
    let share = u64::try_from(routing.weight.clamp(0, 100)).unwrap_or(0) * (POINTS / 100);
    if u64::from_be_bytes(first) % POINTS < share { Side::Canary } else { Side::Stable }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routing(weight: i32, salt: &str) -> Routing {
        Routing {
            stable: String::new(),
            canary: String::new(),
            weight,
            salt: salt.into(),
            window: String::new(),
            session_header: String::new(),
            session_cookie: String::new(),
            retiring: false,
        }
    }

    #[test]
    fn ten_percent_of_ten_thousand_sessions_are_a_thousand_within_a_point() {
        for salt in ["support-aa", "support-bb", ""] {
            let routing = routing(10, salt);
            let chosen = (0..10_000).filter(|id| side(&routing, &format!("session-{id}")) == Side::Canary).count();
            assert!((900..=1100).contains(&chosen), "{chosen}");
        }
    }

    #[test]
    fn a_larger_share_takes_over_and_gives_none_back() {
        for id in 0..1000 {
            let sides: Vec<Side> =
                (0..=100).map(|weight| side(&routing(weight, "s"), &format!("session-{id}"))).collect();
            assert_eq!((sides[0], sides[100]), (Side::Stable, Side::Canary));
            let switches = sides.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert_eq!(switches, 1, "it moves once on the way from nothing to all");
        }
    }
}
