use super::{SCHEMA, check_form};
use domain_base::row::{Row, RowUpgrade, Table};
use domain_verdict::outbox::OutboxMessage;
use domain_verdict::session::SessionRecord;
use std::cell::Cell;

thread_local! {
    static PROGRAM: Cell<u32> = const { Cell::new(SCHEMA) };
}

pub(super) const DROPPED: &[(u32, &str)] = &[(SCHEMA, "made_up")];

/// The member of a session that each of the two schemas renames.
const SESSION: [&str; 3] = ["tier_0", "tier_1", "tier"];
/// The member of a queued message that the second schema renames.
const MESSAGE: [&str; 3] = ["mail_state", "mail_state", "state"];

pub(crate) fn schema() -> u32 {
    PROGRAM.get()
}

/// Runs `run` as the program of schema version `version` would.
pub(crate) fn as_program_of<T>(version: u32, run: impl FnOnce() -> T) -> T {
    PROGRAM.set(version);
    let result = run();
    PROGRAM.set(SCHEMA);
    result
}

/// A row of today in the form of schema version `version`.
pub(crate) fn in_form_of(version: u32, table: &Table, value: &[u8]) -> Vec<u8> {
    let names = if table.name == SessionRecord::TABLE.name {
        SESSION
    } else if table.name == OutboxMessage::TABLE.name {
        MESSAGE
    } else {
        return value.to_vec();
    };
    rename(value, names[2], names[(version + 2 - SCHEMA) as usize]).expect("a row of today")
}

fn rename(value: &[u8], from: &str, to: &str) -> Result<Vec<u8>, String> {
    let row = str::from_utf8(value).map_err(|error| error.to_string())?;
    let member = |name: &str| format!("\"{name}\":");
    if !row.contains(&member(from)) {
        return Err(format!("it has no {from}"));
    }
    Ok(row.replacen(&member(from), &member(to), 1).into_bytes())
}

static OF_SESSIONS: [RowUpgrade; 2] = [
    RowUpgrade { schema: SCHEMA - 1, convert: |value| rename(value, SESSION[0], SESSION[1]) },
    RowUpgrade { schema: SCHEMA, convert: |value| rename(value, SESSION[1], SESSION[2]) },
];
static OF_MESSAGES: [RowUpgrade; 1] =
    [RowUpgrade { schema: SCHEMA, convert: |value| rename(value, MESSAGE[1], MESSAGE[2]) }];

/// Checks rows of the present schema only: no type can read the form of an earlier one.
pub(crate) fn check_readable(table: &Table, name: &str, value: &[u8]) -> Result<(), String> {
    if schema() == SCHEMA { check_form(table, name, value) } else { Ok(()) }
}

pub(super) fn upgrades_of(table: &Table) -> impl Iterator<Item = &'static RowUpgrade> {
    let made_up: &'static [RowUpgrade] = match table.name {
        name if name == SessionRecord::TABLE.name => &OF_SESSIONS,
        name if name == OutboxMessage::TABLE.name => &OF_MESSAGES,
        _ => &[],
    };
    made_up.iter().chain(table.upgrades)
}
