//! How often a source publishes a new version (seed: `rfc-0002-ground-truth`, "Source Registry").

use serde::{Deserialize, Serialize};
use strum::VariantArray;
use utoipa::ToSchema;

/// How often a source publishes a new version.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema, VariantArray,
)]
#[serde(rename_all = "snake_case")]
pub enum UpdateFrequency {
    /// Continuously.
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
    /// No update is planned.
    Static,
    /// On request.
    OnDemand,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update_frequencies_have_the_names_of_the_seed() {
        let words = r#"["realtime","daily","weekly","monthly","quarterly","annual","static","on_demand"]"#;
        assert_eq!(serde_json::to_string(&UpdateFrequency::VARIANTS).expect("the value serializes"), words);
        let read: Vec<UpdateFrequency> = serde_json::from_str(words).expect("valid JSON");
        assert_eq!(read, UpdateFrequency::VARIANTS);
        serde_json::from_str::<UpdateFrequency>(r#""hourly""#).expect_err("an unknown frequency");
    }
}
