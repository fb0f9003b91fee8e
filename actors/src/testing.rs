//! A whole system in a directory of its own, for the actors' tests.

use crate::crosscheck::Judge;
use crate::fallback::Fallback;
use crate::oracle_health::Oracle;
use crate::system::{Parts, System};
use crate::{Clock, Supervision};
use domain::{GatePath, Payload, Query, SessionId, Tier};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Journal, LogQuery, Options, Store};

pub(crate) const GOOD: &str = r#"{"verdict":"GREEN","summary":"A sound and simple plan."}"#;

pub(crate) struct World {
    pub(crate) dir: PathBuf,
    pub(crate) system: System,
    pub(crate) fallback_lines: Arc<Mutex<Vec<String>>>,
}

/// Runs `test` with a system that was just started.
pub(crate) fn with_world<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    with_oracles(Clock::fixed("2026-11-20T10:00:00Z".parse().expect("a time")), Vec::new(), test);
}

/// The same, with oracles and a clock.
pub(crate) fn with_oracles<F: Future<Output = ()>>(
    clock: Clock,
    oracles: Vec<Oracle>,
    test: impl FnOnce(World) -> F,
) {
    actix_rt::System::new().block_on(async {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options { dir: dir.path().to_owned(), cache_bytes: 1 << 20 };
        let (journal, store) = Journal::open(options).expect("the store opens");
        let fallback_lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&fallback_lines);
        let system = System::start(Parts {
            journal,
            store,
            clock,
            fallback: Fallback::new(move |line| {
                lines.lock().expect("nobody panics here").push(line.to_owned());
            }),
            supervision: Supervision {
                max_panics: 10,
                window: Duration::from_secs(60),
                max_pause: Duration::from_millis(1),
            },
            oracles,
            queue: 100,
            hot_bytes: 1 << 20,
            mails: true,
        });
        test(World { dir: dir.path().to_owned(), system, fallback_lines }).await;
        drop(dir);
    });
}

pub(crate) fn id(text: &str) -> SessionId {
    text.parse().expect("an id")
}

pub(crate) fn judge(session_id: &str, raw: &str, path: GatePath) -> Judge {
    Judge {
        session_id: id(session_id),
        tier: Tier::Quick,
        query: Query::new("Sell honey?".into()),
        payload: Payload::raw(raw),
        customer_email: None,
        path,
        made: None,
    }
}

/// The `event` of every entry in the log.
pub(crate) fn logged(store: &Store) -> Vec<String> {
    let lines = store.log(&LogQuery { limit: usize::MAX, ..LogQuery::default() }).expect("the log is read");
    let event = |json: &str| -> Option<String> {
        serde_json::from_str::<serde_json::Value>(json).ok()?.get("event")?.as_str().map(String::from)
    };
    lines.iter().map(|line| event(&line.json).expect("an event has its name")).collect()
}

impl World {
    /// Makes every write to the store fail until it is mended.
    pub(crate) fn break_store(&self) {
        std::fs::rename(self.dir.join("store/db"), self.dir.join("store/gone")).expect("it is moved");
    }

    pub(crate) fn mend_store(&self) {
        std::fs::rename(self.dir.join("store/gone"), self.dir.join("store/db")).expect("it is moved");
    }
}
