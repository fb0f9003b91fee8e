//! One value for each tier.

use oracled_domain::ProductTier;
use serde::Serialize;

/// One value for each tier, and one for all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct TierTotals<T> {
    /// All tiers together.
    pub all: T,
    /// Tier `quick`.
    pub quick: T,
    /// Tier `full`.
    pub full: T,
    /// Tier `strategy`.
    pub strategy: T,
}

impl<T> TierTotals<T> {
    /// The value of one tier.
    #[must_use]
    pub(crate) const fn get(&self, tier: ProductTier) -> &T {
        match tier {
            ProductTier::Quick => &self.quick,
            ProductTier::Full => &self.full,
            ProductTier::Strategy => &self.strategy,
        }
    }

    /// All values with their names, `all` first.
    pub(crate) fn named_values(&self) -> [(&'static str, &T); 4] {
        let [quick, full, strategy] = ProductTier::ALL.map(|tier| (tier.into_str(), self.get(tier)));
        [("all", &self.all), quick, full, strategy]
    }

    /// The two values that a verdict of `tier` counts towards.
    pub(crate) fn both_mut(&mut self, tier: ProductTier) -> [&mut T; 2] {
        let one = match tier {
            ProductTier::Quick => &mut self.quick,
            ProductTier::Full => &mut self.full,
            ProductTier::Strategy => &mut self.strategy,
        };
        [&mut self.all, one]
    }
}

impl TierTotals<u64> {
    pub(crate) fn count(&mut self, tier: ProductTier) {
        for count in self.both_mut(tier) {
            *count += 1;
        }
    }
}
