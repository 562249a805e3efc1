//! kubectl's `JSONPath`, as printer columns and selectable fields use it.
//!
//! `.spec.nodeName`, `.status.conditions[?(@.type=="Ready")].status`, `.items[*].metadata['annotations']`,
//! `..name`, `[1:3]`, `[0,2]`. Templates with text around the braces belong to kubectl itself.

mod parse;

use serde_json::Value;

/// A path that cannot be read or followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    Union(Vec<Vec<Step>>),
    Filter { left: Vec<Step>, operator: Operator, right: Vec<Step> },
    Literal(Value),
}

/// `[start:end:step]`; a single index has `end` derived from `start`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    single: bool,
    step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Path {
    /// Reads a path, with or without braces around it.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        Ok(Self { steps: parse::steps(inner)? })
    }

    /// What the path finds, in order. Missing keys are no error; an index out of bounds is.
    pub fn evaluate<'a>(&'a self, value: &'a Value) -> Result<Vec<&'a Value>, Error> {
        walk(&self.steps, vec![value])
    }

    /// The first thing found, or nothing.
    pub fn first<'a>(&'a self, value: &'a Value) -> Option<&'a Value> {
        self.evaluate(value).ok()?.into_iter().next()
    }
}

fn walk<'a>(steps: &'a [Step], mut current: Vec<&'a Value>) -> Result<Vec<&'a Value>, Error> {
    for step in steps {
        current = follow(step, current)?;
    }
    Ok(current)
}

fn follow<'a>(step: &'a Step, input: Vec<&'a Value>) -> Result<Vec<&'a Value>, Error> {
    let mut found = Vec::new();
    match step {
        Step::Literal(value) => found.extend(input.iter().map(|_| value)),
        Step::Field(name) => found.extend(input.into_iter().filter_map(|value| value.as_object()?.get(name))),
        Step::Wildcard => input.into_iter().for_each(|value| found.extend(children(value))),
        Step::Recursive => input.into_iter().for_each(|value| descend(value, &mut found)),
        Step::Slice(slice) => {
            for value in input.into_iter().filter(|value| !value.is_null()) {
                let Value::Array(items) = value else { return Err(Error("value is not array or slice".to_owned())) };
                found.extend(slice.of(items)?);
            }
        }
        Step::Union(branches) => {
            for branch in branches {
                found.extend(walk(branch, input.clone())?);
            }
        }
        Step::Filter { left, operator, right } => {
            for value in input {
                let Value::Array(items) = value else {
                    return Err(Error("value is not array or slice and cannot be filtered".to_owned()));
                };
                for item in items {
                    if passes(item, left, *operator, right)? {
                        found.push(item);
                    }
                }
            }
        }
    }
    Ok(found)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

/// The value and everything below it that has children of its own.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let below = children(value);
    if !below.is_empty() {
        found.push(value);
        for child in below {
            descend(child, found);
        }
    }
}

impl Slice {
    fn of<'a>(&self, items: &'a [Value]) -> Result<Vec<&'a Value>, Error> {
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let mut start = self.start.unwrap_or(0);
        // The end of a single index counts from the start as it was written: -1 means the last one.
        let mut end = if self.single { start + 1 } else { self.end.unwrap_or(length) };
        if start < 0 {
            start += length;
        }
        if end < 0 || (end == 0 && self.single) {
            end += length;
        }
        if start == end {
            return Ok(Vec::new());
        }
        let bounds = |index: i64| Error(format!("array index out of bounds: index {index}, length {length}"));
        if start >= length || start < 0 {
            return Err(bounds(start));
        }
        if end > length || end < 0 {
            return Err(bounds(end - 1));
        }
        if start > end {
            return Err(Error(format!("starting index {start} is greater than ending index {end}")));
        }
        let step = match self.step {
            Some(step) if step <= 0 => return Err(Error("step must be > 0".to_owned())),
            Some(step) => usize::try_from(step).unwrap_or(usize::MAX),
            None => 1,
        };
        let range = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
        Ok(items[range].iter().step_by(step).collect())
    }
}

fn passes(item: &Value, left: &[Step], operator: Operator, right: &[Step]) -> Result<bool, Error> {
    let lefts = walk(left, vec![item]);
    if operator == Operator::Exists {
        return Ok(lefts.is_ok_and(|found| !found.is_empty()));
    }
    let one = |found: Vec<&Value>| match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some((*one).clone())),
        _ => Err(Error("can only compare one element at a time".to_owned())),
    };
    let Some(left) = one(lefts?)? else { return Ok(false) };
    let Some(right) = one(walk(right, vec![item])?)? else { return Ok(false) };
    let order = match (&left, &right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        _ => None,
    };
    let Some(order) = order else {
        return Err(Error("incompatible types for comparison".to_owned()));
    };
    Ok(match operator {
        Operator::Exists => true,
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
    })
}
