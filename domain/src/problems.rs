//! The problems of all features.

use domain_base::problem::{BatchProblem, CODE_SCHEMA, ProblemCode, ProblemDocument};
use domain_verdict::problem::VerdictProblem;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

/// The codes of each feature.
const CODES: [&[ProblemCode]; 7] = [
    domain_base::problem::CODES,
    domain_audit::problem::CODES,
    domain_upstream::problem::CODES,
    domain_ground::problem::CODES,
    domain_verification::problem::CODES,
    domain_rules::problem::CODES,
    domain_verdict::problem::CODES,
];

/// The members of each feature's problems.
const MEMBERS: [fn(&mut NamedSchemas) -> RefOr<Schema>; 2] =
    [members::<VerdictProblem>, members::<BatchProblem>];

/// Schemas with their names.
type NamedSchemas = Vec<(String, RefOr<Schema>)>;

/// The schema of `T`, whose parts are added to `parts`.
fn members<T: ToSchema>(parts: &mut NamedSchemas) -> RefOr<Schema> {
    T::schemas(parts);
    T::schema()
}

/// All codes, in the order of their statuses.
#[must_use]
pub fn problem_codes() -> Vec<ProblemCode> {
    let mut codes = CODES.concat();
    codes.sort_by_key(|code| code.status);
    codes
}

/// Adds the members and the codes of all features to the schema of a problem.
pub fn complete_schemas(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    let mut parts = NamedSchemas::new();
    if let Some(RefOr::T(Schema::Object(problem))) = schemas.get_mut(&*ProblemDocument::name()) {
        for members in MEMBERS {
            if let RefOr::T(Schema::Object(members)) = members(&mut parts) {
                problem.properties.extend(members.properties);
            }
        }
    }
    let codes = problem_codes().into_iter().map(|code| code.name);
    let codes = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes));
    parts.push((CODE_SCHEMA.to_owned(), codes.description(Some("The code of an error.")).into()));
    schemas.extend(parts);
}
