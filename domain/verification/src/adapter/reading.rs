//! Reads an answer, or rejects it with a reason.

use super::UnsupportedQuestionError;
use super::validate::ValidatedAdapter;
use crate::adapter::validate::{AnswerMetadata, check_replay};
use crate::oracle_call::AnswerFault;
use crate::stored_state::CachedAnswer;
use crate::verification_record::StatedValue;
use domain_base::moment::CLOCK_SKEW_MAX;
use domain_base::raw::{RawRecordError, SourceValue};
use domain_ground::normalize::NormalizerOutput;
use domain_ground::record::RecordContent;
use domain_ground::rejection::RecordRejection;
use domain_ground::value::AxisValue;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
pub struct SourceQuestion<'a> {
    /// The subject: the values of identity axes.
    pub subject: &'a BTreeMap<String, AxisValue>,
    /// The requested time; `None` for the present.
    pub point_in_time: Option<Timestamp>,
    /// The nonce of the request.
    pub nonce: &'a str,
    /// The time of the request.
    pub asked_at: Timestamp,
    /// The last accepted answer to the same question.
    pub kept: Option<&'a CachedAnswer>,
}

/// A received answer. For a signed source, only the content that the verified signature covers.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedAnswer<'a> {
    /// The JSON document.
    pub body: &'a [u8],
    /// The headers that [`ValidatedAdapter::headers`] names, by their names in lower case, without repeated ones.
    pub headers: &'a BTreeMap<String, String>,
    /// The time when the answer was complete.
    pub at: Timestamp,
}

