//! Validation of an adapter, and the parsed locations of metadata in an answer with the check of this metadata that
//! rejects an answer which was given before (RFC-0002, "Oracle Integrity Requirements": replay detection).

use super::signature::{PublicKey, SignaturePolicy};
use super::template::{EndpointTemplate, NONCE, POINT_IN_TIME};
use super::{Adapter, AdapterError, ISSUE_AGE_MAX_S, KEEP_MAX_S};
use crate::adapter::AnswerLocation;
use crate::oracle_call::AnswerFault;
use domain_base::decimal::{Decimal, Rounding};
use domain_base::digest::{Sha256Hex, digest_of_json};
use domain_base::moment::{CLOCK_SKEW_MAX, Date, format_span, read_http_date};
use domain_base::raw::SourceValue;
use domain_ground::format::{PayloadFormat, TextEncoding};
use domain_ground::gates::ReleaseGates;
use domain_ground::id::PipelineId;
use domain_ground::normalize::{PipelineDefinitionErrors, RecordNormalizer};
use domain_ground::ontology::Ontology;
use domain_ground::path::RawFieldPath;
use domain_ground::pipeline::{
    DESTINATION, IngestionPipeline, PipelineAudit, PipelineDefinition, PipelineRetrieval, PipelineStorage,
    PipelineTransformation, RecordValidation, RetrievalMethod, SourceAuthentication,
};
use domain_ground::query::typed;
use domain_ground::source::SourceRegistration;
use domain_ground::value::AxisValue;
use jiff::{SignedDuration, Timestamp};
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
                    authentication: SourceAuthentication::None,
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

/// The maximum length of the name of a header, in bytes.
const HEADER_MAX_BYTES: usize = 64;
/// The maximum length of a version or a nonce, in bytes.
const WORD_MAX_BYTES: usize = 256;
/// The allowed forms of a version and a nonce, and of the time of an issue or an observation.
const SHORT: &str = "allowed: a text or a number of at most 256 bytes";
const MOMENT: &str = "allowed: a date of RFC 3339 or of HTTP, or seconds since 1970";

#[derive(Debug)]
pub(super) enum ParsedAnswerLocation {
    /// The header of this name, in lower case.
    Header(String),
    /// The path in the body.
    Path(RawFieldPath),
}

/// The locations that an adapter defines.
#[derive(Debug)]
pub(super) struct MetadataLocations {
    pub(super) version: Option<ParsedAnswerLocation>,
    pub(super) observed_at: Option<ParsedAnswerLocation>,
    pub(super) issued_at: Option<ParsedAnswerLocation>,
    pub(super) nonce: Option<ParsedAnswerLocation>,
}

#[derive(Debug)]
pub(super) struct AnswerMetadata {
    pub(super) version: Option<String>,
    pub(super) observed_at: Option<Timestamp>,
    pub(super) issued_at: Option<Timestamp>,
    pub(super) nonce: Option<String>,
}

impl MetadataLocations {
    /// Parses the locations of `adapter`. If answers are signed, the signature must cover all of them.
    pub(super) fn new(adapter: &Adapter) -> Result<Self, AdapterError> {
        let is_signed = adapter.signature.is_some();
        for (field, header) in adapter.signature.iter().flat_map(|policy| policy.headers()) {
            header_name(field, header)?;
        }
        let at = |field, location: &Option<AnswerLocation>| match location {
            None => Ok(None),
            Some(AnswerLocation::Header(_)) if is_signed => Err(AdapterError::Unsigned { field }),
            Some(AnswerLocation::Header(header)) => {
                header_name(field, header).map(ParsedAnswerLocation::Header).map(Some)
            }
            Some(AnswerLocation::Path(path)) => {
                let bad = |fault: String| AdapterError::Place { field, fault };
                let path = RawFieldPath::parse(path).map_err(|error| bad(error.to_string()))?;
                if path.is_group() {
                    return Err(bad(format!("`{}` leads to a group, not to one value", path.as_str())));
                }
                Ok(Some(ParsedAnswerLocation::Path(path)))
            }
        };
        Ok(Self {
            version: at("version", &adapter.version)?,
            observed_at: at("observed_at", &adapter.observed_at)?,
            issued_at: at("issued_at", &adapter.issued_at)?,
            nonce: at("nonce", &adapter.nonce)?,
        })
    }

