//! What oracled keeps on disk: the audit log, the verdicts, the sessions, and the one door to all of them.
//!
//! [`Journal::commit`] is the only way to write. A [`Record`] holds events and the changes they speak of, and
//! is applied whole or not at all; when `commit` returns, it is on the disk. [`Store`] is the other half: any
//! number of concurrent readers, who see nothing that is not durable yet.
//!
//! This is the only crate that knows the database is sled.

mod audit;
mod base;
pub mod ground;
mod journal;
mod verdict;
mod verification;

pub use audit::log::{Callers, LogLine, LogPage, LogQuery};
pub use base::engine::{Options, Tables};
pub use base::error::{FileKind, StoreError};
pub use base::panics::panic_becomes_an_error;
pub use base::watermark::Counts;
pub use ground::Store;
pub use journal::Journal;
pub use journal::preview::PREVIEW_REVISION;
pub use journal::record::{Expect, Receipt, Record, Refused, RowKey, Write};
pub use verdict::refusals::RefusalSize;
pub use verification::{KeptPage, ReviewQuery};
