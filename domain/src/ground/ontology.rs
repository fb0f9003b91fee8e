//! Ontologies: which axes there are, what their values are, and which of them say what a record speaks of.
//!
//! The RFC leans on an ontology that is not among the seeds (RFC-0001); what one is here, the decisions on how to read the
//! seeds say. An ontology is a registered document, and immutable under its version.

mod growth;
pub mod template;

pub use growth::NotKept;
pub use template::FactTemplate;

use super::digest_of_json;
use super::id::{OntologyId, TemplateId};
use crate::base::blank::is_blank;
use crate::base::decimal::{self, Decimal, PLACES_MAX, PLACES_MIN};
use crate::base::digest::Sha256Hex;
use crate::base::unit::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use template::{TEMPLATES_MAX, Template};
use utoipa::ToSchema;

/// The most axes of an ontology.
pub const AXES_MAX: usize = 256;
/// The most values of an enumeration.
pub const ENUM_VALUES_MAX: usize = 10_000;
/// The longest version, in bytes.
pub const VERSION_MAX_BYTES: usize = 64;
/// The longest path of an axis, in bytes.
const PATH_MAX_BYTES: usize = 128;
/// The longest key of a group, in bytes.
pub const GROUP_KEY_MAX_BYTES: usize = 64;

/// A version of an ontology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ontology {
    /// Its id, the same for all versions.
    pub ontology_id: OntologyId,
    /// Which version.
    pub version: String,
    /// The axes; the order of those that are `identity` is the order of records.
    pub axes: Vec<Axis>,
    /// How what records say is put into words, for text to be checked against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fact_templates: Vec<FactTemplate>,
}

/// Which version of which ontology.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OntologyRef {
    /// Its id.
    pub ontology_id: OntologyId,
    /// Its version.
    pub version: String,
}

impl std::fmt::Display for OntologyRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.ontology_id, self.version)
    }
}

/// One axis: something that records have a value of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Its path: names separated by full stops, where one may be `*`, a keyed group (`nutrients.*.amount`).
    pub axis: String,
    /// What its values are.
    #[serde(rename = "type")]
    pub kind: AxisType,
    /// The UCUM code of the unit that its values are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The values of an enumeration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Who can know it.
    pub class: AxisClass,
    /// Whether it says which real thing a record speaks of.
    #[serde(default, skip_serializing_if = "is_false")]
    pub identity: bool,
    /// Whether records are looked up by it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub indexed: bool,
    /// Whether its value may change at any moment, so that what is known of it must be of bounded age.
    #[serde(default, skip_serializing_if = "is_false")]
    pub state_sensitive: bool,
    /// The oldest that a value may be, in seconds, whatever a policy allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ttl_seconds: Option<u64>,
    /// Digits behind the point up to which two values are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<i32>,
    /// The difference up to which two values are the same, as a part of the larger magnitude: 0.01 is one hundredth.
    #[serde(default, deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    pub relative_tolerance: Option<Decimal>,
    /// Which way is the careful one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conservative: Option<Conservative>,
    /// What it is, for people.
    pub description: String,
}

/// What the values of an axis are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisType {
    /// Decimal numbers.
    Number,
    /// Whole numbers.
    Integer,
    /// Text.
    String,
    /// True or false.
    Boolean,
    /// Days or moments, as RFC 3339 has them.
    Date,
    /// One of some words.
    Enum,
}

impl AxisType {
    /// Whether its values are numbers.
    #[must_use]
    pub const fn is_numeric(self) -> bool {
        matches!(self, Self::Number | Self::Integer)
    }

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Integer => "integer",
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::Enum => "enum",
        }
    }
}

/// Who can know the value of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisClass {
    /// Whoever it is about: an address, a preference.
    SelfReported,
    /// An instrument or an authority: a laboratory's value, a legal status.
    Measured,
}

impl AxisClass {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SelfReported => "self_reported",
            Self::Measured => "measured",
        }
    }
}

