//! Seeded mutations, so that the targets run wherever `cargo test` runs.
//!
//! This is no search guided by coverage (`cargo fuzz` is); it keeps the targets compiling and catches
//! what a few thousand small changes to good inputs can find. `FUZZ_ROUNDS` and `FUZZ_SEED` change
//! how many and which.

use std::path::Path;

/// Words that parsers care about.
const WORDS: &[&str] = &[
    "null",
    "{}",
    "[]",
    "\"\"",
    "-1",
    "0",
    "1e999",
    "9223372036854775808",
    "true",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "\"delete\"",
    "\"replace\"",
    "name",
    "metadata",
    "spec",
    "containers",
    "f:",
    "k:{}",
    "~1",
    "~0",
    "/-",
    "%2F",
    "%00",
    "..",
    " in (",
    ")",
    "!=",
    "==",
    "[*]",
    "[?(@.",
    "\\u0000",
    "é",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "default",
    "type",
    "object",
    "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
];

/// Runs a target on every file of `corpus` and on mutations of them.
pub fn run(corpus: &Path, target: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    let mut inputs: Vec<Vec<u8>> = std::fs::read_dir(corpus)
        .expect("the corpus is there")
        .map(|entry| std::fs::read(entry.expect("a file").path()).expect("readable"))
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "the corpus {} is empty", corpus.display());
    let number =
        |name: &str, otherwise: u64| std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise);
    let (seed, rounds) = (number("FUZZ_SEED", 0x0117_e470), number("FUZZ_ROUNDS", 2_000));
    for input in &inputs {
        check(&target, input, seed, 0);
    }
    let mut random = Random(seed | 1);
    for round in 1..=rounds {
        let mut input = inputs[random.below(inputs.len())].clone();
        for _ in 0..=random.below(4) {
            mutate(&mut input, &inputs, &mut random);
        }
        check(&target, &input, seed, round);
    }
}

fn check(target: &(impl Fn(&[u8]) + std::panic::RefUnwindSafe), input: &[u8], seed: u64, round: u64) {
    if let Err(panic) = std::panic::catch_unwind(|| target(input)) {
        let words =
            panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        panic!("seed {seed}, round {round}: {}\ninput: {}", words.unwrap_or("?"), String::from_utf8_lossy(input));
    }
}

fn mutate(input: &mut Vec<u8>, inputs: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + random.below(16)).min(input.len());
    match random.below(6) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 => drop(input.drain(at..end)),
        2 => {
            let copy = input[at..end].to_vec();
            let place = random.below(input.len() + 1);
            input.splice(place..place, copy);
        }
        3 => {
            let other = &inputs[random.below(inputs.len())];
            let from = random.below(other.len() + 1);
            let until = (from + random.below(40)).min(other.len());
            input.splice(at..end, other[from..until].iter().copied());
        }
        _ => {
            let word = WORDS[random.below(WORDS.len())].as_bytes();
            input.splice(at..end.min(at + random.below(2)), word.iter().copied());
        }
    }
}

/// Xorshift: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (limit as u64)).unwrap_or_default()
    }
}
