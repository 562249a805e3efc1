//! Chance that can be repeated: the same seed gives the same course of events.

use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// A source of chance that several parts of a run share.
#[derive(Clone)]
pub struct Chance(Arc<Mutex<StdRng>>);

impl Chance {
    /// The course of events of one seed.
    pub fn of(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// Something that happens once in so many times.
    pub fn one_in(&self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&self, end: usize) -> usize {
        self.0.lock().random_range(0..end)
    }
}
