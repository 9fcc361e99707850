//! The outer level of a module: directives, variables, and the heads of functions.

use super::body::Scope;
use super::lexer::{Kind, Token, tokens};
use super::{Function, ParseError, Position, Result, Space, Tree, Variable};

/// Parses a whole module.
pub(crate) fn parse(text: &str) -> Result<Tree<'_>> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, tree: Tree::default() };
    parser.tree.places.lines.push(((0, 0, 0), None));
    while parser.peek().is_some() {
        parser.item()?;
    }
    Ok(parser.tree)
}

pub(super) struct Parser<'a> {
    pub(super) tokens: Vec<Token<'a>>,
    pub(super) at: usize,
    pub(super) tree: Tree<'a>,
}

impl<'a> Parser<'a> {
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

    pub(super) fn error(&self, what: impl Into<String>) -> ParseError {
        ParseError::new(self.line(), what)
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

    /// Everything up to the end of the line.
    pub(super) fn skip_line(&mut self) {
        let line = self.line();
        while self.tokens.get(self.at).is_some_and(|it| it.line == line) {
            self.at += 1;
        }
    }

    /// Numbers separated by commas: as many as there are, up to three, ones for the rest.
    fn triple(&mut self) -> Result<[u32; 3]> {
        let mut found = [1; 3];
        for (n, to) in found.iter_mut().enumerate() {
            if n > 0 && !self.take(',') {
                break;
            }
            *to = u32::try_from(self.number()?).map_err(|_| self.error("a number too large"))?;
        }
        Ok(found)
    }

    fn item(&mut self) -> Result<()> {
        match self.word()? {
            ".version" => {
                self.tree.version = match self.next()? {
                    Kind::Text(version) => version,
                    _ => return Err(self.error("expected a version")),
                };
            }
            ".target" => {
                let line = self.line();
                self.tree.target = self.word()?;
                self.skip_rest_of(line);
            }
            ".address_size" => {
                if self.number()? != 64 {
                    return Err(self.error("only 64-bit addresses are known"));
                }
            }
            ".file" => self.file()?,
            ".loc" => self.skip_line(),
            ".section" => self.section()?,
            ".visible" | ".extern" | ".weak" | ".common" => {}
            ".entry" => self.function(true)?,
            ".func" => self.function(false)?,
            word @ (".global" | ".const" | ".shared") => {
                self.at -= 1;
                let extern_ = matches!(
                    self.at.checked_sub(1).map(|it| self.tokens[it].kind),
                    Some(Kind::Word(".extern"))
                );
                let mut variables = self.variables()?;
                if extern_ && word != ".shared" {
                    return Err(self.error("external variables are not known"));
                }
                self.tree.variables.append(&mut variables);
            }
            other => return Err(self.error(format!("unknown directive `{other}`"))),
        }
        Ok(())
    }

    fn skip_rest_of(&mut self, line: u32) {
        while self.tokens.get(self.at).is_some_and(|it| it.line == line) {
            self.at += 1;
        }
    }

    fn file(&mut self) -> Result<()> {
        let line = self.line();
        let number = self.number()?;
        let Kind::Text(name) = self.next()? else {
            return Err(self.error("expected the name of a file"));
        };
        self.tree.places.files.push((number, name));
        self.skip_rest_of(line);
        Ok(())
    }

    /// Debugging data: nothing we need.
    fn section(&mut self) -> Result<()> {
        self.word()?;
        self.expect('{')?;
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                Kind::Mark('{') => depth += 1,
                Kind::Mark('}') => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// `.space .align n .type name[count] = {..}, ..;`
    pub(super) fn variables(&mut self) -> Result<Vec<Variable<'a>>> {
        let mut found = vec![self.variable()?];
        while self.take(',') {
            let mut next = Variable { name: self.word()?, ..found[0].clone() };
            next.initial.clear();
            found.push(next);
        }
        self.expect(';')?;
        Ok(found)
    }

    /// One variable, from its space to its initial value.
    fn variable(&mut self) -> Result<Variable<'a>> {
        let space = match self.word()? {
            ".global" => Space::Global,
            ".const" => Space::Constant,
            ".shared" => Space::Shared,
            ".local" => Space::Local,
            ".param" => Space::Parameter,
            other => return Err(self.error(format!("unknown state space `{other}`"))),
        };
        let (mut align, mut element) = (0, 0);
        let name = loop {
            match self.word()? {
                ".align" => align = self.number()?,
                // Where a pointer parameter points: `.ptr .global .align 16`.
                ".ptr" => {
                    while matches!(self.peek(), Some(Kind::Word(".global" | ".shared" | ".const")))
                    {
                        self.at += 1;
                    }
                    if self.take_word(".align") {
                        self.number()?;
                    }
                }
                ".attribute" => return Err(self.error("attributes are not known")),
                name if !name.starts_with('.') => break name,
                word => {
                    element = bytes_of(word).ok_or_else(|| self.error(format!("type `{word}`")))?;
                }
            }
        };
        let (mut count, mut unsized_) = (1, false);
        while self.take('[') {
            if self.take(']') {
                unsized_ = true;
            } else {
                count *= self.number()?;
                self.expect(']')?;
            }
        }
        let mut initial = Vec::new();
        if self.take('=') {
            self.initial(element, &mut initial)?;
        }
        let bytes = if unsized_ { 0 } else { element * count };
        Ok(Variable { name, space, align: align.max(element), bytes, unsized_, initial })
    }

