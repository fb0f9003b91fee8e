//! What oracled keeps on disk: the audit log, the verdicts, the sessions, and the one door to all of them.
//!
//! [`Journal::commit`] is the only way to write. A [`Record`] holds events and the changes they speak of, and
//! is applied whole or not at all; when `commit` returns, it is on the disk. [`Store`] is the other half: any
//! number of concurrent readers, who see nothing that is not durable yet.
//!
//! This is the only crate that knows the database is sled.

mod check;
mod disk;
mod engine;
mod error;
pub mod ground;
mod journal;
mod log;
mod meta;
mod mirror;
mod outbox;
mod panics;
mod read;
mod record;
mod refusals;
mod regens;
mod rows;
mod session_row;
mod sessions;
mod snapshot;
mod staged;
mod verification;
mod watermark;

pub use engine::{Options, Tables};
pub use error::{FileKind, StoreError};
pub use ground::Store;
pub use journal::Journal;
pub use log::{Callers, LogLine, LogPage, LogQuery};
pub use panics::panic_becomes_an_error;
pub use record::{Expect, Receipt, Record, Refused, RowKey, Write};
pub use refusals::RefusalSize;
pub use verification::{KeptPage, ReviewQuery};
pub use watermark::Counts;
