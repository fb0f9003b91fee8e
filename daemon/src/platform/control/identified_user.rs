//! The user who makes a decision, with the name that the system has for the user id.

use crate::platform::problem::Problem;
use axum::extract::FromRequestParts;
use domain_base::blank::is_blank;
use domain_base::caller::{DecidingUser, PeerCredentials};
use hyper::http::request::Parts;
use nix::unistd::{Uid, User};
use oracled_api::base::problem::ProblemCode;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Maximum length of a recorded name, in bytes.
const NAME_MAX_BYTES: usize = 256;
/// Time limit for the look-up of a name. A directory service may not answer, and a decision must not fail with it.
const LOOKUP_MAX: Duration = Duration::from_secs(2);
/// Maximum number of look-ups at a time. Each takes a thread until the directory service answers.
static LOOKUPS: Semaphore = Semaphore::const_new(4);

/// The user who sent the request. The name is looked up for each request, because it can change.
#[derive(Debug)]
pub struct IdentifiedUser(pub DecidingUser);

impl<S: Sync> FromRequestParts<S> for IdentifiedUser {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let peer = parts.extensions.get::<PeerCredentials>().copied();
        let peer = peer.ok_or_else(|| Problem::new(ProblemCode::InternalError, "the request has no peer"))?;
        Ok(Self(DecidingUser { peer, name: look_up_name(peer.uid).await }))
    }
}

/// The name of a user; `None` if the system has no usable one, or does not return it in time.
async fn look_up_name(uid: u32) -> Option<String> {
    let lookup = async {
        let permit = LOOKUPS.acquire().await.ok()?;
        let found = spawn_blocking(move || {
            let found = User::from_uid(Uid::from_raw(uid));
            drop(permit);
            found
        });
        match found.await.ok()? {
            Ok(user) => user.map(|user| user.name).filter(|name| is_usable(name)),
            Err(error) => {
                tracing::warn!(uid, %error, "could not look up the name of a user");
                None
            }
        }
    };
    timeout(LOOKUP_MAX, lookup).await.unwrap_or_else(|_| {
        tracing::warn!(uid, limit = ?LOOKUP_MAX, "the name of a user was not found in time");
        None
    })
}

fn is_usable(name: &str) -> bool {
    !is_blank(name) && name.len() <= NAME_MAX_BYTES && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn name_is_that_of_the_user_id_and_absent_for_an_unknown_one() {
        assert_eq!(look_up_name(0).await.as_deref(), Some("root"));
        // user ids below 2^32 - 1 are valid; no system has this one
        assert_eq!(look_up_name(u32::MAX - 7).await, None);
    }

    #[test]
    fn name_that_is_blank_long_or_has_control_characters_is_not_usable() {
        for name in ["anna", r"DOMAIN\anna", "anna@example.org", &"a".repeat(NAME_MAX_BYTES)] {
            assert!(is_usable(name), "{name}");
        }
        for name in ["", " ", "an\na", "\u{1b}[31m", &"a".repeat(NAME_MAX_BYTES + 1)] {
            assert!(!is_usable(name), "{name:?}");
        }
    }
}
