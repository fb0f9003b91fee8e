//! Expressions (CEL) over the axes of a record, which are true or false.
//!
//! What they are taken of is bounded when they are registered, so that none takes long or differs from one time to the next:
//! there are no loops, which would go through groups in no order, and no functions but those listed here.

use super::Values;
use crate::ground::axis::{Axis, AxisType};
use crate::ground::ontology::Ontology;
use crate::ground::value::Typed;
use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::objects::{Key, Map, Value};
use cel::{Context, Env, ExecutionError, Program};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// What is wrong with a value.
pub(super) struct Fault {
    /// In words, with the value.
    pub(super) reason: String,
    /// Which bound it breaks, without the value.
    pub(super) bound: String,
}

/// The most parts (values, names, operators, functions) of an expression.
const PARTS_MAX: usize = 256;
/// How deep they may lie in one another.
const DEPTH_MAX: usize = 32;
/// The functions that may be called.
const FUNCTIONS: [&str; 7] = ["contains", "double", "endsWith", "int", "size", "startsWith", "string"];
/// The name of the value that is checked.
const VALUE: &str = "value";

/// An expression made ready.
pub(super) struct Expression {
    source: String,
    program: Program,
    env: Arc<Env>,
    /// The first names of the axes that it speaks of.
    names: BTreeSet<String>,
    /// What the values that are checked are.
    kind: AxisType,
}

/// What the parser says, without its drawing of where: that stands in words before it, as `line:column`.
fn on_one_line(told: &str) -> String {
    let what = told.lines().filter(|line| !line.starts_with('|')).collect::<Vec<_>>().join("; ");
    what.replace("ERROR: <input>:", "at ")
}

impl Expression {
    /// The expression that is written `source`, over the axes of `ontology`, for the axis that is at `place` in it.
    pub(super) fn new(source: &str, ontology: &Ontology, place: usize) -> Result<Self, String> {
        let env = Arc::new(Env::stdlib());
        let program = env.compile(source).map_err(|error| on_one_line(&error.to_string()))?;
        let mut parts = Parts::default();
        parts.take(program.expression(), 0)?;
        parts.names.remove(VALUE);
        for name in &parts.names {
            let below = ontology.axes.iter().filter(|axis| is_below(&axis.axis, name)).count();
            match (ontology.axes.iter().any(|axis| axis.axis == *name), below) {
                (true, 0) | (false, 1..) => {}
                (true, _) => return Err(format!("`{name}` is an axis, and others lie below it")),
                (false, 0) => {
                    return Err(format!(
                        "it speaks of `{name}`, which is no axis; `{VALUE}` is the value that is checked"
                    ));
                }
            }
        }
        let kind = ontology.axes.get(place).map_or(AxisType::String, |axis| axis.kind);
        Ok(Self { source: source.to_owned(), program, env, names: parts.names, kind })
    }

    /// The record's values as the expression has them: an axis without a value is null, a group without any is empty.
    pub(super) fn context(&self, ontology: &Ontology, values: &Values<'_>) -> Context<'static, 'static> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        for name in &self.names {
            let of_axis = |mapping: &super::Mapping, value: &Typed| {
                cel(value, ontology.axes.get(mapping.axis).map_or(AxisType::String, |axis| axis.kind))
            };
            let variable = if ontology.axes.iter().any(|axis: &Axis| axis.axis == *name) {
                values.get(name.as_str()).map_or(Value::Null, |(mapping, value)| of_axis(mapping, value))
            } else {
                let mut tree = Tree::default();
                let from = (Bound::Included(name.as_str()), Bound::Unbounded);
                let below = values.range::<str, _>(from).take_while(|(path, _)| path.starts_with(name));
                for (path, (mapping, value)) in below.filter(|(path, _)| is_below(path, name)) {
                    let mut names = path.split('.');
                    names.next();
                    tree.plant(names, of_axis(mapping, value));
                }
                tree.grown()
            };
            context.add_variable_from_value(name.as_str(), variable);
        }
        context
    }

    /// What is wrong with `value` among the others, if anything.
    pub(super) fn fault(&self, context: &Context<'_, '_>, value: &Typed) -> Option<Fault> {
        let mut scope = context.new_inner_scope();
        scope.add_variable_from_value(VALUE, cel(value, self.kind));
        let broken = |reason: String| Some(Fault { bound: reason.clone(), reason });
        match self.program.execute(&scope) {
            Ok(Value::Bool(true)) => None,
            Ok(Value::Bool(false)) => broken(format!("`{}` does not hold", self.source)),
            Ok(_) => broken(format!("`{}` is neither true nor false", self.source)),
            Err(error) => {
                let missing = self.names.iter().filter(|name| {
                    matches!(context.get_variable(name.as_str()), Some(null) if null.get_type().name() == "null_type")
                });
                let missing: Vec<_> = missing.map(|name| format!("; `{name}` is missing")).collect();
                // what the error says may name a key that is one of the values
                let bound = format!("`{}` cannot be evaluated", self.source);
                Some(Fault { reason: format!("{bound}: {}{}", words(&error), missing.concat()), bound })
            }
        }
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.source).finish()
    }
}

