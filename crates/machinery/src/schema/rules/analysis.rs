//! What can be said of a rule before it runs: fields that do not exist, names nobody declared, and how
//! much it may cost.

use std::collections::HashMap;

use kube_cel::cel::common::ast::{EntryExpr, Expr, LiteralValue};
use kube_cel::cel::{IdedExpr, Program};

use super::values;
use crate::schema::{Additional, Schema, Type};

/// Most that one rule may cost, in evaluation steps.
pub const COST_LIMIT: f64 = 10_000_000.0;
/// Most that all rules of a schema may cost together.
pub const TOTAL_COST_LIMIT: f64 = 100_000_000.0;
/// Comparing text costs this much a byte.
const TEXT_COST: f64 = 0.1;
/// A request is never larger, so nothing in it can have more parts.
const MAX_REQUEST: f64 = 3.0 * 1024.0 * 1024.0;
/// Size assumed for lists that come out of functions.
const COMPUTED_SIZE: f64 = 100.0;

/// What was found.
pub struct Findings {
    /// The first thing that cannot be right.
    pub problem: Option<String>,
    /// Steps in the worst case.
    pub cost: f64,
}

/// Looks through a rule on `schema`.
pub fn analyze(program: &Program, source: &str, schema: &Schema, is_root: bool, optional_old: bool) -> Findings {
    let this = Kind::Known { schema, is_root };
    let mut walk = Walk { source, problem: None, scope: HashMap::new() };
    walk.scope.insert("self".to_owned(), this);
    walk.scope.insert("oldSelf".to_owned(), if optional_old { Kind::Dynamic } else { this });
    let (kind, cost) = walk.visit(program.expression());
    if kind.type_name().is_some_and(|name| name != "bool") && walk.problem.is_none() {
        walk.problem = Some("cel expression must evaluate to a bool".to_owned());
    }
    Findings { problem: walk.problem, cost }
}

/// What is known of the value of an expression.
#[derive(Clone, Copy)]
enum Kind<'s> {
    Known {
        schema: &'s Schema,
        is_root: bool,
    },
    /// A value of a simple type that no schema describes, and its size.
    Simple(&'static str, f64),
    Dynamic,
}

struct Walk<'s> {
    source: &'s str,
    problem: Option<String>,
    scope: HashMap<String, Kind<'s>>,
}

impl<'s> Walk<'s> {
    fn complain(&mut self, token: &str, message: &str) {
        if self.problem.is_none() {
            let offset = find_token(self.source, token).unwrap_or(0);
            let line_start = self.source[..offset].rfind('\n').map_or(0, |newline| newline + 1);
            let line = self.source[..offset].matches('\n').count() + 1;
            let words = point_at(self.source, line, offset - line_start + 1, message);
            self.problem = Some(format!("compilation failed: {words}"));
        }
    }

