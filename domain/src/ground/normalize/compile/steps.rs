//! Value normalizers made ready: each with the configuration that it takes.

use super::BadDefinition;
use super::parts::Parts;
use crate::ground::normalize::mapping::Mapping;
use crate::ground::normalize::steps::{Dates, Precision, Step, StepKind, TextForm, Units};
use crate::ground::ontology::{Axis, AxisType};
use crate::ground::pipeline::tables::{Amount, Otherwise, Table, Words};
use crate::ground::pipeline::{FixedConversion, NormalizerType, ValueNormalizer};
use crate::ground::unit::{Equivalence, Unit, UnitError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitConfig {
    from_unit: Option<String>,
    from_unit_field: Option<String>,
    to_unit: String,
    conversion_table: Option<String>,
    digits: Option<i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnumConfig {
    table: Option<String>,
    map: Option<BTreeMap<String, Option<String>>>,
    #[serde(default)]
    otherwise: Otherwise,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DateConfig {
    formats: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoConfig {}

impl Parts<'_> {
    /// The step that `normalizer` is; units that stand beside the values are read by their mappings.
    pub(super) fn step(
        &self,
        normalizer: &ValueNormalizer,
        mappings: &mut [Mapping],
        place: &str,
    ) -> Result<Step, BadDefinition> {
        let (index, axis) = self.axis(&normalizer.axis, &format!("{place}.axis"))?;
        let place = &format!("{place}.config");
        let bad = |fault: &str| BadDefinition::new(place, fault);
        let numeric = axis.kind.is_numeric();
        let config = normalizer.config.clone();
        let kind = match normalizer.normalizer_type {
            NormalizerType::UnitConversion if numeric => {
                StepKind::Units(self.units(read(config, place)?, index, axis, mappings, place)?)
            }
            NormalizerType::NumericPrecision if numeric => {
                let precision: Precision = read(config, place)?;
                if !(-30..=30).contains(&precision.digits) {
                    return Err(bad("`digits` is -30 to 30"));
                }
                StepKind::Precision(precision)
            }
            NormalizerType::EnumMapping => StepKind::Words(self.words(read(config, place)?, place)?),
            NormalizerType::DateParsing if axis.kind == AxisType::Date => {
                let DateConfig { formats } = read(config, place)?;
                StepKind::Dates(dates(formats, place)?)
            }
            NormalizerType::StringNormalization if !numeric => {
                StepKind::Text(read::<TextForm>(config, place)?)
            }
            NormalizerType::Identity => {
                let NoConfig {} = read(config, place)?;
                StepKind::Identity
            }
            other => {
                let fault = format!("{} is not for an axis of type {}", other.as_str(), axis.kind.as_str());
                return Err(bad(&fault));
            }
        };
        Ok(Step { axis: index, kind })
    }

    fn units(
        &self,
        config: UnitConfig,
        index: usize,
        axis: &Axis,
        mappings: &mut [Mapping],
        place: &str,
    ) -> Result<Units, BadDefinition> {
        let UnitConfig { from_unit, from_unit_field, to_unit, conversion_table, digits } = config;
        let to = to_axis_unit(&to_unit, axis, place)?;
        if from_unit.is_some() == from_unit_field.is_some() {
            return Err(BadDefinition::new(place, "one of `from_unit` and `from_unit_field` is taken"));
        }
        if let Some(unit) = &from_unit {
            Unit::from_spelling(unit).map_err(|error| BadDefinition::new(place, error))?;
        }
        if let Some(field) = from_unit_field {
            let path = self.path(&field, &format!("{place}.from_unit_field"))?;
            for mapping in mappings.iter_mut().filter(|mapping| mapping.axis == index) {
                if !path.goes_with(&mapping.source) {
                    let fault = format!("`{field}` is not beside `{}`", mapping.source.as_str());
                    return Err(BadDefinition::new(place, fault));
                }
                mapping.unit = Some(path.clone());
            }
        }
        let table = conversion_table.map(|id| self.equivalences(&id, place)).transpose()?.unwrap_or_default();
        Ok(Units { from: from_unit, to, table, digits })
    }

    /// What units come to for each substance, out of a table.
    fn equivalences(
        &self,
        id: &str,
        place: &str,
    ) -> Result<BTreeMap<String, Vec<Equivalence>>, BadDefinition> {
        let Table::Conversions(table) = self.table(id, place)? else {
            return Err(BadDefinition::new(place, format!("table `{id}` has no `conversions`")));
        };
        let bad = |error: UnitError| BadDefinition::new(format!("tables.{id}"), error);
        let equivalence = |(one, amount): (&String, &Amount)| {
            let (one, of) = (one.parse().map_err(bad)?, amount.unit.parse().map_err(bad)?);
            Equivalence::new(&one, &amount.factor, &of).map_err(bad)
        };
        let substance = |(name, amounts): (&String, &BTreeMap<String, Amount>)| {
            Ok((name.clone(), amounts.iter().map(equivalence).collect::<Result<_, _>>()?))
        };
        table.iter().map(substance).collect()
    }

    fn words(&self, config: EnumConfig, place: &str) -> Result<Words, BadDefinition> {
        match config {
            EnumConfig { table: Some(id), map: None, .. } => self.words_of(&id, place),
            EnumConfig { table: None, map: Some(entries), otherwise } => Ok(Words { entries, otherwise }),
            _ => Err(BadDefinition::new(place, "one of `table` and `map` is taken")),
        }
    }

    /// The conversion that a field mapping names, as the first step of its axis.
    pub(super) fn fixed_conversion(
        &self,
        conversion: &FixedConversion,
        target_axis: &str,
        place: &str,
    ) -> Result<Step, BadDefinition> {
        let (index, axis) = self.axis(target_axis, place)?;
        Unit::from_spelling(&conversion.from_unit).map_err(|error| BadDefinition::new(place, error))?;
        let to = to_axis_unit(&conversion.to_unit, axis, place)?;
        let from = Some(conversion.from_unit.clone());
        Ok(Step {
            axis: index,
            kind: StepKind::Units(Units { from, to, table: BTreeMap::new(), digits: None }),
        })
    }
}

fn to_axis_unit(code: &str, axis: &Axis, place: &str) -> Result<Unit, BadDefinition> {
    if axis.unit.as_deref() != Some(code) {
        let unit = axis.unit.as_deref().unwrap_or("none");
        let fault = format!("`to_unit` is `{code}`, and the unit of `{}` is {unit}", axis.axis);
        return Err(BadDefinition::new(place, fault));
    }
    code.parse::<Unit>().map_err(|error| BadDefinition::new(place, error))
}

/// Date forms that are `strftime`'s.
pub(super) fn dates(formats: Vec<String>, place: &str) -> Result<Dates, BadDefinition> {
    let probe = jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC);
    for format in &formats {
        jiff::fmt::strtime::format(format, &probe)
            .map_err(|error| BadDefinition::new(place, format!("`{format}`: {error}")))?;
    }
    Ok(Dates { formats })
}

/// The configuration of one kind.
fn read<T: DeserializeOwned>(config: Map<String, Json>, place: &str) -> Result<T, BadDefinition> {
    serde_json::from_value(Json::Object(config)).map_err(|error| BadDefinition::new(place, error))
}
