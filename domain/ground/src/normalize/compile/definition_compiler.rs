//! The parts of a definition, each validated against the ontology and the rest of the definition.

use super::{PipelineDefinitionError, ValidTimePaths};
use crate::axis::{Axis, is_group_key};
use crate::normalize::compile::{check_translations, dates, typed};
use crate::normalize::mapping::{CompiledMapping, CompiledMeasurementDefinition as DefinedBy};
use crate::normalize::schema::CompiledSchema;
use crate::ontology::Ontology;
use crate::path::RawFieldPath;
use crate::pipeline::{
    AxisMapping, DESTINATION, ENTRIES_MAX, FieldMapping, LookupTable, MappingCardinality,
    MeasurementDefinition, PipelineDefinition, WordTable,
};

/// The maximum number of mappings, normalizers or checks in a definition.
const PARTS_MAX: usize = 1024;

/// A definition with the ontology and axes that it must match.
pub(super) struct DefinitionCompiler<'a> {
    pub(super) definition: &'a PipelineDefinition,
    pub(super) ontology: &'a Ontology,
    pub(super) axes_provided: &'a [String],
}

impl<'a> DefinitionCompiler<'a> {
    /// Checks that ids match, that required values are set, and that no list exceeds its limit.
    pub(super) fn check_header(&self) -> Result<(), PipelineDefinitionError> {
        let PipelineDefinition { pipeline, normalization, .. } = self.definition;
        let (transformation, ontology) = (&pipeline.transformation, self.ontology);
        let output = ontology.reference().to_string();
        let normalizer_id = normalization.normalizer_id.as_deref().unwrap_or("absent");
        let checks = [
            (
                transformation.normalizer_id == normalization.normalizer_id,
                "pipeline.transformation.normalizer_id",
                format!("it differs from the `normalizer_id` of `normalization`, {normalizer_id}"),
            ),
            (
                transformation.output_schema_id.as_ref().is_none_or(|given| *given == output),
                "pipeline.transformation.output_schema_id",
                format!("it is not the source's ontology, {output}"),
            ),
            (
                normalization.target_ontology_id.as_ref().is_none_or(|given| *given == ontology.ontology_id),
                "normalization.target_ontology_id",
                format!("it is not the source's ontology, {}", ontology.ontology_id),
            ),
            (
                pipeline.storage.destination == DESTINATION,
                "pipeline.storage.destination",
                format!("only `{DESTINATION}` is allowed"),
            ),
            (
                pipeline.audit.provenance_chain,
                "pipeline.audit.provenance_chain",
                "it must be true, because every record has provenance".to_owned(),
            ),
        ];
        if let Some(Err((option, fault))) = pipeline.retrieval.format.table().map(|table| table.check()) {
            return Err(PipelineDefinitionError::new(format!("pipeline.retrieval.format.{option}"), fault));
        }
        if let Some((_, location, fault)) = checks.into_iter().find(|(holds, ..)| !holds) {
            return Err(PipelineDefinitionError::new(location, fault));
        }
        let parts = [
            (transformation.field_mappings.len(), "pipeline.transformation.field_mappings"),
            (normalization.axis_mappings.len(), "normalization.axis_mappings"),
            (normalization.value_normalizers.len(), "normalization.value_normalizers"),
            (normalization.post_normalization_checks.len(), "normalization.post_normalization_checks"),
            (pipeline.validation.required_fields.len(), "pipeline.validation.required_fields"),
        ];
        let parts = parts.map(|(count, location)| (count, PARTS_MAX, location.to_owned()));
        let tables = self.definition.tables.iter();
        let tables = tables.map(|(id, table)| (table.entries(), ENTRIES_MAX, format!("tables.{id}")));
        let whole = [(tables.len(), PARTS_MAX, "tables".to_owned())];
        match whole.into_iter().chain(parts).chain(tables).find(|(count, most, _)| count > most) {
            Some((_, most, location)) => Err(PipelineDefinitionError::new(
                location,
                format!("it has too many entries (at most {most} allowed)"),
            )),
            None => self.check_tables(),
        }
    }

