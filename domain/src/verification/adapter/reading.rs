//! What an answer says, or why it is not believed.

use super::places::OfItself;
use super::validate::Ready;
use super::{Unasked, replay};
use crate::base::moment::CLOCK_SKEW_MAX;
use crate::base::raw::{BadRecord, Raw};
use crate::ground::normalize::Normalized;
use crate::ground::record::Content;
use crate::ground::rejection::Rejection;
use crate::ground::value::Value;
use crate::verification::call::Refusal;
use crate::verification::candidate::Stated;
use crate::verification::kept::KeptAnswer;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// What a source is asked.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// About which thing: the values of identity axes.
    pub thing: &'a BTreeMap<String, Value>,
    /// As it was then; now where there is none.
    pub point_in_time: Option<Timestamp>,
    /// What goes into the place of the nonce.
    pub nonce: &'a str,
    /// When it is asked.
    pub asked_at: Timestamp,
    /// The last good answer to the same question.
    pub kept: Option<&'a KeptAnswer>,
}

/// What came: of a signed source only what the signature covers, after that was found to hold.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// The JSON document.
    pub body: &'a [u8],
    /// Headers by their names in lower case: of those that [`Ready::headers`] names the ones that came once.
    pub headers: &'a BTreeMap<String, String>,
    /// When it had come.
    pub at: Timestamp,
}

/// What an answer comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// It says something of the thing.
    Said(Box<Said>),
    /// It knows nothing of it.
    NoRecord,
    /// It says several things of it.
    Several {
        /// How many.
        records: u64,
    },
    /// It is not believed.
    Refused {
        /// For what.
        refusal: Refusal,
        /// In words, which hold nothing of the answer.
        cause: String,
    },
}

/// What an answer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Which thing it speaks of, by its own word.
    pub thing: BTreeMap<String, Value>,
    /// What it says, by the paths of axes.
    pub values: BTreeMap<String, Stated>,
    /// Of which version it is, where it says so in the adapter's place.
    pub version: Option<String>,
    /// As of when it holds, by its own word where the adapter has a place for that; else when it was asked for, and no later
    /// than it was issued.
    pub observed_at: Timestamp,
    /// When it was issued, where the adapter has a place for that.
    pub issued_at: Option<Timestamp>,
    /// What was noted of it in normalization and did not keep it out.
    pub warnings: Vec<String>,
}

/// Why an answer is not believed.
type Refused = (Refusal, String);
/// What a record says, and what was noted of it.
type Noted = (Content, Vec<String>);

impl Ready {
    /// The URL at which the question is asked.
    ///
    /// # Errors
    /// Why it is not asked there.
    pub fn url(&self, asked: &Asked<'_>) -> Result<String, Unasked> {
        let elsewhere =
            self.fixed.iter().find(|(axis, value)| asked.thing.get(*axis).is_some_and(|of| of != *value));
        if let Some((axis, value)) = elsewhere {
            return Err(Unasked::Elsewhere { axis: axis.clone(), value: value.to_string() });
        }
        if let Some(axis) = self.fixed.keys().find(|axis| !asked.thing.contains_key(*axis)) {
            return Err(Unasked::Open { axis: axis.clone() });
        }
        if asked.point_in_time.is_some() && !self.knows_the_past() {
            return Err(Unasked::Past);
        }
        self.template.expand(asked.thing, asked.point_in_time.unwrap_or(asked.asked_at), asked.nonce)
    }

    fn knows_the_past(&self) -> bool {
        self.template.names(super::template::POINT_IN_TIME) || self.adapter.normalization.valid_time.is_some()
    }

    /// The headers of an answer that are read, in lower case.
    #[must_use]
    pub fn headers(&self) -> Vec<String> {
        let signature = self.adapter.signature.iter().flat_map(|policy| policy.headers());
        let signature = signature.map(|(_, name)| name.to_ascii_lowercase());
        self.places.headers().map(str::to_owned).chain(signature).collect()
    }

    /// Whether a source may say that what it answered last holds still, without answering anew. That proves nothing: who must
    /// sign, or say when an answer was issued, has to do so each time.
    #[must_use]
    pub const fn may_be_unchanged(&self) -> bool {
        let adapter = &self.adapter;
        adapter.signature.is_none() && adapter.issued_at.is_none() && adapter.nonce.is_none()
    }

