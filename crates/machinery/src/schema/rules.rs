//! CEL rules (`x-kubernetes-validations`): compiled once, checked on every write.
//!
//! The walk, the wording and the forgiveness for unchanged values are the API server's; kube-cel gives
//! the language and its Kubernetes functions.

mod analysis;
mod values;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use kube_cel::KubeCelExt as _;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, ParseErrors, Program, Value as CelValue};
use serde_json::Value;

use super::{Additional, ListType, Rule, Schema, Type};
use crate::field::{self, Path};
use crate::status::Cause;

/// Longest message that a `messageExpression` may make, in bytes.
const MAX_MESSAGE: usize = 5 * 1024;

/// The rules of a schema, ready to run.
pub struct Compiled {
    schema: Schema,
    root: Node,
}

/// The rules of one schema node and of what is below it.
#[derive(Default)]
struct Node {
    rules: Vec<Ready>,
    properties: Vec<(String, Node)>,
    additional: Option<Box<Node>>,
    items: Option<Box<Node>>,
}

struct Ready {
    rule: Rule,
    program: Program,
    message: Option<Program>,
    uses_old: bool,
}

impl Compiled {
    /// Compiles every rule of a schema; refuses with causes on paths below `openAPIV3Schema`.
    pub fn new(schema: &Schema) -> Result<Self, Vec<Cause>> {
        Self::new_at(schema, &Path::new("openAPIV3Schema"))
    }

    /// As [`Compiled::new`], with the path that causes should name.
    pub fn new_at(schema: &Schema, path: &Path<'_>) -> Result<Self, Vec<Cause>> {
        let mut compiler = Compiler::default();
        let scope = Scope { cardinality: 1.0, is_root: true, uncorrelatable: None };
        let root = compiler.node(schema, path, &scope).unwrap_or_default();
        compiler.total(path);
        if compiler.causes.is_empty() { Ok(Self { schema: schema.clone(), root }) } else { Err(compiler.causes) }
    }

    /// Whether there is nothing to check.
    pub fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    /// Checks an object, beside its old version on an update.
    pub fn check(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        if !self.is_empty() {
            let place = Place { old, unchanged: old == Some(new) };
            self.root.check(&self.schema, new, place, &Path::ROOT, &mut causes);
        }
        causes
    }
}

/// The rules of a schema, compiled when they are first needed: a start should not wait for kinds that nobody writes.
#[derive(Debug)]
pub struct Rules {
    schema: Arc<Schema>,
    compiled: OnceLock<Result<Compiled, Vec<Cause>>>,
}

impl Rules {
    /// The rules of this schema, not compiled yet.
    pub fn of(schema: Arc<Schema>) -> Self {
        Self { schema, compiled: OnceLock::new() }
    }

    /// The rules, compiled. They were checked with the definition, so only those that an older release accepted fail.
    pub fn get(&self) -> Result<&Compiled, &[Cause]> {
        self.compiled.get_or_init(|| Compiled::new(&self.schema)).as_ref().map_err(Vec::as_slice)
    }
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}

/// Whether errors of validation keep rules from being run, and what the API server says then.
pub fn blocked(causes: &[Cause]) -> Option<Cause> {
    const BLOCKING: [&str; 5] = [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ];
    let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    let blocks = causes.iter().any(|cause| BLOCKING.contains(&cause.reason.as_str()));
    blocks.then(|| field::invalid(&Path::ROOT, &Value::Null, detail))
}

/// What surrounds a node while compiling.
#[derive(Clone)]
struct Scope {
    /// How many values of this node an object can hold.
    cardinality: f64,
    is_root: bool,
    /// The first ancestor whose items cannot be told apart from one version to the next.
    uncorrelatable: Option<String>,
}

#[derive(Default)]
struct Compiler {
    causes: Vec<Cause>,
    /// What each rule may cost, and where it is.
    costs: Vec<(f64, String)>,
}