    /// Checks that no table of words has a blank translation.
    fn check_tables(&self) -> Result<(), PipelineDefinitionError> {
        for (id, table) in &self.definition.tables {
            if let LookupTable::Words(words) = table {
                check_translations(words, &format!("tables.{id}"))?;
            }
        }
        Ok(())
    }

    /// An axis that the source provides, with its index in the ontology.
    pub(super) fn axis(
        &self,
        name: &str,
        location: &str,
    ) -> Result<(usize, &'a Axis), PipelineDefinitionError> {
        let found = self.ontology.axes.iter().enumerate().find(|(_, axis)| axis.axis == name);
        let found = found.filter(|_| self.axes_provided.iter().any(|provided| provided == name));
        let fault = || {
            format!("`{name}` is not an axis of the source; its axes are: {}", self.axes_provided.join(", "))
        };
        found.ok_or_else(|| PipelineDefinitionError::new(location, fault()))
    }

    pub(super) fn path(&self, text: &str, location: &str) -> Result<RawFieldPath, PipelineDefinitionError> {
        RawFieldPath::parse(text).map_err(|error| PipelineDefinitionError::new(location, error))
    }

    /// Parses paths, none of which may be a group.
    pub(super) fn paths(
        &self,
        texts: &[String],
        name: &str,
    ) -> Result<Vec<RawFieldPath>, PipelineDefinitionError> {
        let location = format!("pipeline.validation.{name}");
        let one = |text: &String| {
            let path = self.path(text, &location)?;
            if path.is_group() {
                Err(PipelineDefinitionError::new(&location, format!("`{text}` is a group")))
            } else {
                Ok(path)
            }
        };
        texts.iter().map(one).collect()
    }

