//! The cursor over the tokens of a module, and the tree so far.

use super::lexer::{Kind, Token};
use super::tree::{ParseError, Position, Result, Tree};

pub(super) struct Parser<'a> {
    pub(super) tokens: Vec<Token<'a>>,
    pub(super) at: usize,
    pub(super) tree: Tree<'a>,
    /// The lists around the next token.
    depth: usize,
}

/// Lists nested deeper are refused: reading them recurses.
const MAX_DEPTH: usize = 32;

impl<'a> Parser<'a> {
    pub(super) fn new(tokens: Vec<Token<'a>>) -> Self {
        Self { tokens, at: 0, tree: Tree::default(), depth: 0 }
    }

    /// Reads what is inside of a list.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(format!("nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// Reads a number up to a limit.
    pub(super) fn number_up_to(&mut self, limit: u64) -> Result<u64> {
        match self.number()? {
            value if value <= limit => Ok(value),
            value => Err(self.error(format!("{value} is more than {limit}"))),
        }
    }

    pub(super) fn peek(&self) -> Option<Kind<'a>> {
        self.tokens.get(self.at).map(|it| it.kind)
    }

    pub(super) fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |it| it.line)
    }

    pub(super) fn next(&mut self) -> Result<Kind<'a>> {
        let found = self.peek().ok_or_else(|| self.error("the text ends too early"))?;
        self.at += 1;
        Ok(found)
    }

    pub(super) fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError::new(self.line(), message)
    }

    /// Skips a mark if it comes next.
    pub(super) fn take(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(Kind::Mark(mark));
        self.at += usize::from(found);
        found
    }

    /// Skips a word if it comes next.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(Kind::Word(word));
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, mark: char) -> Result<()> {
        if self.take(mark) {
            return Ok(());
        }
        Err(self.error(format!("expected `{mark}`")))
    }

    pub(super) fn word(&mut self) -> Result<&'a str> {
        match self.peek() {
            Some(Kind::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.error("expected a name")),
        }
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        let negative = self.take('-');
        match self.next()? {
            Kind::Number(value) if negative => Ok(value.wrapping_neg()),
            Kind::Number(value) => Ok(value),
            _ => Err(self.error("expected a number")),
        }
    }

    /// Skips what is left of a line.
    pub(super) fn skip_rest_of(&mut self, line: u32) {
        while self.tokens.get(self.at).is_some_and(|it| it.line == line) {
            self.at += 1;
        }
    }

    /// Reads a `.loc`; returns its index in the line table.
    pub(super) fn location(&mut self) -> Result<u32> {
        let line = self.line();
        let here = self.position()?;
        let mut call = None;
        while self.tokens.get(self.at).is_some_and(|it| it.line == line) {
            if self.take_word("inlined_at") {
                call = Some(self.position()?);
            } else {
                self.at += 1;
            }
        }
        let lines = &mut self.tree.line_table.lines;
        lines.push((here, call));
        Ok(lines.len() as u32 - 1)
    }

    fn position(&mut self) -> Result<Position> {
        Ok((self.number()?, self.number()?, self.number()?))
    }
}
