//! The line of an entry in the log, and its leaf in the Merkle tree.
//!
//! A value that can be erased, or withheld from a reader, is committed to: the leaf has a salted hash in its place. The line has
//! the value, and its salt in the last member, `salts`. Erasing a value puts the hash into the line and removes the salt. So the
//! leaf of a line is computed from the line alone, and stays the same. In a leaf that would be too long, the longest values are
//! committed to as well.
//!
//! The hash has no separator between a salt and its value. So each reader requires a salt of exactly 32 hexadecimal digits. With another
//! length, the beginning of a value could be moved into its salt.

use domain_base::caller::{RequestCaller, TraceId};
use domain_base::digest::{DIGITS, Sha256Hex};
use domain_base::event::{AuditEvent, EventType};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// The member that has the salts of the values that are committed to, by the names of their members.
pub const SALTS: &str = "salts";
/// The member that has the caller. It is always committed to.
pub const CALLER: &str = "caller";
/// The member that has the trace of an entry without a caller.
pub const TRACE_ID: &str = "trace_id";
/// The member of each entry of a daemon in test mode. Its value is true.
pub const TEST_MODE: &str = "test_mode";
/// The member that has the digests of the rows that were set with the entry. It is always committed to.
pub const ROWS: &str = "rows_sha256";
/// The member that has the links to other entries of the same delivery.
pub const LINKS: &str = "links";
/// The members that have ids of sessions, or relate entries of one session. The id of a mail contains one.
pub const SESSION_IDS: [&str; 4] = ["session_id", "session_ids", "message_id", LINKS];
/// The digits of a salt.
const SALT_DIGITS: usize = 32;
/// The start of a hash in place of a value.
const HASH_START: &str = "{\"sha256\":\"";
/// The end of a hash in place of a value.
const HASH_END: &str = "\"}";
/// Maximum number of members of an entry. Without this limit, the search for a repeated name could take hours.
const MEMBERS_MAX: usize = 256;

/// Maximum length of a leaf in bytes. A tile has the length of each leaf in two bytes.
pub const LEAF_BYTES_MAX: usize = u16::MAX as usize;

/// Random bytes from which salts are derived.
pub type SaltSecret = [u8; 16];

/// Which values of new entries are salted, and by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntrySalts {
    /// The secret from which the salts are derived. It must be random, and may be that of several entries.
    pub secret: SaltSecret,
    /// Whether the log commits to session ids too, so that they can be erased.
    pub covers_session_ids: bool,
}

/// An entry as the log stores it. Neither text has a line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryText {
    pub line: String,
    pub leaf: String,
}

/// The SHA-256 of each row that was set with an entry, by its table and its name (`sessions/cs_1`); `None` if the row was removed.
pub type RowDigests = BTreeMap<String, Option<Sha256Hex>>;

/// Names an earlier entry of the same delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EntryLink {
    /// The number of the entry.
    pub seq: u64,
    /// The hash of its leaf in the Merkle tree of the log: the SHA-256 of a zero byte and the leaf.
    pub leaf_sha256: Sha256Hex,
}

/// The members that the journal adds to an event.
#[derive(Debug, Clone, Copy, Default)]
pub struct EntryAdditions<'a> {
    /// The links to other entries of the same delivery, by increasing numbers.
    pub links: &'a [EntryLink],
    pub caller: Option<&'a RequestCaller>,
    /// The trace that the daemon continues on its own; `None` with a caller, which has its trace.
    pub trace_id: Option<&'a TraceId>,
    /// The rows that were set with the entry; `None` without rows.
    pub rows: Option<&'a RowDigests>,
    /// Whether the daemon is in test mode.
    pub is_test: bool,
}

/// Why a line is not an entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the line is not an entry of the log: {0}")]
pub struct LogLineError(String);

impl From<serde_json::Error> for LogLineError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

/// The members of a JSON object, in their order and with their text.
struct RawMembers<'l>(Vec<(Cow<'l, str>, &'l RawValue)>);

