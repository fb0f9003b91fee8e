//! The replay of a decision: it is computed again from its inputs, and compared with its entry.

use crate::leaf::{CALLER, LINKS, LineMembers, LogLineError, ROWS, SALTS, TEST_MODE, TRACE_ID};
use domain_base::event::read_open;
use domain_base::session_id::SessionId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// A decision that was computed again.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayedDecision {
    /// The number of the entry.
    pub seq: u64,
    pub event: &'static str,
    pub outcome: ReplayOutcome,
}

/// The outcome of the replay of one entry.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplayOutcome {
    /// All results in the entry follow from its inputs.
    Reproduced,
    /// The results that follow from the available inputs are the logged ones; the others need this input.
    ReproducedInPart(MissingInput),
    /// Members have other values.
    Different(Vec<MemberDifference>),
    /// No result can be computed without this input.
    NotReproducible(MissingInput),
}

/// A member of an entry that has another value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemberDifference {
    /// The path of the member.
    pub member: String,
    /// The value in the entry; null if it is missing.
    pub logged: Value,
    /// The value that was computed; null if there is none.
    pub computed: Value,
}

/// An input of a decision that is not available.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissingInput {
    /// The values of these members were erased or withheld.
    HiddenValues(BTreeSet<String>),
    /// The text of a rejected verdict is never stored.
    RejectedText,
    /// The text of the verdict is not stored with the entry.
    VerdictText,
    /// The log has only digests of the text and of the facts, and they are not stored with the entry.
    TextAndFacts,
    /// The policy or a limit in the configuration.
    Configuration,
    /// The entries that the decision follows from.
    OtherEntries,
    /// The first answer of a source that was queried again.
    ReplacedAnswer,
    /// The order of regenerations that ran at the same time.
    RegenerationOrder,
}

impl fmt::Display for MissingInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HiddenValues(members) => {
                let members: Vec<_> = members.iter().map(|member| format!("`{member}`")).collect();
                return write!(f, "values erased or withheld: {}", members.join(", "));
            }
            Self::RejectedText => "the text of a rejected verdict is never stored",
            Self::VerdictText => "the text of the verdict is not stored with the entry",
            Self::TextAndFacts => "the log has only digests of the text and the facts",
            Self::Configuration => "the configuration is not in the log",
            Self::OtherEntries => "the entries that the decision follows from are missing",
            Self::ReplacedAnswer => "the first answer of a source that was queried again is not stored",
            Self::RegenerationOrder => "the order of concurrent regenerations is not in the log",
        })
    }
}

impl Serialize for MissingInput {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl ReplayOutcome {
    /// The outcome of a comparison with these differences. Results that need `missing` were not compared.
    pub fn of(differences: Vec<MemberDifference>, missing: Option<MissingInput>) -> Self {
        match missing {
            _ if !differences.is_empty() => Self::Different(differences),
            Some(missing) => Self::ReproducedInPart(missing),
            None => Self::Reproduced,
        }
    }
}

/// Maximum number of differences of one entry that are listed.
const DIFFERENCES_MAX: usize = 16;
/// The members of a line that are no part of its decision.
const LINE_MEMBERS: [&str; 10] =
    ["seq", "event", "session_id", "timestamp", TEST_MODE, TRACE_ID, LINKS, CALLER, ROWS, SALTS];

/// An entry of a kind that is replayed.
#[derive(Debug)]
pub struct LoggedDecision<'l> {
    pub seq: u64,
    pub event: &'static str,
    pub session_id: Option<SessionId>,
    pub line: &'l str,
    members: Vec<(Cow<'l, str>, &'l RawValue)>,
    hidden: Vec<String>,
}

#[derive(Deserialize)]
struct LineHead<'l> {
    seq: u64,
    #[serde(borrow)]
    event: Cow<'l, str>,
    #[serde(default, deserialize_with = "read_open")]
    session_id: Option<SessionId>,
}

/// Why an entry cannot be replayed, or differs.
pub enum ReplayStop {
    Missing(MissingInput),
    /// The value of a member is not one that this program writes.
    Unreadable(MemberDifference),
}

impl From<ReplayStop> for ReplayOutcome {
    fn from(stop: ReplayStop) -> Self {
        match stop {
            ReplayStop::Missing(missing) => Self::NotReproducible(missing),
            ReplayStop::Unreadable(difference) => Self::Different(vec![difference]),
        }
    }
}

