//! The rights on the tables that a host needs.
//!
//! The owner creates the tables and grants these rights to the user of the hosts, which can neither change a group nor remove a table. Whether
//! a user has them is a report: a statement without its right fails by itself.

use postgres::types::Type;
use postgres::{Client, Error};
use std::collections::BTreeSet;

/// Each table with a privilege and its columns: all, or no part, if none is named. A test finds a statement that needs each of them.
const RIGHTS: [(&str, &str, &str); 17] = [
    ("oracled_cluster", "SELECT", ""),
    ("oracled_cluster", "UPDATE", "epoch, epoch_since, epoch_seen, mark"),
    ("oracled_group", "SELECT", ""),
    ("oracled_group", "INSERT", "before, after, root, host, key_id, bytes, schema"),
    ("oracled_group", "DELETE", ""),
    ("oracled_host", "SELECT", ""),
    ("oracled_host", "INSERT", "host, instance, seen, state"),
    (
        "oracled_host",
        "UPDATE",
        "instance, version, schema, applied, root, clock_offset_ms, removed, config, seen, settled, state",
    ),
    ("oracled_lease", "SELECT", ""),
    ("oracled_lease", "INSERT", "name, instance, host, until"),
    ("oracled_lease", "UPDATE", "instance, host, until"),
    ("oracled_lease", "DELETE", ""),
    ("oracled_key", "SELECT", ""),
    ("oracled_key", "INSERT", "id, digest, host"),
    ("oracled_meter", "SELECT", ""),
    ("oracled_meter", "INSERT", "name, due"),
    ("oracled_meter", "UPDATE", "due"),
];
/// The present user, and each right on each column of the tables, and whether the user has it. Without tables there is no row.
const HELD: &str = "
WITH tables AS (
    SELECT oid, relname::text AS name, relowner FROM pg_class
    WHERE oid IN (SELECT to_regclass(name) FROM unnest($1) AS name)
)
SELECT current_user::text, name, privilege, attname::text, has_column_privilege(oid, attnum, privilege)
FROM tables JOIN pg_attribute ON attrelid = oid AND attnum > 0 AND NOT attisdropped,
    unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) AS privilege
UNION ALL SELECT current_user, name, privilege, '', has_table_privilege(oid, privilege)
FROM tables, unnest(ARRAY['DELETE', 'TRUNCATE', 'TRIGGER']) AS privilege
UNION ALL SELECT current_user, name, 'OWNER', '', pg_has_role(relowner, 'USAGE') FROM tables";

/// How the rights of the user of a host differ from those that its statements need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostRights {
    /// The statements that grant what is missing.
    pub missing: BTreeSet<String>,
    /// The rights that no statement needs. An owner has all: then only that is named.
    pub excess: BTreeSet<String>,
}

/// The statements that grant the rights to `user`.
pub(crate) fn grants_to(user: &str) -> impl Iterator<Item = String> {
    RIGHTS.iter().map(move |right| grant(right, user))
}

fn grant((table, privilege, columns): &(&str, &str, &str), user: &str) -> String {
    let columns = if columns.is_empty() { String::new() } else { format!(" ({columns})") };
    format!("GRANT {privilege}{columns} ON {table} TO \"{}\"", user.replace('"', "\"\""))
}

/// Reads the rights of the present user.
pub(crate) fn read_rights(client: &mut Client) -> Result<HostRights, Error> {
    let tables: Vec<_> = RIGHTS.iter().map(|(table, ..)| *table).collect();
    let (mut rights, mut is_owner) = (HostRights::default(), false);
    for row in client.query_typed(HELD, &[(&tables, Type::TEXT_ARRAY)])? {
        let (user, table): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let (privilege, column): (String, String) = (row.try_get(2)?, row.try_get(3)?);
        let needed = RIGHTS.iter().find(|(of, needed, columns)| {
            (*of, *needed) == (table.as_str(), privilege.as_str())
                && (columns.is_empty() || columns.split(", ").any(|name| name == column))
        });
        match (needed, row.try_get(4)?) {
            (Some(right), false) => drop(rights.missing.insert(grant(right, &user))),
            (None, true) => {
                is_owner |= privilege == "OWNER";
                rights.excess.insert(format!("{privilege} on {table}"));
            }
            _ => {}
        }
    }
    rights.excess.retain(|right| !is_owner || right.starts_with("OWNER"));
    Ok(rights)
}
