//! Checks whether a version of an ontology only adds to an older one, so that existing records keep their meaning.

use super::Ontology;
use crate::axis::Axis;

/// A change that would alter the meaning of existing records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("axis `{axis}`: {fault}")]
pub struct IncompatibleAxisError {
    axis: String,
    fault: String,
}

impl Ontology {
    /// Checks that records of `older` have the same meaning with this version.
    ///
    /// Its axes must have the same positions, by which index entries refer to them, and the same type, unit, class,
    /// identity and index. An enum must keep its values. New axes must come after the others and cannot be identities,
    /// because existing records have no value on them.
    ///
    /// # Errors
    /// The first axis that is changed or removed, or that is new and an identity.
    pub fn check_compatible_with(&self, older: &Self) -> Result<(), IncompatibleAxisError> {
        for (index, axis) in older.axes.iter().enumerate() {
            let fault = match self.axes.get(index).filter(|same| same.axis == axis.axis) {
                Some(same) => same.find_change(axis),
                None => Some(match self.axes.iter().position(|moved| moved.axis == axis.axis) {
                    Some(moved) => format!("its position would change from {index} to {moved}"),
                    None => "it would be removed".to_owned(),
                }),
            };
            if let Some(fault) = fault {
                return Err(IncompatibleAxisError { axis: axis.axis.clone(), fault });
            }
        }
        match self.axes.iter().skip(older.axes.len()).find(|axis| axis.identity) {
            Some(axis) => {
                let fault =
                    "it would be a new identity axis, for which existing records have no value".to_owned();
                Err(IncompatibleAxisError { axis: axis.axis.clone(), fault })
            }
            None => Ok(()),
        }
    }
}

impl Axis {
    /// The first property that records depend on and that differs from `before`.
    fn find_change(&self, before: &Self) -> Option<String> {
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
            changed.map(|(part, before, after)| format!("`{part}` would change from {before} to {after}"));
        let lost = || before.values.iter().find(|value| !self.values.contains(value));
        changed.or_else(|| lost().map(|value| format!("`{value}` would be removed from `values`")))
    }
}
