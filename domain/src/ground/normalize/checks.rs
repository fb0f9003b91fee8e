//! What must hold of a record behind normalization: the RFC's four kinds of checks.

use super::Normalizer;
use crate::ground::decimal::Decimal;
use crate::ground::ontology::Axis;
use crate::ground::pipeline::OnFailure;
use crate::ground::rejection::{Rejection, Rule};
use crate::ground::value::Typed;
use cel::objects::{Key, Map, Value as CelValue};
use cel::{Context, Program};
use regex::Regex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A check made ready.
#[derive(Debug)]
pub(super) struct Checked {
    /// The axis's place in the ontology.
    pub(super) axis: usize,
    pub(super) constraint: Constraint,
    pub(super) on_failure: OnFailure,
}

#[derive(Debug)]
pub(super) enum Constraint {
    Range { min: Option<Typed>, max: Option<Typed> },
    Enum(Vec<Typed>),
    Regex(Regex),
    Custom(Expression),
}

/// An expression (CEL) over all axes, which is true or false.
pub(super) struct Expression {
    source: String,
    program: Program,
}

/// The values of a record by their paths, each with its axis.
type Values<'n> = BTreeMap<String, (&'n Axis, Typed)>;

impl Normalizer {
    /// Holds the values against the checks, and takes out what is not to stay.
    pub(super) fn check_all(
        &self,
        values: &mut Values<'_>,
        warnings: &mut Vec<Rejection>,
    ) -> Result<(), Rejection> {
        for check in &self.checks {
            let Some(axis) = self.ontology.axes.get(check.axis) else { continue };
            let failed: Vec<_> = values
                .iter()
                .filter(|(_, (of, _))| *of == axis)
                .filter_map(|(path, (_, value))| Some((path.clone(), check.constraint.fault(value, values)?)))
                .collect();
            for (path, fault) in failed {
                let rejection = Rejection::new(Rule::Check, Some(&path), fault);
                match check.on_failure {
                    OnFailure::Reject => return Err(rejection),
                    OnFailure::Warn => {}
                    OnFailure::Nullify => drop(values.remove(&path)),
                }
                warnings.push(rejection);
            }
        }
        Ok(())
    }
}

impl Constraint {
    /// What is wrong with `value`, if anything.
    fn fault(&self, value: &Typed, values: &Values<'_>) -> Option<String> {
        let shown = value.to_value();
        match self {
            Self::Range { min: Some(min), .. } if value < min => {
                Some(format!("{shown} is below {}", min.to_value()))
            }
            Self::Range { max: Some(max), .. } if value > max => {
                Some(format!("{shown} is above {}", max.to_value()))
            }
            Self::Range { .. } => None,
            Self::Enum(allowed) if allowed.contains(value) => None,
            Self::Enum(_) => Some(format!("{shown} is none of the values allowed")),
            Self::Regex(regex) if regex.is_match(&shown.to_string()) => None,
            Self::Regex(regex) => Some(format!("{shown} does not match {regex}")),
            Self::Custom(expression) => expression.fault(value, values),
        }
    }
}

impl Expression {
    pub(super) fn new(source: &str) -> Result<Self, String> {
        let program = Program::compile(source).map_err(|error| error.to_string())?;
        Ok(Self { source: source.to_owned(), program })
    }

    /// The names that it speaks of.
    pub(super) fn names(&self) -> Vec<String> {
        self.program.references().variables().into_iter().map(str::to_owned).collect()
    }

    fn fault(&self, value: &Typed, values: &Values<'_>) -> Option<String> {
        let mut context = Context::default();
        context.add_variable_from_value("value", cel(value));
        for (name, tree) in trees(values) {
            context.add_variable_from_value(name, tree);
        }
        match self.program.execute(&context) {
            Ok(CelValue::Bool(true)) => None,
            Ok(CelValue::Bool(false)) => Some(format!("`{}` does not hold", self.source)),
            Ok(_) => Some(format!("`{}` is neither true nor false", self.source)),
            Err(error) => Some(format!("`{}` cannot be evaluated: {error}", self.source)),
        }
    }
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expression").field(&self.source).finish()
    }
}

/// The value as expressions have it. Whole numbers are exact; others, which CEL knows as doubles, are the nearest one.
fn cel(value: &Typed) -> CelValue {
    match value {
        Typed::Bool(value) => CelValue::Bool(*value),
        Typed::Text(text) => CelValue::String(Arc::new(text.clone())),
        Typed::Number(number) => {
            let double = |number: &Decimal| number.to_string().parse().unwrap_or(f64::NAN);
            number.to_i64().map_or_else(|| CelValue::Float(double(number)), CelValue::Int)
        }
    }
}

/// The record as a tree: `nutrients.water.amount` is the member `amount` of `water` of `nutrients`.
fn trees(values: &Values<'_>) -> BTreeMap<String, CelValue> {
    enum Tree {
        Leaf(CelValue),
        Node(BTreeMap<String, Tree>),
    }
    impl Tree {
        fn plant(nodes: &mut BTreeMap<String, Self>, path: &str, value: CelValue) {
            match path.split_once('.') {
                None => drop(nodes.insert(path.to_owned(), Self::Leaf(value))),
                Some((name, rest)) => {
                    let node = nodes.entry(name.to_owned()).or_insert_with(|| Self::Node(BTreeMap::new()));
                    if let Self::Node(nodes) = node {
                        Self::plant(nodes, rest, value);
                    }
                }
            }
        }
        fn grown(self) -> CelValue {
            match self {
                Self::Leaf(value) => value,
                Self::Node(nodes) => {
                    let member = |(name, tree): (String, Self)| (Key::String(Arc::new(name)), tree.grown());
                    let map: HashMap<_, _> = nodes.into_iter().map(member).collect();
                    CelValue::Map(Map { map: Arc::new(map) })
                }
            }
        }
    }
    let mut nodes = BTreeMap::new();
    for (path, (_, value)) in values {
        Tree::plant(&mut nodes, path, cel(value));
    }
    nodes.into_iter().map(|(name, tree)| (name, tree.grown())).collect()
}