    fn visit(&mut self, expression: &IdedExpr) -> (Kind<'s>, f64) {
        match &expression.expr {
            Expr::Ident(name) => {
                let declared = self.scope.get(name).copied();
                if declared.is_none() && !is_type_name(name) {
                    self.complain(name, &format!("undeclared reference to '{name}' (in container '')"));
                }
                (declared.unwrap_or(Kind::Dynamic), 1.0)
            }
            Expr::Literal(literal) => (literal_kind(literal), 1.0),
            Expr::Select(select) if select.test => {
                let (operand, cost) = self.visit(&select.operand);
                self.select(operand, &select.field);
                (Kind::Simple("bool", 1.0), cost + 1.0)
            }
            Expr::Select(select) => {
                if is_namespace(&select.operand.expr) && !self.is_declared(&select.operand.expr) {
                    return (Kind::Dynamic, 1.0);
                }
                let (operand, cost) = self.visit(&select.operand);
                (self.select(operand, &select.field), cost + 1.0)
            }
            Expr::Call(call) => self.call(&call.func_name, call.target.as_deref(), &call.args),
            Expr::Comprehension(inner) => {
                let (range, range_cost) = self.visit(&inner.iter_range);
                let (element, size) = range.elements();
                let mut saved = vec![(inner.iter_var.clone(), self.scope.insert(inner.iter_var.clone(), element))];
                if let Some(second) = &inner.iter_var2 {
                    saved.push((second.clone(), self.scope.insert(second.clone(), Kind::Dynamic)));
                }
                saved.push((inner.accu_var.clone(), self.scope.insert(inner.accu_var.clone(), Kind::Dynamic)));
                let steps = [&inner.accu_init, &inner.loop_cond, &inner.loop_step, &inner.result]
                    .map(|part| self.visit(part).1);
                for (name, before) in saved {
                    match before {
                        Some(kind) => self.scope.insert(name, kind),
                        None => self.scope.remove(&name),
                    };
                }
                (Kind::Dynamic, range_cost + steps[0] + size * (steps[1] + steps[2]) + steps[3])
            }
            Expr::List(list) => {
                (Kind::Dynamic, list.elements.iter().map(|element| self.visit(element).1).sum::<f64>() + 1.0)
            }
            Expr::Map(map) => {
                let mut cost = 1.0;
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        cost += self.visit(&entry.key).1 + self.visit(&entry.value).1;
                    }
                }
                (Kind::Dynamic, cost)
            }
            _ => (Kind::Dynamic, 1.0),
        }
    }

    fn is_declared(&self, expression: &Expr) -> bool {
        matches!(expression, Expr::Ident(name) if self.scope.contains_key(name))
    }

    fn call(&mut self, function: &str, target: Option<&IdedExpr>, arguments: &[IdedExpr]) -> (Kind<'s>, f64) {
        let mut cost = 1.0;
        if let Some(target) = target
            && (self.is_declared(&target.expr) || !is_namespace(&target.expr))
        {
            cost += self.visit(target).1;
        }
        let mut kinds = Vec::new();
        for argument in arguments {
            let (kind, argument_cost) = self.visit(argument);
            kinds.push(kind);
            cost += argument_cost;
        }
        let result = match (function, kinds.as_slice()) {
            ("_[_]", [container, ..]) => container.elements_of_index(),
            ("_&&_" | "_||_" | "!_", _) => Kind::Simple("bool", 1.0),
            ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_", [left, right]) => {
                cost += TEXT_COST * left.text_size().min(right.text_size());
                self.compare(function, *left, *right);
                Kind::Simple("bool", 1.0)
            }
            ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [left, right]) => match (left.type_name(), right.type_name()) {
                (Some(left), Some(right)) if left == right && ["int", "double", "string"].contains(&left) => {
                    Kind::Simple(left, 1.0)
                }
                _ => Kind::Dynamic,
            },
            _ => Kind::Dynamic,
        };
        (result, cost)
    }

    /// Values of different types are never compared.
    fn compare(&mut self, function: &str, left: Kind<'s>, right: Kind<'s>) {
        let (Some(left), Some(right)) = (left.type_name(), right.type_name()) else { return };
        let operator = function.trim_matches('_');
        let numeric = |name: &str| matches!(name, "int" | "double" | "uint");
        let ordered = !matches!(operator, "==" | "!=");
        if left == right || (ordered && numeric(left) && numeric(right)) {
            return;
        }
        let message = format!("found no matching overload for '{function}' applied to '({left}, {right})'");
        self.complain(operator, &message);
    }

    fn select(&mut self, operand: Kind<'s>, field: &str) -> Kind<'s> {
        let Kind::Known { schema, is_root } = operand else { return Kind::Dynamic };
        let name = values::unescape(field);
        if let Some(property) = schema.properties.get(&name) {
            let hidden = is_root && name == "metadata";
            return if hidden { Kind::Known { schema: metadata(), is_root: false } } else { known(property) };
        }
        match &schema.additional {
            Some(Additional::Schema(other)) => known(other),
            Some(Additional::Anything) => Kind::Dynamic,
            None if schema.value_type == Type::Object => {
                self.complain(&format!(".{field}"), &format!("undefined field '{field}'"));
                Kind::Dynamic
            }
            None if matches!(schema.value_type, Type::Any | Type::IntOrString) => Kind::Dynamic,
            None => {
                let type_name = format!("{:?}", schema.value_type)
                    .to_lowercase()
                    .replace("integer", "int")
                    .replace("array", "list");
                self.complain(&format!(".{field}"), &format!("type '{type_name}' does not support field selection"));
                Kind::Dynamic
            }
        }
    }
}

/// Rules see only the name of the object they are on.
fn metadata() -> &'static Schema {
    static METADATA: std::sync::LazyLock<Schema> = std::sync::LazyLock::new(|| {
        let full = crate::builtin::object_meta();
        let names = ["name", "generateName"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), full.properties.get(name)?.clone())));
        Schema { value_type: Type::Object, properties: names.collect(), ..Schema::default() }
    });
    &METADATA
}

fn known(schema: &Schema) -> Kind<'_> {
    Kind::Known { schema, is_root: schema.embedded_resource }
}

fn literal_kind<'s>(literal: &LiteralValue) -> Kind<'s> {
    match literal {
        LiteralValue::Boolean(_) => Kind::Simple("bool", 1.0),
        LiteralValue::Bytes(_) => Kind::Simple("bytes", 1.0),
        LiteralValue::Double(_) => Kind::Simple("double", 1.0),
        LiteralValue::Int(_) => Kind::Simple("int", 1.0),
        LiteralValue::UInt(_) => Kind::Simple("uint", 1.0),
        LiteralValue::String(_) => Kind::Simple("string", 1.0),
        LiteralValue::Null => Kind::Dynamic,
    }
}