/// The result of reading an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerReadOutcome {
    /// The answer has a record of the subject.
    Said(Box<AnswerContent>),
    /// The answer has no record of the subject.
    NoRecord,
    /// The answer has several different records of the subject.
    Several {
        /// The number of records.
        records: u64,
    },
    /// The answer is rejected.
    Refused {
        /// The kind of fault.
        refusal: AnswerFault,
        /// The cause in words, without content of the answer.
        cause: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerContent {
    /// The subject that the answer names.
    pub subject: BTreeMap<String, AxisValue>,
    /// The values, by the paths of axes.
    pub values: BTreeMap<String, StatedValue>,
    /// The version, if the adapter defines its location.
    pub version: Option<String>,
    /// The time as of which the answer holds: the value at the location that the adapter defines, else the
    /// earlier of the request time and the time of issue.
    pub observed_at: Timestamp,
    /// The time of issue, if the adapter defines its location.
    pub issued_at: Option<Timestamp>,
    /// The warnings of the normalization.
    pub warnings: Vec<String>,
}

/// Why an answer is rejected.
type AnswerRejection = (AnswerFault, String);
/// The content of a record, with the warnings of its normalization.
type ContentWithWarnings = (RecordContent, Vec<String>);

impl ValidatedAdapter {
    /// The URL of the query.
    ///
    /// # Errors
    /// If the adapter cannot answer the question.
    pub fn url(&self, question: &SourceQuestion<'_>) -> Result<String, UnsupportedQuestionError> {
        let mismatch = self
            .fixed
            .iter()
            .find(|(axis, value)| question.subject.get(*axis).is_some_and(|requested| requested != *value));
        if let Some((axis, value)) = mismatch {
            return Err(UnsupportedQuestionError::Elsewhere { axis: axis.clone(), value: value.to_string() });
        }
        if let Some(axis) = self.fixed.keys().find(|axis| !question.subject.contains_key(*axis)) {
            return Err(UnsupportedQuestionError::Open { axis: axis.clone() });
        }
        if question.point_in_time.is_some() && !self.is_past_supported() {
            return Err(UnsupportedQuestionError::Past);
        }
        self.template.expand(
            question.subject,
            question.point_in_time.unwrap_or(question.asked_at),
            question.nonce,
        )
    }

    fn is_past_supported(&self) -> bool {
        self.template.has_variable(super::template::POINT_IN_TIME)
            || self.adapter.normalization.valid_time.is_some()
    }

    /// The headers of an answer that are read, in lower case.
    #[must_use]
    pub fn headers(&self) -> Vec<String> {
        let signature = self.adapter.signature.iter().flat_map(|policy| policy.headers());
        let signature = signature.map(|(_, name)| name.to_ascii_lowercase());
        self.locations.headers().map(str::to_owned).chain(signature).collect()
    }

    /// Whether the source may report that its last answer is unchanged, instead of answering again. Such a
    /// report proves nothing. It is not allowed if an answer must have a signature, a time of issue or a
    /// nonce.
    #[must_use]
    pub const fn may_be_unchanged(&self) -> bool {
        let adapter = &self.adapter;
        adapter.signature.is_none() && adapter.issued_at.is_none() && adapter.nonce.is_none()
    }

    /// Whether `cached` answers the same question at `now` without a query.
    #[must_use]
    pub fn is_fresh(&self, cached: &CachedAnswer, now: Timestamp) -> bool {
        self.is_usable(cached, now)
            && self.adapter.ttl_seconds.is_some_and(|ttl_s| is_within(cached, now, ttl_s))
    }

    /// Whether the values of `cached` can be used at `now`. An answer that another adapter has read cannot be
    /// used, because that adapter may have read it wrongly. The replay check uses its time of issue in any case.
    #[must_use]
    pub fn is_usable(&self, cached: &CachedAnswer, now: Timestamp) -> bool {
        let keep_s = self.cache_seconds(cached.point_in_time);
        cached.adapter_sha256 == self.sha256 && keep_s.is_some_and(|keep_s| is_within(cached, now, keep_s))
    }

    /// How long an answer about `point_in_time` is cached, in seconds; `None` if it is not cached. An answer
    /// about the past is cached only for `ttl_seconds`, because the same past time is rarely requested again.
    #[must_use]
    pub const fn cache_seconds(&self, point_in_time: Option<Timestamp>) -> Option<u64> {
        match point_in_time {
            None => Some(self.adapter.keep_seconds),
            Some(_) => self.adapter.ttl_seconds,
        }
    }

    /// Reads the answer `received` to `question`.
    #[must_use]
    pub fn read(&self, received: &ReceivedAnswer<'_>, question: &SourceQuestion<'_>) -> AnswerReadOutcome {
        match self.read_content(received, question) {
            Ok(reading) => reading,
            Err((refusal, cause)) => AnswerReadOutcome::Refused { refusal, cause },
        }
    }

    fn read_content(
        &self,
        received: &ReceivedAnswer<'_>,
        question: &SourceQuestion<'_>,
    ) -> Result<AnswerReadOutcome, AnswerRejection> {
        let body = SourceValue::parse(received.body).map_err(|error| schema(describe_parse_error(&error)))?;
        let metadata = self.locations.read(&body, received.headers).map_err(schema)?;
        let AnswerMetadata { version, observed_at, issued_at, nonce } = metadata;
        let last_issued_at = question.kept.and_then(|cached| cached.issued_at);
        check_replay(
            &self.adapter,
            issued_at,
            nonce.as_deref(),
            question.nonce,
            last_issued_at,
            received.at,
        )?;
        let latest = received.at.saturating_add(CLOCK_SKEW_MAX).unwrap_or(Timestamp::MAX);
        if observed_at.is_some_and(|observed_at| observed_at > latest) {
            return Err(schema("it holds as of a time in the future, so it would never expire".to_owned()));
        }
        let mut records = self.records(&body, question)?;
        let (content, warnings) = match (records.pop_first(), records.len()) {
            (None, _) => return Ok(AnswerReadOutcome::NoRecord),
            (Some((_, record)), 0) => record,
            (Some(_), others) => return Ok(AnswerReadOutcome::Several { records: others as u64 + 1 }),
        };
        let values = self.stated(content);
        Ok(AnswerReadOutcome::Said(Box::new(AnswerContent {
            subject: question.subject.clone(),
            values,
            version,
            observed_at: observed_at.unwrap_or_else(|| default_observed_at(question.asked_at, issued_at)),
            issued_at,
            warnings,
        })))
    }

    /// The records of the requested subject at the requested time, by their JSON, so that equal ones count once.
    fn records(
        &self,
        body: &SourceValue,
        question: &SourceQuestion<'_>,
    ) -> Result<BTreeMap<Vec<u8>, ContentWithWarnings>, AnswerRejection> {
        let as_of = question.point_in_time.unwrap_or(question.asked_at);
        let mut records = BTreeMap::new();
        let raw_records = self.raw_records(body)?;
        // a signed empty list could belong to any subject: only a nonce ties it to this question
        if raw_records.is_empty() && self.adapter.signature.is_some() && self.adapter.nonce.is_none() {
            let cause = "it has no record, and names neither a subject nor a nonce: a signed answer about another subject would be \
                         accepted";
            return Err((AnswerFault::Identity, cause.to_owned()));
        }
        for raw in raw_records {
            let normalized = self
                .normalizer
                .normalize(raw)
                .map_err(|rejection| schema(self.describe_rejection(&rejection)))?;
            let NormalizerOutput { content, json, valid_from, valid_until, warnings, .. } = normalized;
            let is_requested = |(axis, value): (&String, &AxisValue)| content.axes.get(axis) == Some(value);
            if !question.subject.iter().all(is_requested) {
                return Err((
                    AnswerFault::Identity,
                    "it is about another subject than the requested one".to_owned(),
                ));
            }
            let is_begun = valid_from.is_none_or(|from| from <= as_of);
            let is_ended = valid_until.is_some_and(|until| until <= as_of);
            if is_begun && !is_ended {
                let warnings = warnings.iter().map(|warning| self.describe_rejection(warning)).collect();
                records.insert(json, (content, warnings));
            }
        }
        Ok(records)
    }

    /// The raw records at the location that the adapter defines.
    fn raw_records<'r>(&self, body: &'r SourceValue) -> Result<&'r [SourceValue], AnswerRejection> {
        let records = &self.adapter.records;
        let step = |raw: &'r SourceValue, step: &String| match raw {
            SourceValue::List(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => raw.get(step),
        };
        let unexpected = |found: &str| {
            let location = if records.as_str().is_empty() { "the whole body" } else { records.as_str() };
            schema(format!(
                "it has {found} at `records` ({location}); allowed: an object, a list of objects, or null"
            ))
        };
        match records.steps().iter().try_fold(body, step) {
            None => Err(unexpected("nothing")),
            Some(SourceValue::Null) => Ok(&[]),
            Some(SourceValue::List(items))
                if items.iter().all(|item| matches!(item, SourceValue::Object(_))) =>
            {
                Ok(items)
            }
            Some(object @ SourceValue::Object(_)) => Ok(std::slice::from_ref(object)),
            Some(other) => Err(unexpected(other.kind())),
        }
    }

    /// The values of all axes except the identity axes.
    fn stated(&self, content: RecordContent) -> BTreeMap<String, StatedValue> {
        let RecordContent { axes, mut definitions } = content;
        let is_identity = |path: &str| self.ontology().axis(path).is_some_and(|axis| axis.identity);
        let stated = axes.into_iter().filter(|(path, _)| !is_identity(path));
        let stated = stated.map(|(path, value)| {
            let definition = definitions.remove(&path);
            (path, StatedValue { value, definition })
        });
        stated.collect()
    }

    /// Describes a rejection or a warning: the rule, the field if the adapter itself names it, and the
    /// violated bound. For a group only its axis is named, because the keys come from the answer.
    fn describe_rejection(&self, rejection: &RecordRejection) -> String {
        let rule = rejection.rule.into_str();
        let known_field = rejection.place.as_ref().and_then(|field| {
            let axis = self.ontology().axis(field).map(|axis| axis.axis.as_str());
            axis.or_else(|| self.adapter.required_fields.contains(field).then_some(field))
        });
        let field = known_field.map(|field| format!(" on `{field}`")).unwrap_or_default();
        let bound = rejection.bound.as_ref().map(|bound| format!(": {bound}")).unwrap_or_default();
        format!("it violates `{rule}`{field}{bound}")
    }
}

