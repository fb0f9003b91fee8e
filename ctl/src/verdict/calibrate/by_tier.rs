//! One value for each tier.

use oracled_domain::Tier;
use serde::Serialize;

/// One value for each tier, and one for all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct ByTier<T> {
    /// All tiers together.
    pub all: T,
    /// Tier `quick`.
    pub quick: T,
    /// Tier `full`.
    pub full: T,
    /// Tier `strategy`.
    pub strategy: T,
}

impl<T> ByTier<T> {
    /// The value of one tier.
    #[must_use]
    pub(crate) const fn of(&self, tier: Tier) -> &T {
        match tier {
            Tier::Quick => &self.quick,
            Tier::Full => &self.full,
            Tier::Strategy => &self.strategy,
        }
    }

    /// All values with their names, `all` first.
    pub(crate) fn named(&self) -> [(&'static str, &T); 4] {
        let [quick, full, strategy] = Tier::ALL.map(|tier| (tier.into_str(), self.of(tier)));
        [("all", &self.all), quick, full, strategy]
    }

    /// The two values that a verdict of `tier` counts towards.
    pub(crate) fn both(&mut self, tier: Tier) -> [&mut T; 2] {
        let one = match tier {
            Tier::Quick => &mut self.quick,
            Tier::Full => &mut self.full,
            Tier::Strategy => &mut self.strategy,
        };
        [&mut self.all, one]
    }
}

impl ByTier<u64> {
    pub(crate) fn count(&mut self, tier: Tier) {
        for count in self.both(tier) {
            *count += 1;
        }
    }
}