    /// Reads the metadata of an answer with this body and these headers. A missing time of issue or nonce is
    /// not an error here: the replay check reports it.
    ///
    /// # Errors
    /// If a value is missing or has another form. The message does not quote it.
    pub(super) fn read(
        &self,
        body: &SourceValue,
        headers: &BTreeMap<String, String>,
    ) -> Result<AnswerMetadata, String> {
        let fault = |field: &str, fault: &str| format!("the value at `{field}` is invalid; {fault}");
        let word = |field: &str, at: &Option<ParsedAnswerLocation>| {
            let found = at.as_ref().and_then(|at| at.find(body, headers));
            found.map(|raw| read_short_text(raw).ok_or_else(|| fault(field, SHORT))).transpose()
        };
        let moment = |field: &str, at: &Option<ParsedAnswerLocation>| {
            let found = at.as_ref().and_then(|at| at.find(body, headers));
            found.map(|raw| read_moment(&raw).ok_or_else(|| fault(field, MOMENT))).transpose()
        };
        let of_itself = AnswerMetadata {
            version: word("version", &self.version)?,
            observed_at: moment("observed_at", &self.observed_at)?,
            issued_at: moment("issued_at", &self.issued_at)?,
            nonce: word("nonce", &self.nonce)?,
        };
        let missing = [
            ("version", self.version.is_some() && of_itself.version.is_none()),
            ("observed_at", self.observed_at.is_some() && of_itself.observed_at.is_none()),
        ];
        match missing.into_iter().find(|(_, is_missing)| *is_missing) {
            Some((field, _)) => Err(format!("the value at `{field}` is missing")),
            None => Ok(of_itself),
        }
    }

    /// The headers that are read, in lower case.
    pub(super) fn headers(&self) -> impl Iterator<Item = &str> {
        let locations = [&self.version, &self.observed_at, &self.issued_at, &self.nonce];
        locations.into_iter().flatten().filter_map(|at| match at {
            ParsedAnswerLocation::Header(name) => Some(name.as_str()),
            ParsedAnswerLocation::Path(_) => None,
        })
    }
}

impl ParsedAnswerLocation {
    /// The value at this location in an answer; `None` if it is missing or null.
    fn find(&self, body: &SourceValue, headers: &BTreeMap<String, String>) -> Option<SourceValue> {
        match self {
            Self::Header(name) => headers.get(name).cloned().map(SourceValue::Text),
            Self::Path(path) => path.find(body).filter(|found| **found != SourceValue::Null).cloned(),
        }
    }
}

/// The text or number `raw`, if it is short and has no control character.
fn read_short_text(raw: SourceValue) -> Option<String> {
    let (SourceValue::Text(text) | SourceValue::Number(text)) = raw else { return None };
    let fits = (1..=WORD_MAX_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
    fits.then_some(text)
}

/// `name` in lower case, if it is a valid header name (RFC 9110, 5.6.2).
fn header_name(field: &'static str, name: &str) -> Result<String, AdapterError> {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if (1..=HEADER_MAX_BYTES).contains(&name.len()) && name.bytes().all(is_of_token) {
        return Ok(name.to_ascii_lowercase());
    }
    let fault = format!("not a valid header name; allowed: 1 to {HEADER_MAX_BYTES} letters, digits and `-`");
    Err(AdapterError::Place { field, fault })
}

/// Checks that an answer with this time of issue and this returned nonce is current.
///
/// `sent` is the nonce of the request. `last_issued_at` is the time of issue of the last accepted answer.
///
/// # Errors
/// `AnswerFault::Replay`, with the reason in words. The only content of the answer in it is the time of issue.
pub(super) fn check_replay(
    adapter: &Adapter,
    issued_at: Option<Timestamp>,
    nonce: Option<&str>,
    sent: &str,
    last_issued_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), (AnswerFault, String)> {
    let replay = |cause: String| Err((AnswerFault::Replay, cause));
    if adapter.nonce.is_some() && nonce != Some(sent) {
        return replay("it does not return the nonce that was sent".into());
    }
    if adapter.issued_at.is_none() {
        return Ok(());
    }
    let Some(issued_at) = issued_at else { return replay("its time of issue is missing".into()) };
    if now.saturating_add(CLOCK_SKEW_MAX).is_ok_and(|latest| issued_at > latest) {
        return replay(format!("its time of issue is {issued_at}, which is in the future"));
    }
    let age = now.duration_since(issued_at);
    let is_over = |most_s: &u64| age > SignedDuration::from_secs(i64::try_from(*most_s).unwrap_or(i64::MAX));
    if let Some(most_s) = adapter.max_issue_age_seconds.filter(is_over) {
        let most = format_span(most_s);
        return replay(format!("it was issued at {issued_at}, over {most} ago (`max_issue_age_seconds`)"));
    }
    match last_issued_at.filter(|last| issued_at < *last) {
        Some(last) => {
            replay(format!("it was issued at {issued_at}, before the last accepted answer ({last})"))
        }
        None => Ok(()),
    }
}

/// Parses a time: a date of RFC 3339, a date of HTTP (RFC 9110, 5.6.7), or seconds since 1970 (`NumericDate`
/// of RFC 7519).
fn read_moment(raw: &SourceValue) -> Option<Timestamp> {
    match raw {
        SourceValue::Text(text) => moment_of_text(text),
        SourceValue::Number(digits) => {
            let seconds: Decimal = digits.parse().ok()?;
            let whole = seconds.round(0, Rounding::HalfEven).ok()?;
            Timestamp::from_second(whole.to_i64()?).ok()
        }
        _ => None,
    }
}

/// Parses a time that is a text, as in [`read_moment`].
fn moment_of_text(text: &str) -> Option<Timestamp> {
    let date = Date::read(text).and_then(|date| date.moment());
    date.or_else(|| read_http_date(text))
}
