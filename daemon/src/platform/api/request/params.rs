//! Query parameters. An unknown parameter is an error, since it may be misspelled.

use crate::platform::problem::Problem;
use crate::platform::schema_check::{check_value, read_text};
use axum::extract::{FromRequestParts, Query};
use hyper::Uri;
use hyper::http::request::Parts;
use oracled_api::base::problem::ProblemCode;
use oracled_domain::base::wording::excerpt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use utoipa::IntoParams;
use utoipa::openapi::Required;

/// The query parameters of a request.
pub struct QueryParams<T>(pub T);

impl<S: Sync, T: DeserializeOwned + IntoParams> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let params = parse_params(&parts.uri);
        params.map(Self).map_err(|fault| Problem::new(ProblemCode::InvalidRequest, fault))
    }
}

/// Reads the parameters as a `T`, whose schemas decide the types of the values.
///
/// # Errors
/// The fault, with the parameter, its value and the allowed values.
fn parse_params<T: DeserializeOwned + IntoParams>(uri: &Uri) -> Result<T, String> {
    let Query(given) =
        Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|error| error.body_text())?;
    let known = T::into_params(|| None);
    let mut values = Map::new();
    for (name, text) in &given {
        let Some(param) = known.iter().find(|param| param.name == *name) else {
            let known: Vec<_> = known.iter().map(|param| format!("`{}`", param.name)).collect();
            let (name, known) = (excerpt(name), known.join(", "));
            return Err(format!("`{name}` is not a query parameter of this path; allowed: {known}"));
        };
        let schema = json!(param.schema);
        let value = read_text(text, &schema);
        check_value(&value, &schema)
            .map_err(|allowed| format!("`{name}` is `{}`; allowed: {allowed}", excerpt(text)))?;
        if values.insert(name.clone(), value).is_some() {
            return Err(format!("`{name}` occurs twice; send it once"));
        }
    }
    let is_missing = |name: &str| !values.contains_key(name);
    if let Some(param) =
        known.iter().find(|param| param.required == Required::True && is_missing(&param.name))
    {
        return Err(format!("`{}` is missing; send it as a query parameter", param.name));
    }
    serde_path_to_error::deserialize(Value::Object(values)).map_err(|error| {
        let (name, cause) = (error.path().to_string(), error.inner().to_string());
        let text = given.iter().find(|(given, _)| *given == name).map(|(_, text)| excerpt(text));
        describe_fault(&name, &text.unwrap_or_default(), &cause)
    })
}

/// The fault of a value that its type does not allow.
fn describe_fault(name: &str, text: &str, cause: &str) -> String {
    match cause.rsplit_once(", expected ") {
        Some((_, allowed)) => format!("`{name}` is `{text}`; allowed: {allowed}"),
        // the cause quotes the value
        None if cause.starts_with('`') => format!("`{name}`: {cause}"),
        None => format!("`{name}` is `{text}`: {cause}"),
    }
}

/// Checks that a request has no query parameters.
///
/// # Errors
/// `InvalidRequest` with the name of the first one.
pub(crate) fn check_no_params(uri: &Uri) -> Result<(), Problem> {
    let params = uri.query().unwrap_or_default();
    let Some(first) = params.split('&').find(|param| !param.is_empty()) else { return Ok(()) };
    let name = excerpt(first.split('=').next().unwrap_or_default());
    let fault = format!("`{name}` is not a query parameter of this path, which has none; remove it");
    Err(Problem::new(ProblemCode::InvalidRequest, fault))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oracled_api::audit::LogParams;
    use oracled_api::ground::{RunsParams, UploadParams};
    use oracled_api::verdict::OutboxParams;

    fn parse<T: DeserializeOwned + IntoParams>(query: &str) -> Result<T, String> {
        parse_params(&format!("/v1/path?{query}").parse().expect("a valid URI"))
    }

    fn check_faults<T: DeserializeOwned + IntoParams>(faults: &[(&str, &[&str])]) {
        for (query, named) in faults {
            let fault = parse::<T>(query).err().expect("the parameters are refused");
            assert!(named.iter().all(|named| fault.contains(named)), "{query}: {fault}");
        }
    }

    #[test]
    fn query_parameter_fault_names_parameter_value_and_what_is_allowed() {
        check_faults::<LogParams>(&[
            ("limit=many", &["`limit`", "`many`", "1 to 10000"]),
            ("limit=0", &["`limit`", "`0`", "1 to 10000"]),
            ("limit=1.5", &["`limit`", "`1.5`", "1 to 10000"]),
            ("limit=99999999999999999999", &["`limit`", "1 to 10000"]),
            ("limit=", &["`limit`", "1 to 10000"]),
            ("limit=1&limit=2", &["`limit`", "twice"]),
            ("after=-1", &["`after`", "`-1`", "at least 0"]),
            ("since=yesterday", &["`since`", "`yesterday`", "2026-11-20T10:00:00Z"]),
            ("colour=blue", &["`colour`", "`session`", "`limit`"]),
        ]);
        check_faults::<OutboxParams>(&[
            ("dead=maybe", &["`dead`", "`maybe`", "true, false"]),
            ("after=a%20b", &["`after`", "`a b`", "1 to 384"]),
        ]);
        check_faults::<RunsParams>(&[("oracle_id=A%20B", &["`oracle_id`", "`A B`", "a-z 0-9 -"])]);
        check_faults::<UploadParams>(&[
            ("version=1", &["`released_at`", "missing"]),
            ("version=1&released_at=9999-12-31", &["`released_at`", "`9999-12-31`", "9999-12-30"]),
        ]);
    }

    #[test]
    fn query_parameters_are_read_by_the_types_of_their_schemas() {
        let params =
            parse::<LogParams>("limit=5&after=18446744073709551615&since=2026-01-01T00:00:00Z&event=1");
        let params = params.expect("valid parameters");
        assert_eq!((*params.limit, params.after, params.event.as_deref()), (5, Some(u64::MAX), Some("1")));
        let params = parse::<UploadParams>("version=2024&released_at=2026-11-20&replace=true");
        let params = params.expect("valid parameters");
        assert_eq!((params.version.as_str(), params.replace), ("2024", true));
        assert_eq!(*parse::<LogParams>("").expect("all have defaults").limit, 100);
    }
}
