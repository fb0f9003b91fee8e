//! Counts by flag name, and below it by the places that flags name.

use oracled_domain::Flag;
use serde::Serialize;
use std::collections::BTreeMap;

/// So many places of one flag are counted by name. `unexpected_field` takes its places from the model's own
/// words, and a corpus may have any number of them.
const PLACES_NAMED: usize = 256;

/// One `T` for each flag name met, in the fixed order of flags. There are no more names than kinds of flag.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct ByFlag<T> {
    names: Vec<Named<T>>,
}

/// What is counted for one flag name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Named<T> {
    /// The flag's name, without a place.
    pub flag: &'static str,
    /// Its weight in V_r (dimensionless).
    pub v_r: f64,
    /// The E_D it stands for (dimensionless).
    pub e_d: f64,
    /// The counts; their fields stand beside `flag` in the JSON.
    #[serde(flatten)]
    pub counts: T,
    /// Any flag of the name: it sorts this one among the others.
    #[serde(skip)]
    order: Flag,
}

/// Counts by the place that a flag names: `Curvature` in `empty_analysis:Curvature`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Places {
    /// By place; the first 256 places that the corpus brings. Empty for a flag that names no place.
    pub places: BTreeMap<String, u64>,
    /// The count of all places beyond those.
    pub other_places: u64,
}

impl<T> Default for ByFlag<T> {
    fn default() -> Self {
        Self { names: Vec::new() }
    }
}

impl<T: Default> ByFlag<T> {
    /// The counts of the name of `flag`, which begin at their default.
    pub(crate) fn of(&mut self, flag: &Flag) -> &mut T {
        let known = self.names.iter().position(|named| named.flag == flag.into_str());
        let index = known.unwrap_or_else(|| self.insert(flag));
        &mut self.names.get_mut(index).expect("it was found, or has just been inserted").counts
    }

    fn insert(&mut self, flag: &Flag) -> usize {
        let index = self.names.partition_point(|named| named.order < *flag);
        let (v_r, e_d) = (flag.v_r(), flag.e_d());
        let named = Named { flag: flag.into_str(), v_r, e_d, counts: T::default(), order: flag.clone() };
        self.names.insert(index, named);
        index
    }

    /// The names met, in the fixed order of flags.
    #[must_use]
    pub(crate) fn names(&self) -> &[Named<T>] {
        &self.names
    }
}

impl Places {
    /// Counts the place of `flag`, where it names one.
    pub(crate) fn count(&mut self, flag: &Flag) {
        let word = flag.to_string();
        let Some((_, place)) = word.split_once(':') else { return };
        if let Some(count) = self.places.get_mut(place) {
            *count += 1;
        } else if self.places.len() < PLACES_NAMED {
            self.places.insert(place.to_owned(), 1);
        } else {
            self.other_places += 1;
        }
    }

    /// The places, the most frequent first, equally frequent ones by name.
    pub(crate) fn by_frequency(&self) -> Vec<(&str, u64)> {
        let mut places: Vec<(&str, u64)> =
            self.places.iter().map(|(place, count)| (place.as_str(), *count)).collect();
        places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        places
    }
}
