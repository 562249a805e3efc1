//! Names made up by controllers: the same input gives the same name, so that doing something twice does it once.

/// Letters and digits that spell no words, as in Kubernetes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// FNV-1a: stable over time and machines, unlike the standard library's hasher.
pub fn hash(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

/// A hash as so many letters of the safe alphabet.
pub fn letters(mut hash: u64, count: usize) -> String {
    let base = ALPHABET.len() as u64;
    // FNV mixes its high bits best.
    hash ^= hash >> 32;
    let letter = |_| {
        let index = usize::try_from(hash % base).unwrap_or_default();
        hash /= base;
        char::from(ALPHABET[index])
    };
    (0..count).map(letter).collect()
}

/// `base-suffix`, short enough for a label.
pub fn with_suffix(base: &str, suffix: &str) -> String {
    let room = 62_usize.saturating_sub(suffix.len());
    let mut end = base.len().min(room);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{suffix}", base[..end].trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stable_and_short() {
        assert_eq!(letters(hash(&["a", "b"]), 5), letters(hash(&["a", "b"]), 5));
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        assert_eq!(letters(hash(&["a"]), 10).len(), 10);
        assert_eq!(with_suffix(&"x".repeat(80), "abcde").len(), 63);
        assert_eq!(with_suffix("web", "abcde"), "web-abcde");
    }
}
