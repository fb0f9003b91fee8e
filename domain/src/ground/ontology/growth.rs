//! Whether a version of an ontology only adds to another, so that records that were made by the one are read by the other.

use super::Ontology;
use crate::ground::axis::Axis;

/// What records depend on and a version does not keep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("axis `{axis}`: {fault}")]
pub struct NotKept {
    axis: String,
    fault: String,
}

impl Ontology {
    /// Whether records that were made by `older` mean the same by this version.
    ///
    /// Its axes are at their places, by which index entries name them, with the same type, unit, class, identity and index,
    /// and what words they have. What is new stands behind them and is no identity: the records have no value of it.
    ///
    /// # Errors
    /// The first axis that is not kept, or new and an identity.
    pub fn keeps(&self, older: &Self) -> Result<(), NotKept> {
        for (place, axis) in older.axes.iter().enumerate() {
            let fault = match self.axes.get(place).filter(|same| same.axis == axis.axis) {
                Some(same) => same.change_of(axis),
                None => Some(match self.axes.iter().position(|moved| moved.axis == axis.axis) {
                    Some(moved) => format!("it is at place {place}, and would be at {moved}"),
                    None => "it would not be there any more".to_owned(),
                }),
            };
            if let Some(fault) = fault {
                return Err(NotKept { axis: axis.axis.clone(), fault });
            }
        }
        match self.axes.iter().skip(older.axes.len()).find(|axis| axis.identity) {
            Some(axis) => {
                let fault = "it would be an identity that the records do not have".to_owned();
                Err(NotKept { axis: axis.axis.clone(), fault })
            }
            None => Ok(()),
        }
    }
}

impl Axis {
    /// What of `before` records depend on and this axis does not keep.
    fn change_of(&self, before: &Self) -> Option<String> {
        let unit = |axis: &Self| axis.unit.clone().unwrap_or_else(|| "none".to_owned());
        let parts = [
            ("type", before.kind.into_str().to_owned(), self.kind.into_str().to_owned()),
            ("unit", unit(before), unit(self)),
            ("class", before.class.into_str().to_owned(), self.class.into_str().to_owned()),
            ("identity", before.identity.to_string(), self.identity.to_string()),
            ("indexed", before.indexed.to_string(), self.indexed.to_string()),
        ];
        let changed = parts.into_iter().find(|(_, before, after)| before != after);
        let changed =
            changed.map(|(part, before, after)| format!("`{part}` is {before}, and would be {after}"));
        let lost = || before.values.iter().find(|value| !self.values.contains(value));
        changed.or_else(|| lost().map(|value| format!("`values` would not have `{value}` any more")))
    }
}