/// The time as of which an answer without `observed_at` holds. An answer that was issued before the request
/// cannot contain later changes.
fn default_observed_at(asked_at: Timestamp, issued_at: Option<Timestamp>) -> Timestamp {
    issued_at.map_or(asked_at, |issued_at| issued_at.min(asked_at))
}

fn is_within(cached: &CachedAnswer, now: Timestamp, seconds: u64) -> bool {
    let limit = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    // a negative age means that the clock was set back since, so the age is unknown
    cached.candidate.as_ref().is_some_and(|candidate| {
        (SignedDuration::ZERO..=limit).contains(&now.duration_since(candidate.record.retrieved_at))
    })
}

fn schema(cause: String) -> AnswerRejection {
    (AnswerFault::Schema, cause)
}

/// Why a body is not a JSON document, without quoting it.
fn describe_parse_error(error: &RawRecordError) -> String {
    match error {
        RawRecordError::RepeatedName { .. } => "a name occurs twice in one of its objects".to_owned(),
        RawRecordError::NotUtf8 { at_byte } => format!("it is not UTF-8 from byte {at_byte} on"),
        RawRecordError::Syntax { cause } => format!("it is not JSON: {cause}"),
        RawRecordError::TooDeep => "its lists and objects are nested too deeply".to_owned(),
        _ => "it is not a JSON document".to_owned(),
    }
}