impl<'l> LoggedDecision<'l> {
    /// The entry with this line; `None` if its event is none of `replayed`.
    ///
    /// # Errors
    /// The line is not an entry.
    pub fn read(line: &'l str, replayed: &[&'static str]) -> Result<Option<Self>, LogLineError> {
        let LineHead { seq, event, session_id } = serde_json::from_str(line)?;
        let Some(event) = replayed.iter().copied().find(|name| event == *name) else { return Ok(None) };
        let LineMembers { members, hidden } = LineMembers::read(line)?;
        Ok(Some(Self { seq, event, session_id, line, members, hidden }))
    }

    /// The session of the decision.
    #[must_use]
    pub const fn session_id(&self) -> Option<&SessionId> {
        self.session_id.as_ref()
    }

    /// The value of the member `name`; null if it is missing.
    ///
    /// # Errors
    /// The value was erased or withheld, or is none of its type.
    pub fn read_member<T: DeserializeOwned>(&self, name: &str) -> Result<T, ReplayStop> {
        if self.is_hidden(name) {
            return Err(ReplayStop::Missing(self.missing_values([name])));
        }
        serde_json::from_str(self.text(name)).map_err(|_| {
            ReplayStop::Unreadable(MemberDifference {
                member: name.to_owned(),
                logged: self.value(name),
                computed: Value::Null,
            })
        })
    }

    pub fn is_hidden(&self, name: &str) -> bool {
        self.hidden.iter().any(|hidden| hidden == name)
    }

    /// The inputs among `names` whose values were erased or withheld.
    pub fn missing_values<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> MissingInput {
        let hidden = names.into_iter().filter(|name| self.is_hidden(name));
        MissingInput::HiddenValues(hidden.map(str::to_owned).collect())
    }

    /// The first of `names` that were erased or withheld, as a missing input.
    pub fn require(&self, names: &[&str]) -> Result<(), ReplayStop> {
        if names.iter().any(|name| self.is_hidden(name)) {
            return Err(ReplayStop::Missing(self.missing_values(names.iter().copied())));
        }
        Ok(())
    }

    fn text(&self, name: &str) -> &str {
        self.members.iter().find(|(member, _)| member == name).map_or("null", |(_, value)| value.get())
    }

    pub fn value(&self, name: &str) -> Value {
        serde_json::from_str(self.text(name)).unwrap_or_default()
    }

    /// Compares the members of `computed`, an object, with those of the entry. Values that were erased or withheld are skipped.
    pub fn compare(&self, computed: &impl Serialize) -> Vec<MemberDifference> {
        let mut differences = Vec::new();
        for (name, computed) in &members_of(computed) {
            if !self.is_hidden(name) {
                collect_differences(name.clone(), &self.value(name), computed, &mut differences);
            }
        }
        differences
    }

    /// Compares all members of the decision with `computed`, an object that has all of them.
    pub fn compare_all(&self, computed: &impl Serialize) -> Vec<MemberDifference> {
        let mut computed = members_of(computed);
        for (name, _) in &self.members {
            if !LINE_MEMBERS.contains(&&**name) && !computed.contains_key(&**name) {
                computed.insert(name.to_string(), Value::Null);
            }
        }
        self.compare(&computed)
    }
}

fn members_of(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value).expect("a decision is plain data with string keys") {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Adds the innermost members below `path` that differ. A missing member counts as null.
fn collect_differences(
    path: String,
    logged: &Value,
    computed: &Value,
    differences: &mut Vec<MemberDifference>,
) {
    if logged == computed || differences.len() == DIFFERENCES_MAX {
        return;
    }
    match (logged, computed) {
        (Value::Object(logged), Value::Object(computed)) => {
            let names: BTreeSet<_> = logged.keys().chain(computed.keys()).collect();
            for name in names {
                let (logged, computed) = (logged.get(name), computed.get(name));
                let (logged, computed) = (logged.unwrap_or(&Value::Null), computed.unwrap_or(&Value::Null));
                collect_differences(format!("{path}.{name}"), logged, computed, differences);
            }
        }
        (Value::Array(logged), Value::Array(computed)) if logged.len() == computed.len() => {
            for (index, (logged, computed)) in logged.iter().zip(computed).enumerate() {
                collect_differences(format!("{path}[{index}]"), logged, computed, differences);
            }
        }
        _ => differences.push(MemberDifference {
            member: path,
            logged: logged.clone(),
            computed: computed.clone(),
        }),
    }
}
