//! A run's own statements in the order of their keys, and what becomes of several with one key.

use crate::base::error::StoreError;
use crate::ground::sorter::{Sorted, Sorter};
use crate::ground::statement::StoredStatement;
use crate::ground::view::SourceView;
use oracled_domain::Sha256Hex;
use oracled_domain::ground::rejection::{Reject, Rejection, Rule};
use std::iter::Peekable;
use std::path::Path;

/// So many records of one key are held in memory; more of them are on the disk until it is known what becomes of them.
const HELD_MAX: usize = 4096;
/// What sorting those takes of memory, in bytes.
const SORT_BYTES: usize = 4 << 20;
/// So many of them are named in a reason.
const NAMED_MAX: usize = 10;

/// The run's own statements, in the order of their keys.
pub(super) struct Fresh<'d> {
    rows: Peekable<Sorted>,
    run: u32,
    work_dir: &'d Path,
}

/// The records of one key in one run.
pub(super) struct Group {
    /// The first one.
    pub(super) first: StoredStatement,
    /// How many there are.
    pub(super) members: u64,
    /// Whether they all say the same.
    pub(super) same: bool,
    held: Vec<Member>,
    rest: Option<Sorter>,
}

struct Member {
    position: u64,
    offset: u64,
    len: u32,
    raw_hash: [u8; 32],
}

impl<'d> Fresh<'d> {
    pub(super) fn new(rows: Sorted, run: u32, work_dir: &'d Path) -> Self {
        Self { rows: rows.peekable(), run, work_dir }
    }

    /// The key of the next record.
    pub(super) fn key(&mut self) -> Result<Option<&[u8]>, StoreError> {
        if let Some(failed) = self.rows.next_if(Result::is_err) {
            failed?;
        }
        Ok(self.rows.peek().and_then(|row| row.as_ref().ok()).map(|(key, _)| key.as_slice()))
    }

    /// All records of this key; nothing where there are none.
    pub(super) fn group(&mut self, key: &[u8], view: &SourceView) -> Result<Option<Group>, StoreError> {
        let mut group: Option<Group> = None;
        while self.key()?.is_some_and(|next| next == key) {
            let Some((_, value)) = self.rows.next().transpose()? else { break };
            let statement = StoredStatement::read(self.run, value.into());
            let statement = statement.ok_or_else(|| view.corrupt("a statement cannot be read"))?;
            match &mut group {
                Some(group) => group.add(&statement, self.work_dir)?,
                None => group = Some(Group::new(statement)),
            }
        }
        Ok(group)
    }
}

impl Group {
    fn new(first: StoredStatement) -> Self {
        Self { first, members: 1, same: true, held: Vec::new(), rest: None }
    }

    /// Adds another record of the key. A record that was already rejected is ignored if there are others.
    fn add(&mut self, statement: &StoredStatement, work_dir: &Path) -> Result<(), StoreError> {
        if statement.time.content.is_none() {
            return Ok(());
        }
        if self.first.time.content.is_none() {
            *self = Self::new(statement.clone());
            return Ok(());
        }
        self.members += 1;
        self.same &= self.first.time == statement.time;
        let member = Member::of(statement);
        if self.held.len() < HELD_MAX {
            self.held.push(member);
            return Ok(());
        }
        let rest = self.rest.get_or_insert_with(|| Sorter::new(work_dir, SORT_BYTES));
        rest.push(&member.position.to_be_bytes(), &member.to_bytes())
    }

    /// Hands each of its records to `reject`, since they do not all say the same.
    pub(super) fn reject(
        self,
        view: &SourceView,
        mut reject: impl FnMut(Reject) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let first = Member::of(&self.first);
        let some = std::iter::once(&first).chain(&self.held).take(NAMED_MAX);
        let named = some.map(|member| member.position.to_string()).collect::<Vec<_>>().join(", ");
        let reason = format!("{} records bear one key and do not all say the same: {named}", self.members);
        let rejection = Rejection::new(Rule::DuplicateKey, None, &reason);
        for member in std::iter::once(first).chain(self.held) {
            reject(member.rejected(&rejection))?;
        }
        let Some(rest) = self.rest else { return Ok(()) };
        for row in rest.finish()? {
            let (_, member) = row?;
            let member = Member::read(&member);
            let member = member.ok_or_else(|| view.corrupt("a record of a group cannot be read"))?;
            reject(member.rejected(&rejection))?;
        }
        Ok(())
    }
}

impl Member {
    const fn of(statement: &StoredStatement) -> Self {
        let StoredStatement { position, offset, len, raw_hash, .. } = *statement;
        Self { position, offset, len, raw_hash }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let Self { position, offset, len, raw_hash } = self;
        [&position.to_be_bytes()[..], &offset.to_be_bytes(), &len.to_be_bytes(), raw_hash].concat()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (position, rest) = bytes.split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        Some(Self {
            position: u64::from_be_bytes(*position),
            offset: u64::from_be_bytes(*offset),
            len: u32::from_be_bytes(*len),
            raw_hash: *rest.first_chunk()?,
        })
    }

    fn rejected(&self, rejection: &Rejection) -> Reject {
        let Self { position, offset, len, raw_hash } = *self;
        Reject {
            position,
            offset,
            len,
            raw_hash: Sha256Hex::from_bytes(&raw_hash),
            rejection: rejection.clone(),
        }
    }
}