    pub(super) fn table(&self, id: &str, location: &str) -> Result<&'a LookupTable, PipelineDefinitionError> {
        let table = self.definition.tables.get(id);
        table
            .ok_or_else(|| PipelineDefinitionError::new(location, format!("table `{id}` is not in `tables`")))
    }

    pub(super) fn find_word_table(
        &self,
        id: &str,
        location: &str,
    ) -> Result<WordTable, PipelineDefinitionError> {
        match self.table(id, location)? {
            LookupTable::Words(words) => Ok(words.clone().in_nfc()),
            // its words are known when a run begins, and are checked then
            LookupTable::WordsFrom(source) => Ok(source.empty_table()),
            LookupTable::Conversions(_) => {
                Err(PipelineDefinitionError::new(location, format!("table `{id}` has no `words`")))
            }
        }
    }

    /// Compiles a field mapping of the pipeline.
    pub(super) fn field(
        &self,
        mapping: &FieldMapping,
        location: &str,
    ) -> Result<CompiledMapping, PipelineDefinitionError> {
        let (axis, of) = self.axis(&mapping.target_axis, &format!("{location}.target_axis"))?;
        let source = self.path(&mapping.source_path, &format!("{location}.source_path"))?;
        if source.is_group() || of.is_group() {
            return Err(PipelineDefinitionError::new(
                location,
                "use `axis_mappings` for a group; they define its keys",
            ));
        }
        Ok(CompiledMapping {
            source,
            axis,
            required: false,
            default: None,
            missing_values: Vec::new(),
            key: None,
            key_words: None,
            unit: None,
            transform: mapping.transform,
            definition: None,
        })
    }

    /// Compiles a mapping of the normalization.
    pub(super) fn mapping(
        &self,
        mapping: &AxisMapping,
        location: &str,
    ) -> Result<CompiledMapping, PipelineDefinitionError> {
        let (index, axis) = self.axis(&mapping.target_axis, &format!("{location}.target_axis"))?;
        let source = self.path(&mapping.source_field, &format!("{location}.source_field"))?;
        let to_many = mapping.cardinality == MappingCardinality::OneToMany;
        if source.is_group() != to_many || axis.is_group() != to_many {
            let fault = "`one_to_many` is required to map a group (`*` in `source_field`) to a group (`*` in `target_axis`), \
                         and not allowed otherwise";
            return Err(PipelineDefinitionError::new(format!("{location}.cardinality"), fault));
        }
        let key_location = format!("{location}.key");
        let (mut key, mut key_words) = (None, None);
        if let Some(group_key) = &mapping.key {
            if !to_many {
                return Err(PipelineDefinitionError::new(key_location, "only a group has keys"));
            }
            if let Some(field) = &group_key.field {
                let path = self.path(field, &key_location)?;
                if !path.is_same_group(&source) {
                    return Err(PipelineDefinitionError::new(
                        key_location,
                        format_group_mismatch(field, &source),
                    ));
                }
                key = Some(path);
            }
            key_words =
                group_key.table.as_ref().map(|id| self.find_word_table(id, &key_location)).transpose()?;
            let called = key_words.iter().flat_map(|words: &WordTable| words.entries.values().flatten());
            if let Some(called) = called.into_iter().find(|called| !is_group_key(called)) {
                let fault = format!("`{called}` is not a valid key (only `A-Z a-z 0-9 _ -` allowed)");
                return Err(PipelineDefinitionError::new(key_location, fault));
            }
        }
        let default = mapping.default_value.as_ref().map(|value| {
            if to_many {
                return Err(PipelineDefinitionError::new(
                    format!("{location}.default_value"),
                    "a group cannot have a default value",
                ));
            }
            typed(value, axis, &format!("{location}.default_value"))
        });
        let (required, default) = (mapping.required, default.transpose()?);
        if required && default.is_some() {
            return Err(PipelineDefinitionError::new(
                location,
                "`required` has no effect with a `default_value`; remove one of them",
            ));
        }
        let definition = mapping.definition.as_ref();
        let definition = definition
            .map(|measured| self.compile_measurement(measured, &format!("{location}.definition")))
            .transpose()?;
        let missing_values = missing_values(&mapping.missing_values, &format!("{location}.missing_values"))?;
        Ok(CompiledMapping {
            source,
            axis: index,
            required,
            default,
            missing_values,
            key,
            key_words,
            unit: None,
            transform: None,
            definition,
        })
    }

    /// Checks that each axis has one mapping, or only `many_to_one` mappings, and that each identity axis has one.
    pub(super) fn check_mappings(&self, mappings: &[CompiledMapping]) -> Result<(), PipelineDefinitionError> {
        let location = "normalization.axis_mappings";
        let many = |name: &str, count: usize| {
            let to = self
                .definition
                .normalization
                .axis_mappings
                .iter()
                .filter(|mapping| mapping.target_axis == name);
            // all of them must be `many_to_one`: a field mapping of the pipeline would apply its unit to every value of
            // the axis
            to.clone().count() == count
                && to.into_iter().all(|mapping| mapping.cardinality == MappingCardinality::ManyToOne)
        };
        for (index, axis) in self.ontology.axes.iter().enumerate() {
            let count = mappings.iter().filter(|mapping| mapping.axis == index).count();
            if count > 1 && !many(&axis.axis, count) && !axis.is_group() {
                let fault = format!(
                    "`{}` is mapped {count} times; use `many_to_one` to map the first field that is present",
                    axis.axis
                );
                return Err(PipelineDefinitionError::new(location, fault));
            }
            if count == 0 && axis.identity {
                let fault = format!("no field is mapped to the identity axis `{}`", axis.axis);
                return Err(PipelineDefinitionError::new(location, fault));
            }
        }
        Ok(())
    }

    /// The fields that identify a record within its source. They include the fields of all identity axes, so that the
    /// identity of a source record never changes.
    pub(super) fn record_key(
        &self,
        mappings: &[CompiledMapping],
    ) -> Result<Vec<RawFieldPath>, PipelineDefinitionError> {
        let name = "deduplication_key";
        let key = self.paths(&self.definition.pipeline.validation.deduplication_key, name)?;
        if key.is_empty() {
            return Ok(key);
        }
        let is_identity = |mapping: &&CompiledMapping| {
            self.ontology.axes.get(mapping.axis).is_some_and(|axis| axis.identity)
        };
        match mappings.iter().filter(is_identity).find(|mapping| !key.contains(&mapping.source)) {
            None => Ok(key),
            Some(mapping) => {
                let field = mapping.source.as_str();
                let fault = format!("`{field}` is missing; the fields of all identity axes are required");
                Err(PipelineDefinitionError::new(format!("pipeline.validation.{name}"), fault))
            }
        }
    }

    /// The schema of raw records, if the definition names one.
    pub(super) fn schema(&self) -> Result<Option<CompiledSchema>, PipelineDefinitionError> {
        let Some(id) = &self.definition.pipeline.validation.schema_id else { return Ok(None) };
        let location = "pipeline.validation.schema_id";
        let (id, pointer) = id.split_once('#').unwrap_or((id, ""));
        let document = self.definition.schemas.get(id);
        let document = document.ok_or_else(|| {
            PipelineDefinitionError::new(location, format!("schema `{id}` is not in `schemas`"))
        })?;
        CompiledSchema::new(document, pointer)
            .map(Some)
            .map_err(|fault| PipelineDefinitionError::new(location, fault))
    }

    pub(super) fn valid_time(&self) -> Result<Option<ValidTimePaths>, PipelineDefinitionError> {
        let Some(valid_time) = &self.definition.normalization.valid_time else { return Ok(None) };
        let location = "normalization.valid_time";
        let path = |text: &String| {
            let path = self.path(text, location)?;
            if path.is_group() {
                Err(PipelineDefinitionError::new(location, format!("`{text}` is a group")))
            } else {
                Ok(path)
            }
        };
        let until = valid_time.until_field.as_ref().map(path).transpose()?;
        Ok(Some(ValidTimePaths {
            from: path(&valid_time.from_field)?,
            until,
            dates: dates(
                &valid_time.formats,
                (valid_time.timezone.as_deref(), valid_time.ambiguous),
                true,
                location,
            )?,
        }))
    }

    /// The definition by which values are measured.
    pub(super) fn compile_measurement(
        &self,
        measured: &MeasurementDefinition,
        location: &str,
    ) -> Result<DefinedBy, PipelineDefinitionError> {
        Ok(match measured {
            MeasurementDefinition::Always(definition) => DefinedBy::Always(definition.clone()),
            MeasurementDefinition::ByAxis { axis, table } => {
                let (_, of) = self.axis(axis, location)?;
                if of.is_group() {
                    return Err(PipelineDefinitionError::new(
                        location,
                        format!("`{axis}` is a group; an axis with a single value is required"),
                    ));
                }
                DefinedBy::ByAxis { axis: of.axis.clone(), words: self.find_word_table(table, location)? }
            }
        })
    }
}

/// Checks the words for a missing value. A blank field is missing without one.
fn missing_values(words: &[String], location: &str) -> Result<Vec<String>, PipelineDefinitionError> {
    if words.len() > PARTS_MAX {
        let fault = format!("it has too many entries (at most {PARTS_MAX} allowed)");
        return Err(PipelineDefinitionError::new(location, fault));
    }
    match words.iter().find(|word| word.trim() != *word || word.is_empty()) {
        Some(word) => {
            let fault = format!(
                "`{word}` is blank or has white space at an end, which is ignored in fields; remove it"
            );
            Err(PipelineDefinitionError::new(location, fault))
        }
        None => Ok(words.to_vec()),
    }
}

/// The fault text for a path that does not go with the path of the values.
pub(super) fn format_group_mismatch(field: &str, source: &RawFieldPath) -> String {
    format!("`{field}` is not in the same group as `{}`; use {}", source.as_str(), source.describe_group())
}
