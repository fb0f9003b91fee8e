//! How often a source brings out a new version (seed: `rfc-0002-ground-truth`, "Source Registry").

use serde::{Deserialize, Serialize};
use strum::VariantArray;

/// How often a source brings out a new version, in the seed's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum UpdateFrequency {
    /// All the time.
    Realtime,
    /// Every day.
    Daily,
    /// Every week.
    Weekly,
    /// Every month.
    Monthly,
    /// Every quarter.
    Quarterly,
    /// Every year.
    Annual,
    /// Never, as far as is planned.
    Static,
    /// When somebody asks for it.
    OnDemand,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frequencies_are_the_seeds() {
        let words = r#"["realtime","daily","weekly","monthly","quarterly","annual","static","on_demand"]"#;
        assert_eq!(serde_json::to_string(&UpdateFrequency::VARIANTS).expect("it is written"), words);
        let read: Vec<UpdateFrequency> = serde_json::from_str(words).expect("it is read");
        assert_eq!(read, UpdateFrequency::VARIANTS);
        serde_json::from_str::<UpdateFrequency>(r#""hourly""#).expect_err("it is none of the seed's");
    }
}
