//! Values that applications can have of their own.

use domain_base::session_id::ApplicationName;
use std::collections::BTreeMap;
use std::iter;

/// A common value, and the values of applications that have their own.
#[derive(Debug, Clone, Default)]
pub struct PerApplication<T> {
    pub common: T,
    pub own: BTreeMap<ApplicationName, T>,
}

impl<T> PerApplication<T> {
    #[must_use]
    pub const fn new(common: T) -> Self {
        Self { common, own: BTreeMap::new() }
    }

    /// The value of `application`.
    #[must_use]
    pub fn of(&self, application: &ApplicationName) -> &T {
        self.own.get(application).unwrap_or(&self.common)
    }

    /// All values, each with its application.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&ApplicationName>, &T)> {
        let own = self.own.iter().map(|(application, value)| (Some(application), value));
        iter::once((None, &self.common)).chain(own)
    }
}