impl<'s> Kind<'s> {
    /// The type, where it is simple and certain.
    fn type_name(self) -> Option<&'static str> {
        match self {
            Kind::Simple(name, _) => Some(name),
            Kind::Known { schema, .. } if !schema.nullable => match (schema.value_type, schema.format.as_deref()) {
                (Type::String, None) => Some("string"),
                (Type::Integer, _) => Some("int"),
                (Type::Number, _) => Some("double"),
                (Type::Boolean, _) => Some("bool"),
                _ => None,
            },
            _ => None,
        }
    }

    /// How much text a comparison may have to read.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn text_size(self) -> f64 {
        match self {
            Kind::Known { schema, .. } if schema.value_type == Type::String => {
                schema.max_length.map_or(MAX_REQUEST, |bound| bound as f64)
            }
            Kind::Simple(_, size) => size,
            _ => 1.0,
        }
    }

    /// What a comprehension binds, and how often at most.
    fn elements(self) -> (Kind<'s>, f64) {
        match self {
            Kind::Known { schema, .. } => {
                // Over a map, a comprehension runs over the keys.
                let element = schema.items.as_deref().map_or(Kind::Dynamic, known);
                (element, max_size(schema))
            }
            Kind::Dynamic | Kind::Simple(..) => (Kind::Dynamic, COMPUTED_SIZE),
        }
    }

    fn elements_of_index(self) -> Kind<'s> {
        match self {
            Kind::Known { schema, .. } => match (&schema.items, &schema.additional) {
                (Some(items), _) => known(items),
                (None, Some(Additional::Schema(other))) => known(other),
                _ => Kind::Dynamic,
            },
            Kind::Dynamic | Kind::Simple(..) => Kind::Dynamic,
        }
    }
}

/// How many items or entries a list or map can have.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub fn max_size(schema: &Schema) -> f64 {
    let bound = match schema.value_type {
        Type::Array => schema.max_items,
        Type::Object => schema.max_properties,
        _ => None,
    };
    if let Some(bound) = bound {
        return bound as f64;
    }
    let element = match (&schema.items, &schema.additional) {
        (Some(items), _) => min_bytes(items) + 1.0,
        // A key in quotes and a colon come before the value.
        (None, Some(Additional::Schema(other))) => min_bytes(other) + 6.0,
        _ => 6.0,
    };
    MAX_REQUEST / element
}

/// The shortest JSON that a value of this schema can be.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn min_bytes(schema: &Schema) -> f64 {
    match schema.value_type {
        Type::Object => {
            let fields = schema
                .required
                .iter()
                .filter_map(|name| Some(name.len() as f64 + 4.0 + min_bytes(schema.properties.get(name)?)));
            2.0 + fields.sum::<f64>()
        }
        Type::Array | Type::String => 2.0,
        Type::Boolean => 4.0,
        _ => 1.0,
    }
}

/// By how much a budget is exceeded, in the API server's words.
pub fn too_expensive(what: &str, factor: f64) -> String {
    let factor = match factor {
        _ if factor > 100.0 => "more than 100x".to_owned(),
        _ if factor < 1.5 => format!("{factor:.6}x"),
        _ => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// An error with the line it is on and an arrow to the place. Line and column count from 1.
pub fn point_at(source: &str, line: usize, column: usize, message: &str) -> String {
    let snippet = source.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    format!("ERROR: <input>:{line}:{column}: {message}\n | {snippet}\n | {}^", ".".repeat(column.saturating_sub(1)))
}

/// Where a word stands on its own.
fn find_token(source: &str, token: &str) -> Option<usize> {
    let is_word = |character: char| character == '_' || character.is_alphanumeric();
    source.match_indices(token).map(|(position, _)| position).find(|position| {
        let before = source[..*position].chars().next_back().is_some_and(is_word) && !token.starts_with('.');
        let after = source[position + token.len()..].chars().next().is_some_and(is_word);
        !before && !after
    })
}

/// `math` in `math.greatest(…)`: not a variable but part of a function's name.
fn is_namespace(expression: &Expr) -> bool {
    const NAMESPACES: [&str; 8] = ["base64", "format", "ip", "jsonpatch", "math", "optional", "sets", "strings"];
    matches!(expression, Expr::Ident(name) if NAMESPACES.contains(&name.as_str()))
}

fn is_type_name(name: &str) -> bool {
    [
        "bool",
        "bytes",
        "double",
        "dyn",
        "duration",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "timestamp",
        "type",
        "uint",
    ]
    .contains(&name)
        || name.starts_with('@')
        || name.starts_with("__")
}
