//! Storage of oracled: the audit log, the verdicts, the sessions, and all other state.
//!
//! [`Journal::commit`] is the only way to write. A [`Record`] has events and the changes that they report. It is applied
//! completely or not at all, and is on the disk when `commit` returns. [`Store`] is the read side: any number of concurrent
//! readers see only durable data.
//!
//! This is the only crate that uses sled.

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
