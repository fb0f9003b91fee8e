//! Ontologies: the axes, the types of their values, and the axes that identify the subject of a record.
//!
//! The RFC relies on an ontology that is not among the seeds (RFC-0001). The decisions on how to read the seeds define
//! one. An ontology is a registered document and immutable under its version.

pub mod template;

use super::axis::Axis;
use super::id::{FactTemplateId, OntologyId};
use domain_base::document::{Document, DocumentVersions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use template::{ParsedFactTemplate, TEMPLATES_MAX};
use utoipa::ToSchema;

pub use template::FactTemplate;

/// The most axes of an ontology.
pub const AXES_MAX: usize = 256;
/// The longest version, in bytes.
pub const VERSION_MAX_BYTES: usize = 64;

/// An ontology document: one version of a set of axes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ontology {
    /// The id, the same for all versions.
    pub ontology_id: OntologyId,
    /// The version: 1 to 64 visible ASCII characters.
    pub version: String,
    /// The axes. Records are sorted by the `identity` axes in this order.
    pub axes: Vec<Axis>,
    /// Sentences that turn records into facts, against which texts are checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fact_templates: Vec<FactTemplate>,
}

/// A reference to one version of an ontology.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OntologyRef {
    /// The ontology's id.
    pub ontology_id: OntologyId,
    /// The ontology's version.
    pub version: String,
}

impl std::fmt::Display for OntologyRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.ontology_id, self.version)
    }
}

/// Why an ontology document is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OntologyError {
    /// The version is empty, too long, or has other characters than visible ASCII.
    #[error("`version` is `{}` (1 to {VERSION_MAX_BYTES} visible ASCII characters allowed)", .0.chars().take(VERSION_MAX_BYTES).collect::<String>())]
    Version(String),
    /// The number of axes is out of range.
    #[error("`axes` has {0} entries (1 to {AXES_MAX} allowed)")]
    Axes(usize),
    /// No axis identifies the subject of a record.
    #[error("no axis is marked `identity`, so records cannot be distinguished")]
    NoIdentity,
    /// An axis is invalid.
    #[error("axis `{axis}`: {fault}")]
    Axis {
        /// The path of the axis.
        axis: String,
        fault: String,
    },
    /// The number of templates exceeds the limit.
    #[error("`fact_templates` has {0} entries (at most {TEMPLATES_MAX} allowed)")]
    Templates(usize),
    /// A template is invalid.
    #[error("template `{template_id}`: {fault}")]
    Template { template_id: FactTemplateId, fault: String },
}

impl Document for Ontology {
    const KIND: &'static str = "ontology";
    const DISTINGUISHING_MEMBER: &'static str = "ontology_id";
    const VERSIONS: DocumentVersions = DocumentVersions::Named;

    fn document_id(&self) -> String {
        self.reference().to_string()
    }
}

impl Ontology {
    /// Validates the document: its version, axes, identities and templates.
    ///
    /// # Errors
    /// The first fault found, with its location.
    pub fn validate(&self) -> Result<(), OntologyError> {
        if !is_version(&self.version) {
            return Err(OntologyError::Version(self.version.clone()));
        }
        if !(1..=AXES_MAX).contains(&self.axes.len()) {
            return Err(OntologyError::Axes(self.axes.len()));
        }
        let mut seen = BTreeSet::new();
        for axis in &self.axes {
            let fault = |fault: String| OntologyError::Axis { axis: axis.axis.clone(), fault };
            axis.validate().map_err(fault)?;
            if !seen.insert(axis.axis.as_str()) {
                return Err(fault("it is defined twice".into()));
            }
            let other = self.axes.iter().find(|other| other.axis != axis.axis && other.overlaps(axis));
            if let Some(other) = other {
                return Err(fault(format!("its path overlaps with the path of `{}`", other.axis)));
            }
        }
        if self.identity().next().is_none() {
            return Err(OntologyError::NoIdentity);
        }
        self.validate_templates()
    }

    fn validate_templates(&self) -> Result<(), OntologyError> {
        if self.fact_templates.len() > TEMPLATES_MAX {
            return Err(OntologyError::Templates(self.fact_templates.len()));
        }
        let mut seen = BTreeSet::new();
        for written in &self.fact_templates {
            let template_id = written.template_id.clone();
            let fault = |fault: String| OntologyError::Template { template_id, fault };
            if !seen.insert(&written.template_id) {
                return Err(fault("it is defined twice".into()));
            }
            ParsedFactTemplate::read(written, self).map_err(fault)?;
        }
        Ok(())
    }

    /// The reference to this version.
    #[must_use]
    pub fn reference(&self) -> OntologyRef {
        OntologyRef { ontology_id: self.ontology_id.clone(), version: self.version.clone() }
    }

    /// The axes that identify the subject of a record, in the order in which records are sorted.
    pub fn identity(&self) -> impl Iterator<Item = &Axis> {
        self.axes.iter().filter(|axis| axis.identity)
    }

    /// The axis with the path `path`. For a group, the path is accepted as written in the document or with a key in
    /// place of `*`.
    #[must_use]
    pub fn axis(&self, path: &str) -> Option<&Axis> {
        self.place(path).map(|(_, axis)| axis)
    }

    /// As [`Self::axis`], with the index of the axis.
    #[must_use]
    pub fn place(&self, path: &str) -> Option<(usize, &Axis)> {
        let axes = || self.axes.iter().enumerate();
        let written = axes().find(|(_, axis)| axis.axis == path);
        written.or_else(|| axes().find(|(_, axis)| axis.key_in(path).is_some()))
    }
}

/// Whether `text` is a valid version of a document or a source.
#[must_use]
pub fn is_version(text: &str) -> bool {
    (1..=VERSION_MAX_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

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

#[cfg(test)]
mod tests;
