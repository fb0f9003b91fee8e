//! The limit of open orders.

use domain_base::application::ApplicationName;
use std::fmt;

/// The limit of open orders that is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLimit {
    pub queue_max: usize,
    /// The application that the limit is for; `None` for the limit of all.
    pub application: Option<ApplicationName>,
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue_max, application } = self;
        let key = match application {
            None => "orders.queue_max".to_owned(),
            Some(name) => format!("applications.{name}.queue_max"),
        };
        write!(f, "too many orders are open (limit {queue_max}: `{key}`)")
    }
}
