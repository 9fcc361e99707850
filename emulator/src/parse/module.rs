//! The outer level of a module: directives, variables, and the heads of functions.

use super::body::Body;
use super::lexer::{Kind, tokens};
use super::parser::Parser;
use super::tree::{Function, Result, Tree, Variable};

/// Parses a whole module.
pub(crate) fn parse(text: &str) -> Result<Tree<'_>> {
    let mut parser = Parser::new(tokens(text)?);
    parser.tree.line_table.lines.push(((0, 0, 0), None));
    while parser.peek().is_some() {
        parser.item()?;
    }
    Ok(parser.tree)
}

impl<'a> Parser<'a> {
    /// Numbers separated by commas: as many as there are, up to three, ones for the rest.
    fn triple(&mut self) -> Result<[u32; 3]> {
        let mut found = [1; 3];
        for (n, to) in found.iter_mut().enumerate() {
            if n > 0 && !self.take(',') {
                break;
            }
            *to = self.word_sized()?;
        }
        Ok(found)
    }

    /// A number of 32 bits.
    fn word_sized(&mut self) -> Result<u32> {
        u32::try_from(self.number()?).map_err(|_| self.error("a number too large"))
    }

    fn item(&mut self) -> Result<()> {
        match self.word()? {
            ".version" => {
                let Kind::Text(_) = self.next()? else {
                    return Err(self.error("expected a version"));
                };
            }
            ".target" => {
                let line = self.line();
                self.word()?;
                self.skip_rest_of(line);
            }
            ".address_size" => {
                if self.number()? != 64 {
                    return Err(self.error("only 64-bit addresses are known"));
                }
            }
            ".file" => self.file()?,
            ".loc" => self.skip_rest_of(self.line()),
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

    fn file(&mut self) -> Result<()> {
        let line = self.line();
        let number = self.number()?;
        let Kind::Text(name) = self.next()? else {
            return Err(self.error("expected the name of a file"));
        };
        self.tree.line_table.files.push((number, name));
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
                Kind::Word(".minnctapersm") => function.min_ctas = Some(self.word_sized()?),
                Kind::Word(".maxnreg") => function.max_registers = Some(self.word_sized()?),
                Kind::Word(".maxnctapersm" | ".maxclusterrank") => {
                    self.number()?;
                }
                Kind::Word(".explicitcluster" | ".noreturn" | ".blocksareclusters") => {}
                Kind::Word(".pragma") => {
                    self.next()?;
                    self.expect(';')?;
                }
                Kind::Mark(';') => break,
                Kind::Mark('{') => {
                    Body::parse(self, &mut function)?;
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
}