    /// Whether `kept` is taken for the same question at `now`, without asking.
    #[must_use]
    pub fn still_holds(&self, kept: &KeptAnswer, now: Timestamp) -> bool {
        self.is_kept(kept, now) && self.adapter.ttl_seconds.is_some_and(|ttl_s| is_within(kept, now, ttl_s))
    }

    /// Whether `kept` counts for anything at `now` but when it was issued: what was read by another adapter may have been read
    /// wrongly.
    #[must_use]
    pub fn is_kept(&self, kept: &KeptAnswer, now: Timestamp) -> bool {
        let keep_s = self.keep_seconds(kept.point_in_time);
        kept.adapter_sha256 == self.sha256 && keep_s.is_some_and(|keep_s| is_within(kept, now, keep_s))
    }

    /// For how many seconds an answer about `point_in_time` is kept; not at all where nothing is told. Of the past that is for as
    /// long as the source is not asked again: what is asked about a moment once is hardly ever asked about it again.
    #[must_use]
    pub const fn keep_seconds(&self, point_in_time: Option<Timestamp>) -> Option<u64> {
        match point_in_time {
            None => Some(self.adapter.keep_seconds),
            Some(_) => self.adapter.ttl_seconds,
        }
    }

    /// What the answer `received` to the question `asked` says, or why it is not believed.
    #[must_use]
    pub fn read(&self, received: &Received<'_>, asked: &Asked<'_>) -> Reading {
        match self.said(received, asked) {
            Ok(reading) => reading,
            Err((refusal, cause)) => Reading::Refused { refusal, cause },
        }
    }

    fn said(&self, received: &Received<'_>, asked: &Asked<'_>) -> Result<Reading, Refused> {
        let body = Raw::parse(received.body).map_err(|bad| schema(unreadable(&bad)))?;
        let of_itself = self.places.read(&body, received.headers).map_err(schema)?;
        let OfItself { version, observed_at, issued_at, nonce } = of_itself;
        let last_issued_at = asked.kept.and_then(|kept| kept.issued_at);
        replay::check(&self.adapter, issued_at, nonce.as_deref(), asked.nonce, last_issued_at, received.at)?;
        let latest = received.at.saturating_add(CLOCK_SKEW_MAX).unwrap_or(Timestamp::MAX);
        if observed_at.is_some_and(|observed_at| observed_at > latest) {
            return Err(schema("it holds as of a moment that lies ahead: it would never be old".to_owned()));
        }
        let mut records = self.records(&body, asked)?;
        let (content, warnings) = match (records.pop_first(), records.len()) {
            (None, _) => return Ok(Reading::NoRecord),
            (Some((_, record)), 0) => record,
            (Some(_), others) => return Ok(Reading::Several { records: others as u64 + 1 }),
        };
        let values = self.stated(content);
        Ok(Reading::Said(Box::new(Said {
            thing: asked.thing.clone(),
            values,
            version,
            observed_at: observed_at.unwrap_or_else(|| of_its_issue(asked.asked_at, issued_at)),
            issued_at,
            warnings,
        })))
    }

    /// The records that speak of the thing as it was asked for, by their JSON and so each once.
    fn records(&self, body: &Raw, asked: &Asked<'_>) -> Result<BTreeMap<Vec<u8>, Noted>, Refused> {
        let as_of = asked.point_in_time.unwrap_or(asked.asked_at);
        let mut records = BTreeMap::new();
        let raw_records = self.raw_records(body)?;
        // an empty list is signed alike for all things: only a nonce says that it is the answer to this question
        if raw_records.is_empty() && self.adapter.signature.is_some() && self.adapter.nonce.is_none() {
            let cause = "it says that there is no record, and neither of which thing nor with a nonce: what was signed of another \
                         thing would be taken for its answer";
            return Err((Refusal::Identity, cause.to_owned()));
        }
        for raw in raw_records {
            let normalized =
                self.normalizer.normalize(raw).map_err(|rejection| schema(self.told(&rejection)))?;
            let Normalized { content, json, valid_from, valid_until, warnings, .. } = normalized;
            let is_of = |(axis, value): (&String, &Value)| content.axes.get(axis) == Some(value);
            if !asked.thing.iter().all(is_of) {
                return Err((Refusal::Identity, "it speaks of another thing than was asked for".to_owned()));
            }
            let begun = valid_from.is_none_or(|from| from <= as_of);
            let ended = valid_until.is_some_and(|until| until <= as_of);
            if begun && !ended {
                let warnings = warnings.iter().map(|warning| self.told(warning)).collect();
                records.insert(json, (content, warnings));
            }
        }
        Ok(records)
    }