/// Whether `path` lies below the axes' first name `name`.
fn is_below(path: &str, name: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
}

/// What is wrong, without the values: groups would be written out in no order.
fn words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(name) => format!("there is no `{name}`"),
        ExecutionError::NoSuchOverload(overload) => overload.to_string(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "it divides by zero".to_owned()
        }
        ExecutionError::Overflow(..) => "a whole number leaves 64 bits".to_owned(),
        ExecutionError::FunctionError { function, message } => format!("{function}: {message}"),
        _ => "its values are not of the types that it takes".to_owned(),
    }
}

/// What an expression is made of.
#[derive(Default)]
struct Parts {
    count: usize,
    names: BTreeSet<String>,
}

impl Parts {
    /// Takes in `part`, which lies `depth` deep.
    fn take(&mut self, part: &IdedExpr, depth: usize) -> Result<(), String> {
        self.count += 1;
        if self.count > PARTS_MAX || depth > DEPTH_MAX {
            return Err(format!("an expression has at most {PARTS_MAX} parts, {DEPTH_MAX} deep"));
        }
        match &part.expr {
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => {
                self.names.insert(name.clone());
                Ok(())
            }
            Expr::Select(select) => self.take(&select.operand, depth + 1),
            Expr::Call(call) => {
                let name = call.func_name.as_str();
                let is_operator = !name.contains(|letter: char| letter.is_ascii_alphabetic()) || name == "@in";
                if !is_operator && !FUNCTIONS.contains(&name) {
                    return Err(format!("there is no function `{name}`; there are {}", FUNCTIONS.join(", ")));
                }
                let target = call.target.as_deref().into_iter();
                target.chain(&call.args).try_for_each(|argument| self.take(argument, depth + 1))
            }
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.take(element, depth + 1)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.take(&entry.key, depth + 1)?;
                    self.take(&entry.value, depth + 1)
                }
                EntryExpr::StructField(field) => self.take(&field.value, depth + 1),
            }),
            Expr::Comprehension(_) => {
                Err("an expression has no loops (`all`, `exists`, `map`, `filter`): the values of a group are checked one by \
                     one"
                    .to_owned())
            }
            Expr::Struct(_) | Expr::Unspecified => Err("an expression makes no objects".to_owned()),
        }
    }
}

/// The value of an axis of type `kind`. Integers are exact as far as 64 bits go; numbers are the nearest double, whether they
/// are whole or not, so that an expression holds for all values or for none.
fn cel(value: &Typed, kind: AxisType) -> Value {
    match value {
        Typed::Bool(value) => Value::Bool(*value),
        Typed::Date(date) => Value::String(Arc::new(date.to_string())),
        Typed::Text(text) => Value::String(Arc::new(text.clone())),
        Typed::Number(number) => {
            let whole = if kind == AxisType::Integer { number.to_i64() } else { None };
            let double = || Value::Float(number.to_string().parse().unwrap_or(f64::NAN));
            whole.map_or_else(double, Value::Int)
        }
    }
}

/// Values by the names on their paths: `nutrients.water.amount` is the member `amount` of `water` of `nutrients`.
#[derive(Default)]
struct Tree {
    value: Option<Value>,
    members: HashMap<String, Tree>,
}

impl Tree {
    fn plant<'p>(&mut self, mut path: std::str::Split<'p, char>, value: Value) {
        match path.next() {
            None => self.value = Some(value),
            Some(name) => self.members.entry(name.to_owned()).or_default().plant(path, value),
        }
    }

    fn grown(self) -> Value {
        self.value.unwrap_or_else(|| {
            let member = |(name, tree): (String, Self)| (Key::String(Arc::new(name)), tree.grown());
            Value::Map(Map { map: Arc::new(self.members.into_iter().map(member).collect()) })
        })
    }
}