/// Which of two values is the careful one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conservative {
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
}

/// Why a document is not an ontology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadOntology {
    /// The version is none.
    #[error("`version` is `{}` (1 to {VERSION_MAX_BYTES} visible ASCII characters allowed)", .0.chars().take(VERSION_MAX_BYTES).collect::<String>())]
    Version(String),
    /// There are too few or too many axes.
    #[error("`axes` holds {0}; 1 to {AXES_MAX} are taken")]
    Axes(usize),
    /// Nothing says what a record speaks of.
    #[error("no axis is marked `identity`: records could not be told apart")]
    NoIdentity,
    /// Something is wrong with an axis.
    #[error("axis `{axis}`: {fault}")]
    Axis {
        /// Which one.
        axis: String,
        /// What is wrong.
        fault: String,
    },
    /// There are too many templates.
    #[error("`fact_templates` holds {0}; at most {TEMPLATES_MAX} are taken")]
    Templates(usize),
    /// Something is wrong with a template.
    #[error("template `{template_id}`: {fault}")]
    Template {
        /// Which one.
        template_id: TemplateId,
        /// What is wrong.
        fault: String,
    },
}

impl Ontology {
    /// Whether it can be used.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn validate(&self) -> Result<(), BadOntology> {
        if !is_version(&self.version) {
            return Err(BadOntology::Version(self.version.clone()));
        }
        if !(1..=AXES_MAX).contains(&self.axes.len()) {
            return Err(BadOntology::Axes(self.axes.len()));
        }
        let mut seen = BTreeSet::new();
        for axis in &self.axes {
            let fault = |fault: String| BadOntology::Axis { axis: axis.axis.clone(), fault };
            axis.validate().map_err(fault)?;
            if !seen.insert(axis.axis.as_str()) {
                return Err(fault("it is there twice".into()));
            }
            let other = self.axes.iter().find(|other| other.axis != axis.axis && other.overlaps(axis));
            if let Some(other) = other {
                return Err(fault(format!("the same path could be meant by `{}`", other.axis)));
            }
        }
        if self.identity().next().is_none() {
            return Err(BadOntology::NoIdentity);
        }
        self.validate_templates()
    }

    fn validate_templates(&self) -> Result<(), BadOntology> {
        if self.fact_templates.len() > TEMPLATES_MAX {
            return Err(BadOntology::Templates(self.fact_templates.len()));
        }
        let mut seen = BTreeSet::new();
        for written in &self.fact_templates {
            let template_id = written.template_id.clone();
            let fault = |fault: String| BadOntology::Template { template_id, fault };
            if !seen.insert(&written.template_id) {
                return Err(fault("it is there twice".into()));
            }
            Template::read(written, self).map_err(fault)?;
        }
        Ok(())
    }

    /// Which version it is.
    #[must_use]
    pub fn reference(&self) -> OntologyRef {
        OntologyRef { ontology_id: self.ontology_id.clone(), version: self.version.clone() }
    }

    /// The SHA-256 of its canonical JSON.
    #[must_use]
    pub fn digest(&self) -> Sha256Hex {
        digest_of_json(self)
    }

    /// The axes that say which thing a record speaks of, in the order of records.
    pub fn identity(&self) -> impl Iterator<Item = &Axis> {
        self.axes.iter().filter(|axis| axis.identity)
    }

    /// The axis that is written `path`, be it as it stands in the document or with a key in a group's place.
    #[must_use]
    pub fn axis(&self, path: &str) -> Option<&Axis> {
        let written = self.axes.iter().find(|axis| axis.axis == path);
        written.or_else(|| self.axes.iter().find(|axis| axis.key_in(path).is_some()))
    }
}

impl Axis {
    /// Whether it is a group of values by their keys.
    #[must_use]
    pub fn is_group(&self) -> bool {
        self.axis.split('.').any(|segment| segment == "*")
    }

