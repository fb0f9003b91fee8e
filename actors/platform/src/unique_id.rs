//! Ids of events and calls.
//!
//! An id stays in the log after an erasure. So it has a time and a random part, and nothing of what it names: neither an id of a
//! session nor a digest of a text, which a reader who guesses the text can confirm.

use jiff::Timestamp;
use ring::rand::{SystemRandom, generate};

/// The digits of the random part.
const TAG_DIGITS: usize = 10;

/// A new id. Ids of one kind sort by time as texts, and are unique across restarts and when the clock is set back.
pub fn unique_id(kind: char, at: Timestamp) -> String {
    let tag = format!("{:016x}", random_tag());
    format!("{kind}-{:014x}-{}", at.as_microsecond(), &tag[..TAG_DIGITS])
}

/// A random number that makes an id unique.
pub fn random_tag() -> u64 {
    let random = generate::<[u8; 8]>(&SystemRandom::new()).expect("the system has random numbers");
    u64::from_be_bytes(random.expose())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_same_time_differ_and_sort_by_time() {
        let at: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a time");
        let (first, second) = (unique_id('v', at), unique_id('v', at));
        assert_ne!(first, second);
        assert_eq!(first.len(), "v-0660bc5347f1ed-d07ba42cbb".len());
        let later = unique_id('v', at + jiff::SignedDuration::from_micros(1));
        assert!(first < later && second < later);
    }
}
