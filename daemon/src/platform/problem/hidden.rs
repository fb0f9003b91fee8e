//! Removes the path of the state directory from answers. The service log keeps the path.

use std::path::Path;
use std::sync::OnceLock;

/// The replacement for the path of the state directory.
const STATE_DIR: &str = "<state_dir>";
static PATH: OnceLock<String> = OnceLock::new();

/// Sets the path that all answers of this process leave out.
pub fn hide_state_dir(dir: &Path) {
    // only a test starts a second daemon in one process
    drop(PATH.set(dir.display().to_string()));
}

/// `text` without the path of the state directory.
#[must_use]
pub fn without_state_dir(text: String) -> String {
    match PATH.get() {
        Some(path) if !path.is_empty() && text.contains(path.as_str()) => {
            text.replace(path.as_str(), STATE_DIR)
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::problem::Problem;
    use oracled_store::StoreError;

    #[test]
    fn answer_does_not_contain_the_path_of_the_state_directory() {
        let dir = Path::new("/var/lib/oracled-hidden");
        hide_state_dir(dir);
        let source = || std::io::Error::other("no");
        for error in [
            StoreError::Corrupt { dir: dir.to_owned(), detail: "a checksum is wrong".into() },
            StoreError::Io { path: dir.join("store"), source: source() },
            StoreError::Unavailable { cause: format!("cannot write {}", dir.join("store/db").display()) },
        ] {
            let problem = Problem::from(error);
            let logged = problem.to_string();
            let response = String::from_utf8(problem.to_json()).expect("a response is UTF-8");
            assert!(!response.contains("oracled-hidden") && response.contains(STATE_DIR), "{response}");
            assert!(logged.contains("oracled-hidden"), "the service log has the path: {logged}");
        }
    }
}