    fn initial(&mut self, element: u64, out: &mut Vec<u8>) -> Result<()> {
        if !self.take('{') {
            let value = self.number()?;
            out.extend(&value.to_le_bytes()[..element as usize]);
            return Ok(());
        }
        while !self.take('}') {
            self.initial(element, out)?;
            self.take(',');
        }
        Ok(())
    }

    /// From after `.entry` or `.func` to the end of the body.
    fn function(&mut self, is_kernel: bool) -> Result<()> {
        let mut function = Function { is_kernel, ..Function::default() };
        self.parameters(&mut function.variables)?;
        function.n_results = function.variables.len();
        function.name = self.word()?;
        self.parameters(&mut function.variables)?;
        function.n_parameters = function.variables.len() - function.n_results;
        loop {
            match self.next()? {
                Kind::Word(".maxntid" | ".reqntid") => function.max_threads = Some(self.triple()?),
                Kind::Word(".reqnctapercluster") => function.cluster = Some(self.triple()?),
                Kind::Word(".minnctapersm" | ".maxnctapersm" | ".maxnreg" | ".maxclusterrank") => {
                    self.number()?;
                }
                Kind::Word(".explicitcluster" | ".noreturn" | ".blocksareclusters") => {}
                Kind::Word(".pragma") => {
                    self.next()?;
                    self.expect(';')?;
                }
                Kind::Mark(';') => break,
                Kind::Mark('{') => {
                    Scope::function(self, &mut function)?;
                    break;
                }
                _ => {
                    self.at -= 1;
                    return Err(self.error("expected the body of a function"));
                }
            }
        }
        // Functions are often declared before they are defined.
        match self.tree.functions.iter_mut().find(|it| it.name == function.name) {
            Some(declared) => {
                if function.body.is_some() {
                    *declared = function;
                }
            }
            None => self.tree.functions.push(function),
        }
        Ok(())
    }

    fn parameters(&mut self, out: &mut Vec<Variable<'a>>) -> Result<()> {
        if !self.take('(') {
            return Ok(());
        }
        while !self.take(')') {
            out.push(self.variable()?);
            self.take(',');
        }
        Ok(())
    }

    /// A `.loc`: its index in the places of the tree.
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
        let lines = &mut self.tree.places.lines;
        lines.push((here, call));
        Ok(lines.len() as u32 - 1)
    }

    fn position(&mut self) -> Result<Position> {
        Ok((self.number()?, self.number()?, self.number()?))
    }
}

/// The size of a type.
pub(crate) fn bytes_of(type_: &str) -> Option<u64> {
    Some(match type_ {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        ".b128" => 16,
        _ => return None,
    })
}
