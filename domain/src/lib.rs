//! The vocabulary of oracled and every decision it takes.
//!
//! Nothing here is async, asks for the time, draws a random number or touches the outside: whatever a
//! decision depends on comes in as an argument, so that the same inputs give the same decision in the daemon,
//! in `oraclectl calibrate` and in a test.

pub mod blank;
pub mod crosscheck;
pub mod delivery;
pub mod digest;
pub mod divergence;
pub mod event;
pub mod flag;
pub mod gate_path;
pub mod generation;
pub mod ground;
pub mod health;
pub mod interaction;
pub mod mail;
pub mod oracle;
pub mod payload;
pub mod prompt;
pub mod regen;
pub mod rules;
pub mod session;
pub mod sourced;
pub mod tmm;
pub mod verdict;
pub mod verification;
pub mod wording;

pub use crosscheck::{Approved, Decision, Judgement, Reason, UnexpectedFields, judge, judge_with};
pub use delivery::Delivery;
pub use digest::{Sha256Hex, Sha256Stream};
pub use divergence::{DivergenceCheck, DivergenceLevel};
pub use event::{Caller, Event, Peer};
pub use flag::Flag;
pub use gate_path::GatePath;
pub use generation::Generation;
pub use interaction::Interaction;
pub use mail::{Mail, MailId};
pub use oracle::OracleId;
pub use payload::Payload;
pub use prompt::{Prompt, build_verdict_prompt};
pub use regen::RegenAttempt;
pub use session::{Query, Session, SessionId};
pub use verdict::{Dimension, Label, Tier};