impl Compiler {
    /// All rules of a schema together may not cost too much either.
    fn total(&mut self, path: &Path<'_>) {
        let total: f64 = self.costs.iter().map(|(cost, _)| cost).sum();
        if total <= analysis::TOTAL_COST_LIMIT {
            return;
        }
        self.costs.sort_by(|left, right| right.0.total_cmp(&left.0));
        let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        for (_, rule) in self.costs.iter().take(4) {
            self.causes.push(field::forbidden(&Path::new(rule), detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.causes.push(field::forbidden(path, &analysis::too_expensive(what, total / analysis::TOTAL_COST_LIMIT)));
    }

    fn node(&mut self, schema: &Schema, path: &Path<'_>, scope: &Scope) -> Option<Node> {
        let mut node = Node::default();
        let rules_path = path.child("x-kubernetes-validations");
        for (index, rule) in schema.rules.iter().enumerate().filter(|(_, rule)| !rule.rule.trim().is_empty()) {
            node.rules.extend(self.rule(schema, rule, &rules_path.index(index), scope));
        }
        let properties = path.child("properties");
        for (name, property) in &schema.properties {
            // Metadata of the object itself has no rules of its own.
            if scope.is_root && name == "metadata" {
                continue;
            }
            let inner = Scope { is_root: property.embedded_resource, ..scope.clone() };
            if let Some(child) = self.node(property, &properties.key(name), &inner) {
                node.properties.push((name.clone(), child));
            }
        }
        if let Some(Additional::Schema(other)) = &schema.additional {
            let cardinality = scope.cardinality * analysis::max_size(schema);
            let inner = Scope { cardinality, is_root: other.embedded_resource, ..scope.clone() };
            node.additional = self.node(other, &path.child("additionalProperties"), &inner).map(Box::new);
        }
        if let Some(items) = &schema.items {
            let mut inner = Scope { is_root: items.embedded_resource, ..scope.clone() };
            inner.cardinality *= analysis::max_size(schema);
            if !matches!(schema.list_type, ListType::Map(_)) && inner.uncorrelatable.is_none() {
                inner.uncorrelatable = Some(path.to_string());
            }
            node.items = self.node(items, &path.child("items"), &inner).map(Box::new);
        }
        (!node.is_empty()).then_some(node)
    }

    fn rule(&mut self, schema: &Schema, rule: &Rule, path: &Path<'_>, scope: &Scope) -> Option<Ready> {
        let printed = print_rule(rule);
        let rule_path = path.child("rule");
        let program = match compile(&rule.rule) {
            Ok(program) => program,
            Err(detail) => {
                self.causes.push(field::invalid_printed(&rule_path, &printed, &detail));
                return None;
            }
        };
        let uses_old = program.references().has_variable("oldSelf");
        let findings = analysis::analyze(&program, &rule.rule, schema, scope.is_root, rule.optional_old_self);
        if let Some(problem) = findings.problem {
            self.causes.push(field::invalid_printed(&rule_path, &printed, &problem));
        }
        let cost = findings.cost * scope.cardinality;
        self.costs.push((cost, rule_path.to_string()));
        let excess = cost / analysis::COST_LIMIT;
        if excess > 1.0 {
            self.causes.push(field::forbidden(&rule_path, &analysis::too_expensive("estimated rule cost", excess)));
        }
        if let (true, Some(ancestor)) = (uses_old, &scope.uncorrelatable) {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {ancestor}");
            self.causes.push(field::invalid_text(&rule_path, &rule.rule, &detail));
        }
        if rule.optional_old_self && !uses_old {
            let detail = "may not be set if oldSelf is not used in rule";
            self.causes.push(field::invalid(&path.child("optionalOldSelf"), &Value::Bool(true), detail));
        }
        let message = match rule.message_expression.as_deref().filter(|text| !text.trim().is_empty()).map(compile) {
            Some(Err(detail)) => {
                let detail = format!("messageExpression {detail}");
                self.causes.push(field::invalid_printed(&path.child("messageExpression"), &printed, &detail));
                None
            }
            Some(Ok(program)) => Some(program),
            None => None,
        };
        Some(Ready { rule: rule.clone(), program, message, uses_old })
    }
}

/// A rule the way the API server prints it inside a cause.
fn print_rule(rule: &Rule) -> String {
    let text = |text: &Option<String>| field::json(&text.as_deref().unwrap_or_default().into());
    let reason = rule.reason.as_ref().map_or("null".to_owned(), |reason| field::json(&reason.as_str().into()));
    let optional = if rule.optional_old_self { "true" } else { "null" };
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\"FieldPath\":{},\"OptionalOldSelf\":{optional}}}",
        field::json(&rule.rule.as_str().into()),
        text(&rule.message),
        text(&rule.message_expression),
        text(&rule.field_path)
    )
}

/// Compiles an expression. The parser is generated code that may panic on odd input; that is an error
/// of the expression, not of the server.
fn compile(expression: &str) -> Result<Program, String> {
    match catch_unwind(|| Program::compile(expression)) {
        Ok(Ok(program)) => Ok(program),
        Ok(Err(errors)) => Err(format!("compilation failed: {}", syntax_errors(&errors, expression))),
        Err(_) => Err("compilation failed: ERROR: <input>: the expression cannot be parsed".to_owned()),
    }
}

fn syntax_errors(errors: &ParseErrors, expression: &str) -> String {
    let lines: Vec<String> = errors
        .errors
        .iter()
        .map(|error| analysis::point_at(expression, error.pos.0.unsigned_abs(), error.pos.1.unsigned_abs(), &error.msg))
        .collect();
    lines.join("\n")
}

/// The old version of a value while walking down.
#[derive(Clone, Copy)]
struct Place<'v> {
    old: Option<&'v Value>,
    /// The value, or the nearest ancestor that has an old version, did not change.
    unchanged: bool,
}

impl<'v> Place<'v> {
    fn below(self, value: &Value, old: Option<&'v Value>) -> Self {
        match old {
            Some(old) => Self { old: Some(old), unchanged: old == value },
            None => Self { old: None, unchanged: self.unchanged },
        }
    }
}

impl Node {
    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.properties.is_empty() && self.additional.is_none() && self.items.is_none()
    }

