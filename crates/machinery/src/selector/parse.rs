//! The grammar of label selectors.

use std::collections::BTreeSet;

use super::{Error, Operator, Requirement};
use crate::field::{self, Path};
use crate::meta::names;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Bad,
    End,
    ClosedParenthesis,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    GreaterThan,
    Identifier,
    In,
    LessThan,
    NotEquals,
    NotIn,
    OpenParenthesis,
}

fn keyword(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::ClosedParenthesis,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::GreaterThan,
        "in" => Token::In,
        "<" => Token::LessThan,
        "!=" => Token::NotEquals,
        "notin" => Token::NotIn,
        "(" => Token::OpenParenthesis,
        _ => return None,
    })
}

fn is_special(character: char) -> bool {
    matches!(character, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

/// Splits into tokens; the last one is always [`Token::End`].
fn scan(text: &str) -> Vec<(Token, String)> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next().filter(|first| *first != '\0') {
        let (token, literal, length) = if is_special(first) { special(rest) } else { word(rest) };
        tokens.push((token, literal));
        rest = rest[length..].trim_start_matches(is_space);
    }
    tokens.push((Token::End, String::new()));
    tokens
}

fn word(text: &str) -> (Token, String, usize) {
    let end =
        text.find(|character| is_special(character) || is_space(character) || character == '\0').unwrap_or(text.len());
    let literal = &text[..end];
    (keyword(literal).unwrap_or(Token::Identifier), literal.to_owned(), end)
}

/// The longest operator that the text begins with.
fn special(text: &str) -> (Token, String, usize) {
    let end = text.find(|character| !is_special(character)).unwrap_or(text.len());
    let mut found = None;
    for length in 1..=end {
        match keyword(&text[..length]) {
            Some(token) => found = Some((token, length)),
            None if found.is_some() => break,
            None => {}
        }
    }
    match found {
        Some((token, length)) => (token, text[..length].to_owned(), length),
        None => (Token::Bad, format!("error expected: keyword found '{}'", &text[..end]), end),
    }
}

struct Parser {
    tokens: Vec<(Token, String)>,
    position: usize,
}

pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, Error> {
    Parser { tokens: scan(text), position: 0 }.selector()
}

impl Parser {
    /// The next token. `in` and `notin` are ordinary words except where an operator is wanted.
    fn peek(&self, operator_wanted: bool) -> (Token, &str) {
        let (token, literal) = &self.tokens[self.position.min(self.tokens.len() - 1)];
        let token = match token {
            Token::In | Token::NotIn if !operator_wanted => Token::Identifier,
            other => *other,
        };
        (token, literal)
    }

    fn next(&mut self, operator_wanted: bool) -> (Token, String) {
        let (token, literal) = self.peek(operator_wanted);
        let next = (token, literal.to_owned());
        self.position += 1;
        next
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, Error> {
        let mut requirements = Vec::new();
        loop {
            match self.peek(false) {
                (Token::Identifier | Token::Not, _) => {}
                (Token::End, _) => return Ok(requirements),
                (_, found) => {
                    return Err(Error(format!("found '{found}', expected: !, identifier, or 'end of string'")));
                }
            }
            let requirement =
                self.requirement().map_err(|error| Error(format!("unable to parse requirement: {error}")))?;
            requirements.push(requirement);
            match self.next(false) {
                (Token::End, _) => return Ok(requirements),
                (Token::Comma, _) => {
                    let (token, found) = self.peek(false);
                    if token != Token::Identifier && token != Token::Not {
                        return Err(Error(format!("found '{found}', expected: identifier after ','")));
                    }
                }
                (_, found) => return Err(Error(format!("found '{found}', expected: ',' or 'end of string'"))),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let (mut token, mut key) = self.next(false);
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next(false);
        }
        if token != Token::Identifier {
            return Err(Error(format!("found '{key}', expected: identifier")));
        }
        let problems = names::label_key(&key);
        if !problems.is_empty() {
            let cause = field::invalid_text(&Path::ROOT, &key, &problems.join("; "));
            return Err(Error(format!("{}: {}", cause.field, cause.message)));
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(false).0, Token::End | Token::Comma) {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => BTreeSet::from([self.value()?]),
        };
        Requirement::new(key, operator, values.into_iter().collect())
    }

    fn operator(&mut self) -> Result<Operator, Error> {
        match self.next(true) {
            (Token::In, _) => Ok(Operator::In),
            (Token::Equals, _) => Ok(Operator::Equals),
            (Token::DoubleEquals, _) => Ok(Operator::DoubleEquals),
            (Token::GreaterThan, _) => Ok(Operator::GreaterThan),
            (Token::LessThan, _) => Ok(Operator::LessThan),
            (Token::NotIn, _) => Ok(Operator::NotIn),
            (Token::NotEquals, _) => Ok(Operator::NotEquals),
            (_, found) => Err(Error(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt"))),
        }
    }

    fn values(&mut self) -> Result<BTreeSet<String>, Error> {
        let (token, found) = self.next(false);
        if token != Token::OpenParenthesis {
            return Err(Error(format!("found '{found}' expected: '('")));
        }
        let (token, first) = self.peek(false);
        let first = first.to_owned();
        match token {
            Token::Identifier | Token::Comma => {
                let values = self.identifiers()?;
                if self.next(false).0 != Token::ClosedParenthesis {
                    return Err(Error(format!("found '{first}', expected: ')'")));
                }
                Ok(values)
            }
            Token::ClosedParenthesis => {
                self.position += 1;
                Ok(BTreeSet::from([String::new()]))
            }
            _ => Err(Error(format!("found '{first}', expected: ',', ')' or identifier"))),
        }
    }

    /// Empty places between commas stand for the empty value.
    fn identifiers(&mut self) -> Result<BTreeSet<String>, Error> {
        let mut values = BTreeSet::new();
        loop {
            match self.next(false) {
                (Token::Identifier, literal) => {
                    values.insert(literal);
                    match self.peek(false) {
                        (Token::Comma, _) => {}
                        (Token::ClosedParenthesis, _) => return Ok(values),
                        (_, found) => return Err(Error(format!("found '{found}', expected: ',' or ')'"))),
                    }
                }
                (Token::Comma, _) => {
                    let next = self.peek(false).0;
                    if values.is_empty() || matches!(next, Token::ClosedParenthesis | Token::Comma) {
                        values.insert(String::new());
                    }
                    if next == Token::ClosedParenthesis {
                        return Ok(values);
                    }
                }
                (_, found) => return Err(Error(format!("found '{found}', expected: ',', or identifier"))),
            }
        }
    }

    fn value(&mut self) -> Result<String, Error> {
        if matches!(self.peek(false).0, Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next(false) {
            (Token::Identifier, literal) => Ok(literal),
            (_, found) => Err(Error(format!("found '{found}', expected: identifier"))),
        }
    }
}