    /// The path of the value under `key`; its own path where it is no group.
    #[must_use]
    pub fn at_key(&self, key: &str) -> String {
        match self.axis.split_once('*') {
            Some((before, after)) => [before, key, after].concat(),
            None => self.axis.clone(),
        }
    }

    /// The key that stands in `path` in the group's place, where `path` is one of this group.
    #[must_use]
    pub fn key_in<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (before, after) = self.axis.split_once('*')?;
        let key = path.strip_prefix(before)?.strip_suffix(after)?;
        is_group_key(key).then_some(key)
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (own, others) = (self.axis.split('.'), other.axis.split('.'));
        own.clone().count() == others.clone().count()
            && own.zip(others).all(|(own, other)| own == other || own == "*" || other == "*")
    }

    fn validate(&self) -> Result<(), String> {
        let is_name = |segment: &str| {
            segment.starts_with(|first: char| first.is_ascii_lowercase())
                && segment
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        let mut segments = self.axis.split('.');
        let begins_with_a_name = segments.next().is_some_and(is_name);
        let groups = segments.clone().filter(|segment| *segment == "*").count();
        let rest_is_sound = segments.all(|segment| segment == "*" || is_name(segment));
        if !begins_with_a_name || !rest_is_sound || groups > 1 || self.axis.len() > PATH_MAX_BYTES {
            return Err(format!(
                "a path is at most {PATH_MAX_BYTES} bytes of names (`a-z 0-9 _`, a letter first) separated by full \
                 stops, one of which may be `*`, though not the first"
            ));
        }
        if self.identity && (groups > 0 || self.kind == AxisType::Number) {
            return Err("an identity is no group, and no number that is not whole".into());
        }
        if self.indexed && groups > 0 {
            return Err("a group is not indexed".into());
        }
        let is_for_numbers = self.unit.is_some()
            || self.precision.is_some()
            || self.relative_tolerance.is_some()
            || self.conservative.is_some();
        if is_for_numbers && !self.kind.is_numeric() {
            return Err(
                "only numbers have a unit, a precision, a relative tolerance, or a conservative side".into(),
            );
        }
        let is_part = |part: &Decimal| *part >= Decimal::from(0) && *part < Decimal::from(1);
        if let Some(part) = self.relative_tolerance.as_ref().filter(|part| !is_part(part)) {
            return Err(format!("`relative_tolerance` is {part}; allowed: 0 or more, and less than 1"));
        }
        if let Some(unit) = &self.unit {
            unit.parse::<Unit>().map_err(|error| error.to_string())?;
        }
        if (self.kind == AxisType::Enum) == self.values.is_empty() {
            return Err("an enum names its `values`, and nothing else does".into());
        }
        let distinct: BTreeSet<_> = self.values.iter().collect();
        if distinct.len() != self.values.len()
            || distinct.len() > ENUM_VALUES_MAX
            || self.values.iter().any(|value| is_blank(value))
        {
            return Err(format!("`values` are different words, at most {ENUM_VALUES_MAX}"));
        }
        if self.precision.is_some_and(|places| !(PLACES_MIN..=PLACES_MAX).contains(&places)) {
            return Err(format!("`precision` is {PLACES_MIN} to {PLACES_MAX}"));
        }
        if self.max_ttl_seconds == Some(0) {
            return Err("`max_ttl_seconds` is 1 or more".into());
        }
        if self.state_sensitive && self.max_ttl_seconds.is_none() {
            return Err("what is `state_sensitive` needs `max_ttl_seconds`".into());
        }
        Ok(())
    }
}

/// Whether `key` can stand in a group's place.
#[must_use]
pub fn is_group_key(key: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=GROUP_KEY_MAX_BYTES).contains(&key.len()) && key.bytes().all(allowed)
}

/// Whether `text` can be the version of a document or a source.
#[must_use]
pub fn is_version(text: &str) -> bool {
    (1..=VERSION_MAX_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it out so")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests;