    fn check(&self, schema: &Schema, value: &Value, place: Place<'_>, path: &Path<'_>, causes: &mut Vec<Cause>) {
        if value.is_null() {
            return;
        }
        // What a rule says of a value that did not change is let through, so it need not be asked.
        let mut asked = self.rules.iter().filter(|ready| ready.uses_old || !place.unchanged).peekable();
        if asked.peek().is_some() {
            let run = Run::new(schema, value, place);
            causes.extend(asked.filter_map(|ready| run.judge(ready, path)));
        }
        match value {
            Value::Object(map) => {
                for (name, node) in &self.properties {
                    if let (Some(child), Some(property)) = (map.get(name), schema.properties.get(name)) {
                        let place = place.below(child, place.old.and_then(|old| old.get(name)));
                        node.check(property, child, place, &path.child(name), causes);
                    }
                }
                if let (Some(node), Some(Additional::Schema(other))) = (&self.additional, &schema.additional) {
                    for (key, child) in map.iter().filter(|(key, _)| !schema.properties.contains_key(*key)) {
                        let place = place.below(child, place.old.and_then(|old| old.get(key)));
                        node.check(other, child, place, &path.key(key), causes);
                    }
                }
            }
            Value::Array(items) => {
                let (Some(node), Some(item_schema)) = (&self.items, &schema.items) else { return };
                for (index, item) in items.iter().enumerate() {
                    let place = place.below(item, matching_item(schema, item, place.old));
                    node.check(item_schema, item, place, &path.index(index), causes);
                }
            }
            _ => {}
        }
    }
}

fn matching_item<'v>(schema: &Schema, item: &Value, old: Option<&'v Value>) -> Option<&'v Value> {
    let ListType::Map(keys) = &schema.list_type else { return None };
    old?.as_array()?.iter().find(|candidate| keys.iter().all(|key| candidate.get(key) == item.get(key)))
}

thread_local! {
    /// All functions, registered once a thread; each run adds its variables in a scope of its own.
    static FUNCTIONS: Context<'static> = functions();
}

/// The language's functions and the names of its types, which kube-cel leaves out.
fn functions() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function("type", |value: CelValue| Arc::new(values::type_name(&value).to_owned()));
    for name in values::TYPE_NAMES {
        context.add_variable_from_value(name, CelValue::String(Arc::new(name.to_owned())));
    }
    context
}

/// One value against the rules of its node.
struct Run<'v> {
    schema: &'v Schema,
    value: &'v Value,
    this: CelValue,
    old: Option<CelValue>,
}

