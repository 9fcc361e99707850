//! The body of a function: nested scopes of registers, variables, labels and statements.

use std::collections::BTreeMap;

use super::lexer::Kind;
use super::parser::Parser;
use super::scope::{Name, Scope};
use super::tree::{Function, Operand, ParseError, Result, Statement};
use crate::registers::{Class, Slot};

/// The most registers of a class in a function: the compiler numbers each value of an unrolled loop, and
/// came to 75,665 once.
const MAX_REGISTERS: u64 = 1 << 18;

/// The body of one function, as far as it was read.
pub(super) struct Body<'a> {
    scope: Scope<'a>,
    /// The numbers of the open scopes, for labels.
    open: Vec<usize>,
    n_scopes: usize,
    labels: BTreeMap<(usize, &'a str), usize>,
    tables: BTreeMap<(usize, &'a str), Vec<&'a str>>,
    /// Operands that name labels: statement, operand, name, and the scopes it was seen in.
    pending: Vec<(usize, usize, &'a str, Vec<usize>)>,
    location: u32,
    /// The bytes that the next load uses, by a pragma.
    used: Option<u32>,
    statements: Vec<Statement<'a>>,
}

impl<'a> Body<'a> {
    /// Reads the body of a function, after its opening brace.
    pub(super) fn parse(parser: &mut Parser<'a>, function: &mut Function<'a>) -> Result<()> {
        let mut body = Body {
            scope: Scope::new(function.variables.iter().map(|it| it.name)),
            open: vec![0],
            n_scopes: 1,
            labels: BTreeMap::new(),
            tables: BTreeMap::new(),
            pending: Vec::new(),
            location: 0,
            used: None,
            statements: Vec::new(),
        };
        while !body.open.is_empty() {
            body.item(parser, function)?;
        }
        body.resolve(parser)?;
        function.body = Some(body.statements);
        Ok(())
    }

    fn item(&mut self, parser: &mut Parser<'a>, function: &mut Function<'a>) -> Result<()> {
        match parser.next()? {
            Kind::Mark('{') => {
                self.scope.open();
                self.open.push(self.n_scopes);
                self.n_scopes += 1;
            }
            Kind::Mark('}') => {
                self.scope.close();
                self.open.pop();
            }
            Kind::Mark(';') => {}
            Kind::Mark('@') => {
                let negated = parser.take('!');
                let name = parser.word()?;
                let Some(Name::Register(Class::Predicate, slot)) = self.scope.find(name) else {
                    return Err(parser.error(format!("no predicate `{name}`")));
                };
                self.statement(parser, Some((slot, negated)))?;
            }
            Kind::Word(".reg") => self.registers(parser, function)?,
            Kind::Word(".loc") => self.location = parser.location()?,
            Kind::Word(".pragma") => {
                if let Kind::Text(text) = parser.next()? {
                    self.used = used_bytes(text);
                }
                parser.expect(';')?;
            }
            Kind::Word(".shared" | ".local" | ".param" | ".const" | ".global") => {
                parser.at -= 1;
                for variable in parser.variables()? {
                    self.scope.declare(variable.name, Name::Variable(function.variables.len()));
                    function.variables.push(variable);
                }
            }
            Kind::Word(word) if parser.take(':') => self.label(parser, word)?,
            Kind::Word(word) if !word.starts_with('.') => {
                parser.at -= 1;
                self.statement(parser, None)?;
            }
            _ => {
                parser.at -= 1;
                return Err(parser.error("expected an instruction"));
            }
        }
        Ok(())
    }

    fn label(&mut self, parser: &mut Parser<'a>, name: &'a str) -> Result<()> {
        let scope = *self.open.last().expect("a scope is open");
        if parser.take_word(".branchtargets") {
            let mut targets = vec![parser.word()?];
            while parser.take(',') {
                targets.push(parser.word()?);
            }
            parser.expect(';')?;
            self.tables.insert((scope, name), targets);
        } else {
            self.labels.insert((scope, name), self.statements.len());
        }
        Ok(())
    }

    /// `.reg .b32 %r<74>, %x;`
    fn registers(&mut self, parser: &mut Parser<'a>, function: &mut Function<'a>) -> Result<()> {
        let class = match parser.word()? {
            ".pred" => Class::Predicate,
            ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" | ".b32" | ".u32" | ".s32" | ".f32"
            | ".f16x2" | ".bf16x2" => Class::Word,
            ".b64" | ".u64" | ".s64" | ".f64" => Class::Double,
            other => return Err(parser.error(format!("registers of type `{other}`"))),
        };
        loop {
            let name = parser.word()?;
            let count = match class {
                Class::Predicate => &mut function.n_predicates,
                Class::Word => &mut function.n_words,
                Class::Double => &mut function.n_doubles,
            };
            if parser.take('<') {
                let more = parser.number_up_to(MAX_REGISTERS)? as u32;
                parser.expect('>')?;
                self.scope.declare_range(name, class, *count, more);
                *count += more;
            } else {
                self.scope.declare(name, Name::Register(class, *count));
                *count += 1;
            }
            if u64::from(*count) > MAX_REGISTERS {
                return Err(parser.error(format!("more than {MAX_REGISTERS} registers")));
            }
            if !parser.take(',') {
                return parser.expect(';');
            }
        }
    }

    fn statement(&mut self, parser: &mut Parser<'a>, guard: Option<(Slot, bool)>) -> Result<()> {
        let line = parser.line();
        let opcode = parser.word()?;
        let mut operands = Vec::new();
        while !parser.take(';') {
            let operand = parser.operand(&self.scope)?;
            if let Operand::Symbol(name) = operand
                && matches!(opcode.split('.').next(), Some("bra" | "brx"))
            {
                self.pending.push((self.statements.len(), operands.len(), name, self.open.clone()));
            }
            operands.push(operand);
            if !parser.take(',') {
                parser.expect(';')?;
                break;
            }
        }
        let (location, used) = (self.location, self.used.take());
        self.statements.push(Statement { line, location, guard, opcode, operands, used });
        Ok(())
    }

    /// Puts statements for the names of labels.
    fn resolve(&mut self, parser: &Parser<'a>) -> Result<()> {
        for (statement, operand, name, scopes) in std::mem::take(&mut self.pending) {
            let find = |name: &'a str| {
                scopes.iter().rev().find_map(|scope| self.labels.get(&(*scope, name)).copied())
            };
            let table = scopes.iter().rev().find_map(|scope| self.tables.get(&(*scope, name)));
            let targets: Option<Vec<usize>> = match table {
                Some(names) => names.iter().map(|it| find(it)).collect(),
                None => find(name).map(|it| vec![it]),
            };
            let at = &mut self.statements[statement];
            let targets =
                targets.ok_or_else(|| ParseError::new(at.line, format!("no label `{name}`")))?;
            at.operands[operand] = Operand::Targets(targets);
        }
        if self.statements.is_empty() {
            return Err(parser.error("a function without instructions"));
        }
        Ok(())
    }
}

/// The bytes that `used_bytes_mask 4095` says are used.
fn used_bytes(pragma: &str) -> Option<u32> {
    let mask = pragma.strip_prefix("used_bytes_mask")?.trim();
    match mask.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => mask.parse().ok(),
    }
}
