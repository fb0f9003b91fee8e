//! The comparison: the same facts in SQLite, with the indexes that the queries need.

use super::facts::{BenchFact, BenchRelease};
use super::{BenchQuery, ReturnedFact};
use crate::standalone_journal::FACTS_CACHE_BYTES;
use rusqlite::{Connection, Params, Row, Statement};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// A row is a version with its interval of validity and its origin.
const TABLE: &str = "CREATE TABLE facts (area TEXT, year INTEGER, valid_from INTEGER, valid_until INTEGER, \
    area_name TEXT, population INTEGER, run INTEGER, position INTEGER, raw_hash BLOB, \
    PRIMARY KEY (area, year, valid_from)) WITHOUT ROWID";
const INSERT: &str = "INSERT INTO facts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const INDEX: &str = "CREATE INDEX by_name ON facts (area_name)";
/// Without `valid_until`: an answer for a point in time does not show a later end.
const COLUMNS: &str =
    "SELECT area, year, area_name, population, valid_from, run, position, raw_hash FROM facts";
const LOOKUP: &str =
    "WHERE area = ?1 AND year = ?2 AND valid_from <= ?3 AND (valid_until IS NULL OR valid_until > ?3)";
const YEARS: &str = "WHERE area = ?1 AND valid_from <= ?2 AND (valid_until IS NULL OR valid_until > ?2) \
    ORDER BY area, year LIMIT ?3";
const PAGE: &str = "WHERE (area, year) > (?1, ?2) AND valid_from <= ?3 \
    AND (valid_until IS NULL OR valid_until > ?3) ORDER BY area, year LIMIT ?4";
const NAMED: &str = "WHERE area_name = ?1 AND valid_from <= ?2 AND (valid_until IS NULL OR valid_until > ?2) \
    ORDER BY area, year LIMIT ?3";
const FROM_ON: &str = "WHERE population >= ?1 AND valid_from <= ?2 \
    AND (valid_until IS NULL OR valid_until > ?2) ORDER BY area, year LIMIT ?3";

/// The facts in SQLite.
#[derive(Debug)]
pub(crate) struct SqliteFacts {
    connection: Connection,
}

/// A row to insert.
struct SqliteFactRow<'f> {
    fact: &'f BenchFact,
    valid_from: i64,
    valid_until: Option<i64>,
    run: u32,
    position: i64,
    raw_hash: [u8; 32],
}

impl SqliteFacts {
    /// Creates the database at `path` with the facts of `releases`. Returns the time of the single transaction, too.
    pub(crate) fn fill(path: &Path, releases: &[BenchRelease]) -> io::Result<(Self, Duration)> {
        let versions = versions(releases);
        let mut connection = Connection::open(path).map_err(io::Error::other)?;
        // the same cache size as ours
        let cache_kib = i64::try_from(FACTS_CACHE_BYTES / 1024).expect("a small number");
        connection.pragma_update(None, "cache_size", -cache_kib).map_err(io::Error::other)?;
        let began = Instant::now();
        insert(&mut connection, &versions).map_err(io::Error::other)?;
        Ok((Self { connection }, began.elapsed()))
    }

    /// Prepares the statements.
    pub(crate) fn prepare(&self) -> io::Result<SqliteStatements<'_>> {
        let prepare = |which| self.connection.prepare(&format!("{COLUMNS} {which}"));
        let prepare = |which| prepare(which).map_err(io::Error::other);
        let [lookup, years, named] = [prepare(LOOKUP)?, prepare(YEARS)?, prepare(NAMED)?];
        let [from_on, page] = [prepare(FROM_ON)?, prepare(PAGE)?];
        Ok(SqliteStatements { connection: &self.connection, lookup, years, named, from_on, page })
    }
}

/// The prepared statements.
pub(crate) struct SqliteStatements<'c> {
    connection: &'c Connection,
    lookup: Statement<'c>,
    years: Statement<'c>,
    named: Statement<'c>,
    from_on: Statement<'c>,
    page: Statement<'c>,
}

impl SqliteStatements<'_> {
    /// Begins a transaction, so that the following queries share it.
    pub(crate) fn begin(&self) -> io::Result<()> {
        self.connection.execute_batch("BEGIN").map_err(io::Error::other)
    }

    /// Ends the transaction.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.connection.execute_batch("COMMIT").map_err(io::Error::other)
    }

    /// The facts that answer `question`, ordered by area and year.
    pub(crate) fn query(&mut self, question: &BenchQuery<'_>, at: i64) -> io::Result<Vec<ReturnedFact>> {
        let limit = question.limit();
        let answered = match question {
            BenchQuery::Lookup { area, year } => select(&mut self.lookup, (area, year, at)),
            BenchQuery::Years(area) => select(&mut self.years, (area, at, limit)),
            BenchQuery::Named(name) => select(&mut self.named, (name, at, limit)),
            BenchQuery::FromOn(population) => select(&mut self.from_on, (population, at, limit)),
            BenchQuery::Page(after) => {
                let (area, year) = after.map_or(("", 0), |last| (last.area.as_str(), last.year));
                select(&mut self.page, (area, year, at, limit))
            }
        };
        answered.map_err(io::Error::other)
    }
}

fn select(statement: &mut Statement<'_>, params: impl Params) -> rusqlite::Result<Vec<ReturnedFact>> {
    statement.query_map(params, returned_fact)?.collect()
}

fn returned_fact(row: &Row<'_>) -> rusqlite::Result<ReturnedFact> {
    Ok(ReturnedFact {
        area: row.get(0)?,
        year: row.get(1)?,
        name: row.get(2)?,
        population: row.get(3)?,
        valid_from: row.get(4)?,
        run: row.get(5)?,
        position: row.get(6)?,
        raw_hash: row.get(7)?,
    })
}

/// The versions of all facts. A release that repeats a fact unchanged continues its version.
fn versions(releases: &[BenchRelease]) -> Vec<SqliteFactRow<'_>> {
    let mut versions: Vec<SqliteFactRow<'_>> = Vec::new();
    let mut open = BTreeMap::<i64, usize>::new();
    for (run, release) in (1..).zip(releases) {
        for (position, fact) in (0..).zip(&release.facts) {
            let before = open.get(&position).and_then(|place| versions.get_mut(*place));
            if let Some(before) = before {
                if before.fact == fact {
                    continue;
                }
                before.valid_until = Some(release.released_s);
            }
            open.insert(position, versions.len());
            let (valid_from, raw_hash) = (release.released_s, fact.raw_hash());
            versions.push(SqliteFactRow { fact, valid_from, valid_until: None, run, position, raw_hash });
        }
    }
    versions
}

fn insert(connection: &mut Connection, versions: &[SqliteFactRow<'_>]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLE)?;
    let mut statement = transaction.prepare(INSERT)?;
    for version in versions {
        let SqliteFactRow { fact, valid_from, valid_until, run, position, raw_hash } = version;
        let BenchFact { area, year, name, population } = fact;
        statement.execute((
            area,
            year,
            valid_from,
            valid_until,
            name,
            population,
            run,
            position,
            raw_hash,
        ))?;
    }
    drop(statement);
    // faster than an index that is updated for each row
    transaction.execute_batch(INDEX)?;
    transaction.commit()
}
