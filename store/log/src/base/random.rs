//! Random bytes of the operating system; in unit tests of this crate, those of a seed if one is set.

use store_base::error::StoreError;

/// Random bytes.
///
/// # Errors
/// `Unavailable` if the system has none.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    #[cfg(test)]
    if seeded::fill(&mut bytes) {
        return Ok(bytes);
    }
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::Unavailable { cause: format!("no random numbers: {error}") })?;
    Ok(bytes)
}

/// A seed in place of the operating system's generator. No program has it: a test of the daemon searches for [`seeded::MARKER`].
#[cfg(test)]
pub(crate) mod seeded {
    use std::cell::RefCell;

    /// A text that is in each program with the seeded generator.
    pub(crate) const MARKER: &str = "the random numbers of a store come from a seed";

    thread_local! {
        static GENERATOR: RefCell<Option<fastrand::Rng>> = const { RefCell::new(None) };
    }

    /// Fills `bytes`, if this thread has a seed.
    pub(super) fn fill(bytes: &mut [u8]) -> bool {
        GENERATOR.with_borrow_mut(|generator| {
            let seeded = generator.as_mut().map(|generator| generator.fill(bytes));
            seeded.is_some()
        })
    }

    /// Runs `run` with random numbers of `seed` on this thread.
    pub(crate) fn with_seed<T>(seed: u64, run: impl FnOnce() -> T) -> T {
        println!("{MARKER}: {seed}");
        GENERATOR.set(Some(fastrand::Rng::with_seed(seed)));
        let result = run();
        GENERATOR.set(None);
        result
    }
}
