//! Boolean expressions (CEL) over the axes of a record.
//!
//! Registration limits the parts of an expression, so that each evaluation is fast and always gives the same result.
//! Loops are not allowed, because they would visit groups in no fixed order. Only the functions in
//! `FUNCTIONS` are allowed.

use super::ValuesByPath;
use crate::axis::{Axis, AxisType};
use crate::ontology::Ontology;
use crate::value::TypedValue;
use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::objects::{Key, Map, Value};
use cel::{Context, Env, ExecutionError, Program};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

pub(super) struct ValueFault {
    /// The fault in words, with the value.
    pub(super) reason: String,
    /// The violated condition, without any value of the record.
    pub(super) bound: String,
}

/// The maximum number of parts (values, names, operators, functions) in an expression.
const PARTS_MAX: usize = 256;
/// The maximum nesting depth of the parts.
const DEPTH_MAX: usize = 32;
/// The allowed functions.
const FUNCTIONS: [&str; 7] = ["contains", "double", "endsWith", "int", "size", "startsWith", "string"];
/// The name of the checked value in an expression.
const VALUE: &str = "value";

/// A compiled expression.
pub(super) struct CelExpression {
    source: String,
    program: Program,
    env: Arc<Env>,
    /// The names that the expression uses, except `value`. Each is an axis, or the first name in the paths of
    /// other axes.
    names: BTreeSet<String>,
    /// The type of the checked values.
    kind: AxisType,
}

/// The parser's message on one line, without the lines that draw the location. The message contains the
/// location as `line:column`.
fn join_error_lines(message: &str) -> String {
    let text = message.lines().filter(|line| !line.starts_with('|')).collect::<Vec<_>>().join("; ");
    text.replace("ERROR: <input>:", "at ")
}

impl CelExpression {
    /// Compiles `source` over the axes of `ontology`, for the axis with the index `axis_index`.
    pub(super) fn new(source: &str, ontology: &Ontology, axis_index: usize) -> Result<Self, String> {
        let env = Arc::new(Env::stdlib());
        let program = env.compile(source).map_err(|error| join_error_lines(&error.to_string()))?;
        let mut parts = ExpressionParts::default();
        parts.count_part(program.expression(), 0)?;
        parts.names.remove(VALUE);
        for name in &parts.names {
            let below = ontology.axes.iter().filter(|axis| is_below(&axis.axis, name)).count();
            match (ontology.axes.iter().any(|axis| axis.axis == *name), below) {
                (true, 0) | (false, 1..) => {}
                (true, _) => return Err(format!("`{name}` is both an axis and the prefix of other axes")),
                (false, 0) => {
                    return Err(format!(
                        "it uses `{name}`, which is not an axis; use `{VALUE}` for the checked value"
                    ));
                }
            }
        }
        let kind = ontology.axes.get(axis_index).map_or(AxisType::String, |axis| axis.kind);
        Ok(Self { source: source.to_owned(), program, env, names: parts.names, kind })
    }

    /// The variables of the expression: an axis without a value is null, a group without values is empty.
    pub(super) fn context(
        &self,
        ontology: &Ontology,
        values: &ValuesByPath<'_>,
    ) -> Context<'static, 'static> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        for name in &self.names {
            let cel_value_of = |mapping: &super::CompiledMapping, value: &TypedValue| {
                to_cel_value(
                    value,
                    ontology.axes.get(mapping.axis).map_or(AxisType::String, |axis| axis.kind),
                )
            };
            let variable = if ontology.axes.iter().any(|axis: &Axis| axis.axis == *name) {
                values.get(name.as_str()).map_or(Value::Null, |(mapping, value)| cel_value_of(mapping, value))
            } else {
                let mut tree = AxisValueTree::default();
                let from = (Bound::Included(name.as_str()), Bound::Unbounded);
                let below = values.range::<str, _>(from).take_while(|(path, _)| path.starts_with(name));
                for (path, (mapping, value)) in below.filter(|(path, _)| is_below(path, name)) {
                    let mut names = path.split('.');
                    names.next();
                    tree.insert_value(names, cel_value_of(mapping, value));
                }
                tree.into_cel_value()
            };
            context.add_variable_from_value(name.as_str(), variable);
        }
        context
    }

    /// The fault of `value` in the context of the other values, if any.
    pub(super) fn fault(&self, context: &Context<'_, '_>, value: &TypedValue) -> Option<ValueFault> {
        let mut scope = context.new_inner_scope();
        scope.add_variable_from_value(VALUE, to_cel_value(value, self.kind));
        let violated = |reason: String| Some(ValueFault { bound: reason.clone(), reason });
        match self.program.execute(&scope) {
            Ok(Value::Bool(true)) => None,
            Ok(Value::Bool(false)) => violated(format!("`{}` does not hold", self.source)),
            Ok(_) => violated(format!("`{}` is neither true nor false", self.source)),
            Err(error) => {
                let missing = self.names.iter().filter(|name| {
                    matches!(context.get_variable(name.as_str()), Some(null) if null.get_type().name() == "null_type")
                });
                let missing: Vec<_> = missing.map(|name| format!("; `{name}` is missing")).collect();
                // the error text may contain a key, which is a value of the record
                let bound = format!("`{}` cannot be evaluated", self.source);
                Some(ValueFault {
                    reason: format!("{bound}: {}{}", describe_error(&error), missing.concat()),
                    bound,
                })
            }
        }
    }
}

