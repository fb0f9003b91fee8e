//! Validation of an adapter.

use super::locations::MetadataLocations;
use super::signature::{PublicKey, SignaturePolicy};
use super::template::{EndpointTemplate, NONCE, POINT_IN_TIME};
use super::{Adapter, AdapterError, ISSUE_AGE_MAX_S, KEEP_MAX_S};
use domain_base::digest::{Sha256Hex, digest_of_json};
use domain_ground::format::{PayloadFormat, TextEncoding};
use domain_ground::gates::ReleaseGates;
use domain_ground::id::PipelineId;
use domain_ground::normalize::{PipelineDefinitionErrors, RecordNormalizer};
use domain_ground::ontology::Ontology;
use domain_ground::pipeline::{
    DESTINATION, IngestionPipeline, PipelineAudit, PipelineDefinition, PipelineRetrieval, PipelineStorage,
    PipelineTransformation, RecordValidation, RetrievalMethod,
};
use domain_ground::query::typed;
use domain_ground::source::SourceRegistration;
use domain_ground::value::AxisValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An adapter that is validated for its source's ontology.
#[derive(Debug)]
pub struct ValidatedAdapter {
    pub(super) adapter: Adapter,
    pub(super) sha256: Sha256Hex,
    pub(super) template: EndpointTemplate,
    pub(super) normalizer: RecordNormalizer,
    pub(super) locations: MetadataLocations,
    /// The identity axes with one value for all answers, with that value.
    pub(super) fixed: BTreeMap<String, AxisValue>,
    keys: Vec<PublicKey>,
}

impl ValidatedAdapter {
    /// The document.
    #[must_use]
    pub const fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// The digest of the document.
    #[must_use]
    pub const fn sha256(&self) -> &Sha256Hex {
        &self.sha256
    }

    /// The ontology of the values.
    #[must_use]
    pub fn ontology(&self) -> &Arc<Ontology> {
        self.normalizer.ontology()
    }

    /// The endpoint with `x` for each variable: the URL as far as it is known before a query.
    #[must_use]
    pub fn sample_url(&self) -> String {
        self.template.sample()
    }

    /// The signature policy with its validated keys; `None` if answers are not signed.
    #[must_use]
    pub fn signature(&self) -> Option<(&SignaturePolicy, &[PublicKey])> {
        self.adapter.signature.as_ref().map(|policy| (policy, self.keys.as_slice()))
    }
}

impl Adapter {
    /// Validates the adapter for the registration `source` and for its ontology.
    ///
    /// # Errors
    /// The first fault: the field, and what is allowed.
    pub fn validate(
        &self,
        source: &SourceRegistration,
        ontology: Arc<Ontology>,
    ) -> Result<ValidatedAdapter, AdapterError> {
        if self.oracle_id != source.oracle_id {
            let (named, given) = (self.oracle_id.clone(), source.oracle_id.clone());
            return Err(AdapterError::OtherSource { named, given });
        }
        let identity: Vec<_> = ontology.identity().map(|axis| axis.axis.as_str()).collect();
        let template = EndpointTemplate::parse(&self.endpoint, &identity)?;
        let definition = self.definition(&ontology);
        if let Some((table, _)) = definition.word_sources().next() {
            let fault = format!("tables.{table}: `words_from` is only allowed in pipelines; write `words`");
            return Err(AdapterError::Definition(fault));
        }
        let normalizer = RecordNormalizer::new(&definition, Arc::clone(&ontology), &source.axes_provided);
        let normalizer = normalizer.map_err(|bad| convert_definition_error(&bad))?;
        let fixed = self.fixed(&template, &ontology)?;
        let locations = MetadataLocations::new(self)?;
        self.check_freshness(&template)?;
        self.check_bounds(&ontology, &source.axes_provided)?;
        let keys = self.signature.as_ref().map_or(Ok(Vec::new()), SignaturePolicy::validate_keys);
        let keys = keys.map_err(AdapterError::Keys)?;
        let sha256 = digest_of_json(self);
        Ok(ValidatedAdapter { adapter: self.clone(), sha256, template, normalizer, locations, fixed, keys })
    }

    /// A pipeline definition with the same normalization, as if the records were ingested.
    fn definition(&self, ontology: &Ontology) -> PipelineDefinition {
        let format = PayloadFormat::Json { records: self.records.clone() };
        let pipeline_id =
            PipelineId::try_from(self.oracle_id.to_string()).expect("the ids have the same form");
        PipelineDefinition {
            pipeline: IngestionPipeline {
                pipeline_id,
                oracle_id: self.oracle_id.clone(),
                retrieval: PipelineRetrieval {
                    method: RetrievalMethod::ApiPull,
                    endpoint: None,
                    authentication: None,
                    schedule: None,
                    compression: None,
                    encoding: TextEncoding::default(),
                    format,
                },
                gates: ReleaseGates::default(),
                validation: RecordValidation {
                    schema_id: self.schema_id.clone(),
                    required_fields: self.required_fields.clone(),
                    reject_on_schema_fail: true,
                    deduplication_key: Vec::new(),
                },
                transformation: PipelineTransformation {
                    normalizer_id: self.normalization.normalizer_id.clone(),
                    output_schema_id: Some(ontology.reference().to_string()),
                    field_mappings: Vec::new(),
                },
                storage: PipelineStorage { destination: DESTINATION.to_owned(), retention_days: 0 },
                audit: PipelineAudit {
                    log_raw_input: false,
                    log_transformations: false,
                    provenance_chain: true,
                },
            },
            normalization: self.normalization.clone(),
            schemas: self.schemas.clone(),
            tables: self.tables.clone(),
        }
    }

