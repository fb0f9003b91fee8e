//! Counts by flag name, and for each flag by place.

use oracled_domain::Flag;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of places of one flag that are counted by name. `unexpected_field` has places from the
/// model's own text, and a corpus may have any number of them.
const PLACES_NAMED: usize = 256;

/// One `T` for each flag name that occurs, in the fixed order of flags. The number of names is at most the
/// number of kinds of flag.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct FlagTotals<T> {
    names: Vec<FlagTotal<T>>,
}

/// The counts of one flag name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct FlagTotal<T> {
    /// The flag's name, without a place.
    pub flag: &'static str,
    /// Its weight in V_r (dimensionless).
    pub v_r: f64,
    /// Its E_D (dimensionless).
    pub e_d: f64,
    /// The counts; in the JSON their fields are next to `flag`.
    #[serde(flatten)]
    pub counts: T,
    /// A flag with this name. It determines the position in the list.
    #[serde(skip)]
    order: Flag,
}

/// Counts by the place that a flag names: `Curvature` in `empty_analysis:Curvature`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct FlagPlaces {
    /// By place, for the first 256 places in the corpus. Empty for a flag without places.
    pub places: BTreeMap<String, u64>,
    /// The number of occurrences at all further places.
    pub other_places: u64,
}

impl<T> Default for FlagTotals<T> {
    fn default() -> Self {
        Self { names: Vec::new() }
    }
}

impl<T: Default> FlagTotals<T> {
    /// Returns the counts for the name of `flag`. A new name starts with the default counts.
    pub(crate) fn get_or_insert(&mut self, flag: &Flag) -> &mut T {
        let known = self.names.iter().position(|named| named.flag == flag.into_str());
        let index = known.unwrap_or_else(|| self.insert(flag));
        &mut self.names.get_mut(index).expect("the entry exists, or was just added").counts
    }

    fn insert(&mut self, flag: &Flag) -> usize {
        let index = self.names.partition_point(|named| named.order < *flag);
        let (v_r, e_d) = (flag.v_r(), flag.e_d());
        let named = FlagTotal { flag: flag.into_str(), v_r, e_d, counts: T::default(), order: flag.clone() };
        self.names.insert(index, named);
        index
    }

    /// The names that occur, in the fixed order of flags.
    #[must_use]
    pub(crate) fn names(&self) -> &[FlagTotal<T>] {
        &self.names
    }
}

impl FlagPlaces {
    /// Counts the place of `flag`, if it has one.
    pub(crate) fn count(&mut self, flag: &Flag) {
        let text = flag.to_string();
        let Some((_, place)) = text.split_once(':') else { return };
        if let Some(count) = self.places.get_mut(place) {
            *count += 1;
        } else if self.places.len() < PLACES_NAMED {
            self.places.insert(place.to_owned(), 1);
        } else {
            self.other_places += 1;
        }
    }

    /// The places with their counts: the most frequent first, equally frequent ones by name.
    pub(crate) fn by_frequency(&self) -> Vec<(&str, u64)> {
        let mut places: Vec<(&str, u64)> =
            self.places.iter().map(|(place, count)| (place.as_str(), *count)).collect();
        places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        places
    }
}