impl fmt::Debug for CelExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.source).finish()
    }
}

/// Whether the path begins with `name` and has more names after it.
fn is_below(path: &str, name: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
}

/// Describes the error without whole groups, because their order is not fixed. The text may contain a key.
fn describe_error(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(name) => format!("there is no `{name}`"),
        ExecutionError::NoSuchOverload(overload) => overload.to_string(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "it divides by zero".to_owned()
        }
        ExecutionError::Overflow(..) => "a whole number leaves 64 bits".to_owned(),
        ExecutionError::FunctionError { function, message } => format!("{function}: {message}"),
        _ => "its values have the wrong types".to_owned(),
    }
}

/// The parts of an expression, as counted so far.
#[derive(Default)]
struct ExpressionParts {
    count: usize,
    names: BTreeSet<String>,
}

impl ExpressionParts {
    /// Counts `part` and the parts in it, and collects the names. `depth` is the nesting depth of `part`.
    ///
    /// # Errors
    /// A limit is exceeded, or a part is not allowed.
    fn count_part(&mut self, part: &IdedExpr, depth: usize) -> Result<(), String> {
        self.count += 1;
        if self.count > PARTS_MAX || depth > DEPTH_MAX {
            return Err(format!(
                "the expression is too large (at most {PARTS_MAX} parts, nested {DEPTH_MAX} deep, allowed)"
            ));
        }
        match &part.expr {
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => {
                self.names.insert(name.clone());
                Ok(())
            }
            Expr::Select(select) => self.count_part(&select.operand, depth + 1),
            Expr::Call(call) => {
                let name = call.func_name.as_str();
                let is_operator = !name.contains(|letter: char| letter.is_ascii_alphabetic()) || name == "@in";
                if !is_operator && !FUNCTIONS.contains(&name) {
                    return Err(format!("unknown function `{name}`; the functions are: {}", FUNCTIONS.join(", ")));
                }
                let target = call.target.as_deref().into_iter();
                target.chain(&call.args).try_for_each(|argument| self.count_part(argument, depth + 1))
            }
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.count_part(element, depth + 1)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.count_part(&entry.key, depth + 1)?;
                    self.count_part(&entry.value, depth + 1)
                }
                EntryExpr::StructField(field) => self.count_part(&field.value, depth + 1),
            }),
            Expr::Comprehension(_) => {
                Err("an expression cannot have loops (`all`, `exists`, `map`, `filter`); the values of a group are checked one by \
                     one"
                    .to_owned())
            }
            Expr::Struct(_) | Expr::Unspecified => Err("an expression cannot create objects".to_owned()),
        }
    }
}

/// The CEL value of an axis of type `kind`. Integers of up to 64 bits are exact. A number is always the nearest double,
/// whole or not, so that an expression has the right types for all values or for none.
fn to_cel_value(value: &TypedValue, kind: AxisType) -> Value {
    match value {
        TypedValue::Bool(value) => Value::Bool(*value),
        TypedValue::Date(date) => Value::String(Arc::new(date.to_string())),
        TypedValue::Text(text) => Value::String(Arc::new(text.clone())),
        TypedValue::Number(number) => {
            let whole = if kind == AxisType::Integer { number.to_i64() } else { None };
            let double = || Value::Float(number.to_string().parse().unwrap_or(f64::NAN));
            whole.map_or_else(double, Value::Int)
        }
    }
}

/// Values as a tree of path names: `nutrients.water.amount` is the member `amount` of `water` of `nutrients`.
#[derive(Default)]
struct AxisValueTree {
    value: Option<Value>,
    members: HashMap<String, AxisValueTree>,
}

impl AxisValueTree {
    fn insert_value<'p>(&mut self, mut path: std::str::Split<'p, char>, value: Value) {
        match path.next() {
            None => self.value = Some(value),
            Some(name) => self.members.entry(name.to_owned()).or_default().insert_value(path, value),
        }
    }

    fn into_cel_value(self) -> Value {
        self.value.unwrap_or_else(|| {
            let member = |(name, tree): (String, Self)| (Key::String(Arc::new(name)), tree.into_cel_value());
            Value::Map(Map { map: Arc::new(self.members.into_iter().map(member).collect()) })
        })
    }
}