    /// The identity axes that are not in the endpoint, each with its `default_value`.
    fn fixed(
        &self,
        template: &EndpointTemplate,
        ontology: &Ontology,
    ) -> Result<BTreeMap<String, AxisValue>, AdapterError> {
        let mut fixed = BTreeMap::new();
        for axis in ontology.identity() {
            let name = &axis.axis;
            let bad = |fault| AdapterError::Identity { axis: name.clone(), fault };
            if [NONCE, POINT_IN_TIME].contains(&name.as_str()) {
                return Err(bad("its name is reserved in `endpoint`"));
            }
            let mut mappings = self.normalization.axis_mappings.iter();
            let default =
                mappings.find(|mapping| mapping.target_axis == *name && mapping.default_value.is_some());
            let default = default.and_then(|mapping| mapping.default_value.as_ref());
            match (template.has_variable(name), default) {
                (true, None) => {}
                (true, Some(_)) => {
                    return Err(bad(
                        "it has a `default_value`, by which an answer that does not name its subject would be accepted as one about \
                         the requested subject; allowed: no `default_value` for an axis in `endpoint`",
                    ));
                }
                (false, None) => {
                    return Err(bad(
                        "it is not in `endpoint`, so that a query does not select one subject; add it there, or set a \
                         `default_value` if the source only covers one value",
                    ));
                }
                (false, Some(value)) => {
                    let value = typed(value, axis)
                        .map_err(|_| bad("its `default_value` is not a value of the axis"))?;
                    fixed.insert(name.clone(), value.into_value());
                }
            }
        }
        Ok(fixed)
    }

    fn check_freshness(&self, template: &EndpointTemplate) -> Result<(), AdapterError> {
        if self.nonce.is_some() != template.has_variable(NONCE) {
            return Err(AdapterError::Nonce);
        }
        match (&self.issued_at, self.max_issue_age_seconds) {
            (Some(_), None) => {
                let fault = "without a maximum age, the first answer could be of any age";
                return Err(AdapterError::IssueAge(fault));
            }
            (None, Some(_)) => {
                return Err(AdapterError::IssueAge("the time of issue of an answer is unknown"));
            }
            _ => {}
        }
        if self.signature.is_some() && self.issued_at.is_none() && self.nonce.is_none() {
            return Err(AdapterError::Replayable);
        }
        let says_when = self.normalization.valid_time.is_some() || self.nonce.is_some();
        if self.signature.is_some() && template.has_variable(POINT_IN_TIME) && !says_when {
            return Err(AdapterError::AnyTime);
        }
        Ok(())
    }

    fn check_bounds(&self, ontology: &Ontology, axes_provided: &[String]) -> Result<(), AdapterError> {
        let bounds = [
            ("max_issue_age_seconds", self.max_issue_age_seconds, ISSUE_AGE_MAX_S),
            ("keep_seconds", Some(self.keep_seconds), KEEP_MAX_S),
            ("ttl_seconds", self.ttl_seconds, self.keep_seconds),
        ];
        for (field, seconds, max_s) in bounds {
            if let Some(seconds) = seconds.filter(|seconds| !(1..=max_s).contains(seconds)) {
                return Err(AdapterError::Bound { field, seconds, min_s: 1, max_s });
            }
        }
        let provided = ontology.axes.iter().filter(|axis| axes_provided.contains(&axis.axis));
        let least = provided.filter_map(|axis| Some((axis.max_ttl_seconds?, &axis.axis))).min();
        let Some((limit_s, axis)) = least else { return Ok(()) };
        let ages = [("ttl_seconds", self.ttl_seconds), ("max_issue_age_seconds", self.max_issue_age_seconds)];
        for (field, seconds) in ages {
            if let Some(seconds) = seconds.filter(|seconds| *seconds > limit_s) {
                return Err(AdapterError::Ttl { field, seconds, axis: axis.clone(), limit_s });
            }
        }
        Ok(())
    }
}

/// The faults of a definition, with their fields in an adapter.
fn convert_definition_error(PipelineDefinitionErrors(faults): &PipelineDefinitionErrors) -> AdapterError {
    let in_adapter = |message: String| match message.strip_prefix("pipeline.validation.") {
        Some(field) => field.to_owned(),
        None => message,
    };
    let faults: Vec<_> = faults.iter().map(|fault| in_adapter(fault.to_string())).collect();
    AdapterError::Definition(faults.join("; "))
}