impl<'de: 'l, 'l> Deserialize<'de> for RawMembers<'l> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                while let Some((name, value)) = map.next_entry()? {
                    if members.len() == MEMBERS_MAX {
                        return Err(A::Error::custom(format_args!("it has more than {MEMBERS_MAX} members")));
                    }
                    if members.iter().any(|(before, _)| *before == name) {
                        return Err(A::Error::custom(format_args!("the member `{name}` is repeated")));
                    }
                    members.push((name, value));
                }
                Ok(RawMembers(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// The entry number `seq` for `event`.
#[must_use]
pub fn entry_text(
    seq: u64,
    event: &AuditEvent,
    additions: EntryAdditions<'_>,
    salts: &EntrySalts,
) -> EntryText {
    let EntryAdditions { links, caller, trace_id, rows, is_test } = additions;
    let EntrySalts { secret, covers_session_ids } = salts;
    let mut line = format!("{{\"seq\":{seq},{}", event.members());
    if is_test {
        write!(line, ",\"{TEST_MODE}\":true").expect("a text can be extended");
    }
    if let Some(trace_id) = trace_id {
        write!(line, ",\"{TRACE_ID}\":\"{trace_id}\"").expect("a text can be extended");
    }
    if !links.is_empty() {
        let links = serde_json::to_string(links).expect("links are plain data with string keys");
        write!(line, ",\"{LINKS}\":{links}").expect("a text can be extended");
    }
    if let Some(caller) = caller {
        let caller = serde_json::to_string(caller).expect("a caller is plain data with string keys");
        write!(line, ",\"{CALLER}\":{caller}").expect("a text can be extended");
    }
    if let Some(rows) = rows {
        let rows = serde_json::to_string(rows).expect("digests are plain data with string keys");
        write!(line, ",\"{ROWS}\":{rows}").expect("a text can be extended");
    }
    line.push('}');
    let erasable = event.kind.event_type().erasable;
    let session_ids = if *covers_session_ids { &SESSION_IDS[..] } else { &[] };
    let is_short = line.len() <= LEAF_BYTES_MAX;
    let is_plain = erasable.is_empty() && session_ids.is_empty() && caller.is_none() && rows.is_none();
    if is_short && is_plain {
        return EntryText { leaf: line.clone(), line };
    }
    let RawMembers(members) = serde_json::from_str(&line).expect("an event has few members");
    let salt_of = |name: &str, value: &RawValue| {
        // an absent value has nothing to erase
        let is_erasable = is_addition(name) || erasable.contains(&name) || session_ids.contains(&name);
        (is_erasable && value.get() != "null").then(|| derive_salt(secret, seq, name))
    };
    let salted = |(name, value): &(Cow<'_, str>, &RawValue)| Some((name.to_string(), salt_of(name, value)?));
    let mut salts: Vec<_> = members.iter().filter_map(salted).collect();
    let mut leaf = hide(&members, &salts);
    while leaf.len() > LEAF_BYTES_MAX
        && let Some(name) = largest_open(&members, &salts)
    {
        salts.push((name.to_owned(), derive_salt(secret, seq, name)));
        leaf = hide(&members, &salts);
    }
    sort_salts(&mut salts, &members);
    if salts.is_empty() {
        return EntryText { leaf, line };
    }
    drop(members);
    if let Some(salts) = salts_member(&salts) {
        line.pop();
        write!(line, ",{salts}}}").expect("a text can be extended");
    }
    EntryText { line, leaf }
}

/// Sorts salts in the order of their members, which each reader of a card requires. Earlier versions wrote the salts of too long values last.
fn sort_salts(salts: &mut [(String, String)], members: &[(Cow<'_, str>, &RawValue)]) {
    salts.sort_by_key(|(salted, _)| members.iter().position(|(name, _)| name == salted));
}

/// Whether the journal adds the member to an event.
#[must_use]
pub fn is_addition(name: &str) -> bool {
    [CALLER, ROWS].contains(&name)
}

/// The member with the longest value among those without a salt, if a hash is shorter.
fn largest_open<'m>(members: &'m [(Cow<'_, str>, &RawValue)], salts: &[(String, String)]) -> Option<&'m str> {
    let is_open = |name: &str| !salts.iter().any(|(salted, _)| salted == name);
    let open = members.iter().filter(|(name, _)| is_open(name));
    let (name, value) = open.max_by_key(|(_, value)| value.get().len())?;
    (value.get().len() > HASH_START.len() + DIGITS + HASH_END.len()).then_some(name)
}

/// The leaf of the entry with this line, which has no line end.
///
/// # Errors
/// If the line has salts and is not an entry.
pub fn leaf_of(line: &str) -> Result<Cow<'_, str>, LogLineError> {
    Ok(read_salted(line)?.map_or(Cow::Borrowed(line), |(members, salts)| Cow::Owned(hide(&members, &salts))))
}

/// The line with hashes in place of the values whose members `is_hidden` selects. Values that are not committed to stay.
///
/// # Errors
/// If the line has salts and is not an entry.
pub fn hide_values(line: &str, is_hidden: impl Fn(&str) -> bool) -> Result<Cow<'_, str>, LogLineError> {
    let Some((members, salts)) = read_salted(line)? else { return Ok(Cow::Borrowed(line)) };
    let (hidden, mut open): (Vec<_>, Vec<_>) = salts.into_iter().partition(|(name, _)| is_hidden(name));
    sort_salts(&mut open, &members);
    let mut line = hide(&members, &hidden);
    if let Some(salts) = salts_member(&open) {
        line.pop();
        write!(line, ",{salts}}}").expect("a text can be extended");
    }
    Ok(Cow::Owned(line))
}

/// Whether `erased` is `line` after the erasure of some of its values.
#[must_use]
pub fn is_erased_form(erased: &str, line: &[u8]) -> bool {
    let Some((line, gone)) = str::from_utf8(line).ok().zip(hidden_members(erased).ok()) else { return false };
    let is_gone = |member: &str| gone.iter().any(|gone| gone == member);
    hide_values(line, is_gone).is_ok_and(|hidden| hidden == erased)
}

/// The rows that were set with an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedRows {
    /// The entry set no row.
    None,
    /// The value was erased or withheld.
    Hidden,
    Open(RowDigests),
}

impl LoggedRows {
    /// The rows that were set with the entry of this line.
    ///
    /// # Errors
    /// The line is not an entry.
    pub fn read(line: &str) -> Result<Self, LogLineError> {
        #[derive(Deserialize)]
        struct Members<'l> {
            #[serde(default, borrow)]
            rows_sha256: Option<&'l RawValue>,
        }
        let Members { rows_sha256 } = serde_json::from_str(line)?;
        Ok(match rows_sha256.map(RawValue::get) {
            None => Self::None,
            Some(value) if is_hash(value) => Self::Hidden,
            Some(value) => Self::Open(serde_json::from_str(value)?),
        })
    }
}

/// The names of the members whose values were erased or withheld.
///
/// # Errors
/// If the line is not an object.
pub fn hidden_members(line: &str) -> Result<Vec<String>, LogLineError> {
    Ok(LineMembers::read(line)?.hidden)
}

/// The members of a line.
pub(crate) struct LineMembers<'l> {
    /// The members with their text, in their order.
    pub(crate) members: Vec<(Cow<'l, str>, &'l RawValue)>,
    /// The names of the members whose values were erased or withheld.
    pub(crate) hidden: Vec<String>,
}

impl<'l> LineMembers<'l> {
    /// # Errors
    /// If the line is not an object.
    pub(crate) fn read(line: &'l str) -> Result<Self, LogLineError> {
        let RawMembers(members) = read_members(line)?;
        let salts = members.iter().find(|(name, _)| name == SALTS);
        let open = salts.map_or_else(|| Ok(Vec::new()), |(_, value)| read_salts(value))?;
        let is_hidden = |name: &str, value: &RawValue| {
            is_hash(value.get()) && !open.iter().any(|(open, _)| *open == *name)
        };
        let hidden = members.iter().filter(|(name, value)| is_hidden(name, value));
        let hidden = hidden.map(|(name, _)| name.to_string()).collect();
        Ok(Self { members, hidden })
    }
}

/// Whether the line has a value that can be erased. A line of the log has a salt for each such value. `find` returns the type of an event.
#[must_use]
pub fn has_open_values(line: &str, find: impl Fn(&str) -> Option<&'static EventType>) -> bool {
    let Ok(RawMembers(members)) = read_members(line) else { return true };
    let event =
        members.iter().find(|(name, _)| name == "event").map(|(_, value)| value.get().trim_matches('"'));
    let Some(erasable) = event.and_then(find).map(|kind| kind.erasable) else { return true };
    let is_erasable = |name: &str| is_addition(name) || erasable.contains(&name);
    members.iter().any(|(name, value)| is_erasable(name) && value.get() != "null" && !is_hash(value.get()))
}

fn read_members(line: &str) -> Result<RawMembers<'_>, LogLineError> {
    Ok(serde_json::from_str(line)?)
}

/// The members of a line without its salts, and the salts; `None` if it has no salts.
#[expect(clippy::type_complexity, reason = "the pairs are taken apart at once")]
fn read_salted(
    line: &str,
) -> Result<Option<(Vec<(Cow<'_, str>, &RawValue)>, Vec<(String, String)>)>, LogLineError> {
    if !line.contains("\"salts\":") {
        return Ok(None);
    }
    let RawMembers(mut members) = read_members(line)?;
    let Some(at) = members.iter().position(|(name, _)| name == SALTS) else { return Ok(None) };
    let (_, value) = members.remove(at);
    let salts = read_salts(value)?;
    // the leaf does not include the text of the salts, so it would not reveal a changed text
    let mut own_text = join_members(&members, |_, value, text| text.push_str(value));
    own_text.pop();
    own_text.push(',');
    own_text.push_str(&salts_member(&salts).unwrap_or_default());
    own_text.push('}');
    if own_text != line {
        return Err(LogLineError("its text is not the one that the log writes".to_owned()));
    }
    match salts.iter().find(|(name, _)| !members.iter().any(|(member, _)| member == name)) {
        Some((name, _)) => Err(LogLineError(format!("`salts` names `{name}`, which is not a member"))),
        None => Ok(Some((members, salts))),
    }
}

fn read_salts(value: &RawValue) -> Result<Vec<(String, String)>, LogLineError> {
    let RawMembers(salts) = read_members(value.get())?;
    let read = |(name, salt): (Cow<'_, str>, &RawValue)| {
        let salt = serde_json::from_str::<String>(salt.get()).ok().filter(|salt| is_hex(salt, SALT_DIGITS));
        let invalid =
            || LogLineError(format!("the salt of `{name}` is not {SALT_DIGITS} hexadecimal digits"));
        Ok((name.to_string(), salt.ok_or_else(invalid)?))
    };
    salts.into_iter().map(read).collect()
}

/// The text of an object with these members, with a hash in place of each value that has a salt.
fn hide(members: &[(Cow<'_, str>, &RawValue)], salts: &[(String, String)]) -> String {
    join_members(members, |name, value, text| match salts.iter().find(|(salted, _)| salted == name) {
        Some((_, salt)) => {
            let hash = Sha256::new_with_prefix(salt).chain_update(value).finalize();
            text.push_str(HASH_START);
            text.push_str(Sha256Hex::from_bytes(&hash.into()).as_str());
            text.push_str(HASH_END);
        }
        None => text.push_str(value),
    })
}

/// The text of an object with these members. `push_value` appends the value of each.
fn join_members(
    members: &[(Cow<'_, str>, &RawValue)],
    push_value: impl Fn(&str, &str, &mut String),
) -> String {
    let bytes = members.iter().map(|(name, value)| name.len() + value.get().len() + 4).sum::<usize>();
    let mut text = String::with_capacity(bytes + 2);
    for (name, value) in members {
        text.push(if text.is_empty() { '{' } else { ',' });
        push_name(name, &mut text);
        text.push(':');
        push_value(name, value.get(), &mut text);
    }
    text.push_str(if text.is_empty() { "{}" } else { "}" });
    text
}

/// Appends a name as a text of JSON.
fn push_name(name: &str, text: &mut String) {
    // the names of members have nothing to escape
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        text.push('"');
        text.push_str(name);
        text.push('"');
    } else {
        text.push_str(&serde_json::Value::from(name).to_string());
    }
}

/// The member with these salts; `None` if there are none.
fn salts_member(salts: &[(String, String)]) -> Option<String> {
    let mut text = format!("\"{SALTS}\":");
    for (index, (name, salt)) in salts.iter().enumerate() {
        text.push(if index == 0 { '{' } else { ',' });
        push_name(name, &mut text);
        text.push_str(":\"");
        text.push_str(salt);
        text.push('"');
    }
    text.push('}');
    (!salts.is_empty()).then_some(text)
}

fn derive_salt(secret: &SaltSecret, seq: u64, name: &str) -> String {
    let hash = Sha256::new_with_prefix(secret).chain_update(seq.to_be_bytes()).chain_update(name).finalize();
    let mut digits = Sha256Hex::from_bytes(&hash.into()).as_str().to_owned();
    digits.truncate(SALT_DIGITS);
    digits
}

fn is_hash(value: &str) -> bool {
    let digits = value.strip_prefix(HASH_START).and_then(|rest| rest.strip_suffix(HASH_END));
    digits.is_some_and(|digits| is_hex(digits, DIGITS))
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
