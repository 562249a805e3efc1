//! The grammar of paths.

use serde_json::Value;

use super::{Error, Operator, Slice, Step};

/// Paths nest only through filters and unions; this keeps hostile ones from exhausting the stack.
const MAX_DEPTH: usize = 16;

pub(super) fn steps(text: &str) -> Result<Vec<Step>, Error> {
    Parser { rest: text, depth: 0 }.steps()
}

fn fail<T>(words: impl Into<String>) -> Result<T, Error> {
    Err(Error(words.into()))
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn nested(&self, text: &str) -> Result<Vec<Step>, Error> {
        if self.depth >= MAX_DEPTH {
            return fail("path is nested too deeply");
        }
        Parser { rest: text, depth: self.depth + 1 }.steps()
    }

    fn steps(&mut self) -> Result<Vec<Step>, Error> {
        let mut steps: Vec<Step> = Vec::new();
        loop {
            if let Some(rest) = self.rest.strip_prefix("[?(") {
                self.rest = rest;
                steps.push(self.filter()?);
                continue;
            }
            if let Some(rest) = self.rest.strip_prefix("..") {
                if steps.last() == Some(&Step::Recursive) {
                    return fail("invalid multiple recursive descent");
                }
                self.rest = rest;
                steps.push(Step::Recursive);
                if rest.starts_with(|first: char| first == '_' || first.is_alphanumeric()) {
                    steps.push(self.field());
                }
                continue;
            }
            let Some(first) = self.rest.chars().next() else { return Ok(steps) };
            let after = &self.rest[first.len_utf8()..];
            match first {
                '\n' | '\r' => return fail("unclosed action"),
                ' ' | '@' | '$' => self.rest = after,
                '[' => self.brackets(&mut steps)?,
                '"' | '\'' => steps.push(self.quoted(first)?),
                '.' => {
                    self.rest = after;
                    let field = self.field();
                    // `{.}` is the object itself.
                    if field != Step::Field(String::new()) {
                        steps.push(field);
                    }
                }
                '+' | '-' | '0'..='9' => steps.push(self.number()?),
                _ if first == '_' || first.is_alphanumeric() => steps.push(self.word()?),
                _ => return fail(format!("unrecognized character in action: U+{:04X} '{first}'", first as u32)),
            }
        }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// A field name up to the next special character; a backslash protects one.
    fn field(&mut self) -> Step {
        let mut escaped = false;
        let end = self.rest.find(|character: char| {
            let ends = !escaped
                && matches!(character, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}');
            escaped = !escaped && character == '\\';
            ends
        });
        let name = self.take(end.unwrap_or(self.rest.len()));
        if name == "*" { Step::Wildcard } else { Step::Field(name.replace('\\', "")) }
    }

    fn number(&mut self) -> Result<Step, Error> {
        let digits = self.rest.trim_start_matches(['+', '-']);
        let sign = self.rest.len() - digits.len();
        let end =
            digits.find(|character: char| character != '.' && !character.is_ascii_digit()).unwrap_or(digits.len());
        let text = self.take(sign + end);
        if let Ok(whole) = text.parse::<i64>() {
            return Ok(Step::Literal(whole.into()));
        }
        match text.parse::<f64>() {
            Ok(number) => Ok(Step::Literal(number.into())),
            Err(_) => fail(format!("cannot parse number {text}")),
        }
    }

    fn word(&mut self) -> Result<Step, Error> {
        match self.field() {
            Step::Field(word) if word == "true" || word == "false" => Ok(Step::Literal(Value::Bool(word == "true"))),
            Step::Field(word) => fail(format!("unrecognized identifier {word}")),
            _ => fail("unrecognized identifier"),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Step, Error> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((position, character)) = characters.next() {
            match character {
                '\n' => break,
                '\\' => match characters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, other)) => text.push(other),
                    None => break,
                },
                _ if character == quote => {
                    self.take(position + quote.len_utf8());
                    return Ok(Step::Literal(Value::String(text)));
                }
                other => text.push(other),
            }
        }
        fail("unterminated quoted string")
    }

    fn brackets(&mut self, steps: &mut Vec<Step>) -> Result<(), Error> {
        let Some(end) = self.rest.find(']') else { return fail("unterminated array") };
        let inner = &self.take(end + 1)[1..end];
        if inner.contains(',') && !inner.starts_with(['\'', '"']) {
            let branches: Result<Vec<_>, _> =
                inner.split(',').map(|part| self.nested(&format!("[{}]", part.trim()))).collect();
            steps.push(Step::Union(branches?));
            return Ok(());
        }
        if let Some(key) = inner.strip_prefix('\'').and_then(|key| key.strip_suffix('\'')) {
            steps.push(Step::Field(key.replace('\\', "")));
            return Ok(());
        }
        let inner = if inner == "*" { ":" } else { inner };
        steps.push(Step::Slice(slice(inner)?));
        Ok(())
    }

    fn filter(&mut self) -> Result<Step, Error> {
        let Some(end) = filter_end(self.rest) else { return fail("unterminated filter") };
        let inner = self.take(end);
        let Some(rest) = self.rest.strip_prefix(")]") else { return fail("unclosed array expect ]") };
        self.rest = rest;
        let is_operator = |character: char| "!<>=".contains(character);
        let Some(start) = inner.find(is_operator).filter(|start| *start > 0) else {
            return Ok(Step::Filter { left: self.nested(inner)?, operator: Operator::Exists, right: Vec::new() });
        };
        let after = inner[start..].trim_start_matches(is_operator);
        let operator = &inner[start..inner.len() - after.len()];
        let operator = match operator {
            "==" => Operator::Equal,
            "!=" => Operator::NotEqual,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            other => return fail(format!("unrecognized filter operator {other}")),
        };
        Ok(Step::Filter { left: self.nested(&inner[..start])?, operator, right: self.nested(after)? })
    }
}

/// Where the closing parenthesis is that does not stand in quotes.
fn filter_end(text: &str) -> Option<usize> {
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for (position, character) in text.char_indices() {
        match (character, quote) {
            _ if escaped => escaped = false,
            ('\\', _) => escaped = true,
            ('\n', _) => return None,
            ('"' | '\'', None) => quote = Some(character),
            (_, Some(open)) if open == character => quote = None,
            (')', None) => return Some(position),
            _ => {}
        }
    }
    None
}

fn slice(text: &str) -> Result<Slice, Error> {
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 || text.is_empty() {
        return fail(format!("invalid array index {text}"));
    }
    let number = |part: Option<&&str>| match part.map(|part| part.trim()) {
        None | Some("") => Ok(None),
        Some(digits) => digits
            .parse::<i32>()
            .map(|number| Some(i64::from(number)))
            .or_else(|_| fail(format!("invalid array index {text}"))),
    };
    Ok(Slice {
        start: number(parts.first())?,
        end: number(parts.get(1))?,
        single: parts.len() == 1,
        step: number(parts.get(2))?,
    })
}