    /// What stands at the adapter's place of records, one by one.
    fn raw_records<'r>(&self, body: &'r Raw) -> Result<&'r [Raw], Refused> {
        let records = &self.adapter.records;
        let step = |raw: &'r Raw, step: &String| match raw {
            Raw::List(items) => step.parse::<usize>().ok().and_then(|place| items.get(place)),
            _ => raw.get(step),
        };
        let wanted = |found: &str| {
            let place = if records.as_str().is_empty() { "the whole of it" } else { records.as_str() };
            schema(format!(
                "{found} is at its records ({place}); allowed: an object, a list of them, or null"
            ))
        };
        match records.steps().iter().try_fold(body, step) {
            None => Err(wanted("nothing")),
            Some(Raw::Null) => Ok(&[]),
            Some(Raw::List(items)) if items.iter().all(|item| matches!(item, Raw::Object(_))) => Ok(items),
            Some(object @ Raw::Object(_)) => Ok(std::slice::from_ref(object)),
            Some(other) => Err(wanted(other.kind())),
        }
    }

    /// What is said of everything but the identity.
    fn stated(&self, content: Content) -> BTreeMap<String, Stated> {
        let Content { axes, mut definitions } = content;
        let is_identity = |path: &str| self.ontology().axis(path).is_some_and(|axis| axis.identity);
        let stated = axes.into_iter().filter(|(path, _)| !is_identity(path));
        let stated = stated.map(|(path, value)| {
            let definition = definitions.remove(&path);
            (path, Stated { value, definition })
        });
        stated.collect()
    }

    /// Why a record is not taken, or what is noted of it: by which rule, where as far as that is the adapter's own word, and which
    /// bound it breaks. Of a group its axis is told, since the keys are the answer's.
    fn told(&self, rejection: &Rejection) -> String {
        let rule = rejection.rule.into_str();
        let ours = rejection.place.as_ref().and_then(|place| {
            let axis = self.ontology().axis(place).map(|axis| axis.axis.as_str());
            axis.or_else(|| self.adapter.required_fields.contains(place).then_some(place))
        });
        let place = ours.map(|place| format!(" on `{place}`")).unwrap_or_default();
        let bound = rejection.bound.as_ref().map(|bound| format!(": {bound}")).unwrap_or_default();
        format!("it does not keep to `{rule}`{place}{bound}")
    }
}

/// As of when an answer holds that does not say so: one that was issued before it was asked for cannot know what came after.
fn of_its_issue(asked_at: Timestamp, issued_at: Option<Timestamp>) -> Timestamp {
    issued_at.map_or(asked_at, |issued_at| issued_at.min(asked_at))
}

fn is_within(kept: &KeptAnswer, now: Timestamp, seconds: u64) -> bool {
    let limit = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    // the clock was set back since: the age of this answer is unknown
    kept.candidate.as_ref().is_some_and(|candidate| {
        (SignedDuration::ZERO..=limit).contains(&now.duration_since(candidate.record.retrieved_at))
    })
}

fn schema(cause: String) -> Refused {
    (Refusal::Schema, cause)
}

/// Why a body is no JSON document, without a word of it.
fn unreadable(bad: &BadRecord) -> String {
    match bad {
        BadRecord::RepeatedName { .. } => "a name stands twice in one object of it".to_owned(),
        BadRecord::NotUtf8 { at_byte } => format!("it is no UTF-8 from its byte {at_byte} on"),
        BadRecord::Syntax { cause } => format!("it is no JSON: {cause}"),
        BadRecord::TooDeep => "its lists and objects lie too deep in one another".to_owned(),
        _ => "it is no JSON document".to_owned(),
    }
}