impl<'v> Run<'v> {
    fn new(schema: &'v Schema, value: &'v Value, place: Place<'v>) -> Self {
        let this = values::convert(schema, value);
        let old = place.old.filter(|old| !old.is_null()).map(|old| values::convert(schema, old));
        Self { schema, value, this, old }
    }

    fn evaluate(&self, program: &Program, optional_old: bool) -> Result<CelValue, String> {
        FUNCTIONS.with(|functions| {
            let mut context = functions.new_inner_scope();
            context.add_variable_from_value("self", self.this.clone());
            if optional_old {
                let old = self.old.clone().map_or_else(OptionalValue::none, OptionalValue::of);
                context.add_variable_from_value("oldSelf", CelValue::Opaque(Arc::new(old)));
            } else if let Some(old) = &self.old {
                context.add_variable_from_value("oldSelf", old.clone());
            }
            match catch_unwind(AssertUnwindSafe(|| program.execute(&context))) {
                Ok(result) => result.map_err(|error| runtime_error(&error)),
                Err(_) => Err("the expression could not be evaluated".to_owned()),
            }
        })
    }

    fn judge(&self, ready: &Ready, path: &Path<'_>) -> Option<Cause> {
        let rule = &ready.rule;
        if ready.uses_old && self.old.is_none() && !rule.optional_old_self {
            return None;
        }
        let type_name = self.type_name();
        let words = rule.message.as_deref().unwrap_or(&rule.rule).trim();
        match self.evaluate(&ready.program, rule.optional_old_self) {
            Ok(CelValue::Bool(true)) => return None,
            Ok(CelValue::Bool(false)) => {}
            Ok(_) => {
                let detail =
                    format!("rule compile error: compilation failed: cel expression must evaluate to a bool: {words}");
                return Some(field::invalid_text(path, type_name, &detail));
            }
            Err(error) if error.starts_with("no such overload") => {
                let detail = format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {words}"
                );
                return Some(field::invalid_text(path, type_name, &detail));
            }
            Err(error) => {
                return Some(field::invalid_text(path, type_name, &format!("{error} evaluating rule: {words}")));
            }
        }
        let made = ready.message.as_ref().and_then(|program| self.message(program, rule.optional_old_self));
        let detail = made.unwrap_or_else(|| match &rule.message {
            Some(message) => message.trim().to_owned(),
            None => format!("failed rule: {}", rule.rule.trim()),
        });
        Some(self.refusal(rule, &detail, path))
    }

    fn message(&self, program: &Program, optional_old: bool) -> Option<String> {
        let Ok(CelValue::String(text)) = self.evaluate(program, optional_old) else { return None };
        let text = text.trim();
        (!text.is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE).then(|| text.to_owned())
    }

    fn refusal(&self, rule: &Rule, detail: &str, path: &Path<'_>) -> Cause {
        let normalized = rule.field_path.as_deref().map(|text| text.trim().trim_start_matches('.').to_owned());
        let inner;
        let path = match &normalized {
            Some(text) => {
                inner = path.child(text);
                &inner
            }
            None => path,
        };
        let compound = matches!(self.schema.value_type, Type::Object | Type::Array);
        match rule.reason.as_deref() {
            Some("FieldValueForbidden") => field::forbidden(path, detail),
            Some("FieldValueRequired") => field::required(path, detail),
            Some("FieldValueDuplicate") if compound => field::duplicate_omitted(path),
            Some("FieldValueDuplicate") => field::duplicate(path, self.value),
            _ if compound => field::invalid_omitted(path, detail),
            _ => field::invalid(path, self.value, detail),
        }
    }

    fn type_name(&self) -> &'static str {
        match self.schema.value_type {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
            Type::Any | Type::IntOrString => "",
        }
    }
}

/// Runtime errors in the words of the API server's CEL.
fn runtime_error(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {}", values::unescape(key)),
        ExecutionError::IndexOutOfBounds(index) => match index {
            CelValue::Int(index) => format!("index out of bounds: {index}"),
            other => format!("index out of bounds: {other:?}"),
        },
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::ValuesNotComparable(..) => "no such overload".to_owned(),
        ExecutionError::FunctionError { function, .. } if function == "quantity" => {
            crate::quantity::Error::Format.to_string()
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}
