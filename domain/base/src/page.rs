//! Lists in pages: the same parameters and the same answer for each of them.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::ops::Deref;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ListPage<T> {
    /// The items, in the order of the list.
    pub items: Vec<T>,
    /// The value of `after` for the next page; null on the last page.
    pub next: Option<String>,
}

impl<T> ListPage<T> {
    /// The first `limit` of `items`. `position` names an item for the parameter `after`.
    ///
    /// The caller reads one item more than `limit`: it shows whether there is another page.
    #[must_use]
    pub fn from_items(mut items: Vec<T>, limit: usize, position: impl Fn(&T) -> String) -> Self {
        let has_more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| has_more).map(position);
        Self { items, next }
    }
}

/// The highest number of items on a page: 1 to `MAX`, by default `DEFAULT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit<const DEFAULT: usize = 100, const MAX: usize = 1000>(usize);

impl<const DEFAULT: usize, const MAX: usize> PageLimit<DEFAULT, MAX> {
    /// The highest limit that a request may name.
    pub const MAX: usize = MAX;
}

impl<const DEFAULT: usize, const MAX: usize> Default for PageLimit<DEFAULT, MAX> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<const DEFAULT: usize, const MAX: usize> Deref for PageLimit<DEFAULT, MAX> {
    type Target = usize;

    fn deref(&self) -> &usize {
        &self.0
    }
}

impl<'de, const DEFAULT: usize, const MAX: usize> Deserialize<'de> for PageLimit<DEFAULT, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let limit = usize::deserialize(deserializer)?;
        if (1..=MAX).contains(&limit) {
            return Ok(Self(limit));
        }
        Err(D::Error::custom(format_args!("`limit` is {limit}; allowed: 1 to {MAX}")))
    }
}

impl<const DEFAULT: usize, const MAX: usize> utoipa::PartialSchema for PageLimit<DEFAULT, MAX> {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new().schema_type(Type::Integer);
        number.minimum(Some(1)).maximum(Some(MAX)).default(Some(DEFAULT.into())).into()
    }
}

impl<const DEFAULT: usize, const MAX: usize> utoipa::ToSchema for PageLimit<DEFAULT, MAX> {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_str, json, to_value};

    #[test]
    fn page_has_next_only_if_more_items_follow() {
        for (read, page) in [
            (vec![], json!({"items": [], "next": null})),
            (vec![1, 2], json!({"items": [1, 2], "next": null})),
            (vec![1, 2, 3], json!({"items": [1, 2], "next": "2"})),
        ] {
            assert_eq!(
                to_value(ListPage::from_items(read, 2, ToString::to_string)).expect("plain data"),
                page
            );
        }
    }

    #[test]
    fn limit_rejects_values_outside_its_range() {
        type Ten = PageLimit<5, 10>;
        assert_eq!(
            (*Ten::default(), *from_str::<Ten>("1").unwrap(), *from_str::<Ten>("10").unwrap()),
            (5, 1, 10)
        );
        for limit in ["0", "11", "-1", "x"] {
            assert!(from_str::<Ten>(limit).is_err(), "{limit}");
        }
    }
}
