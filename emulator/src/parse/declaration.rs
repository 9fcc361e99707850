//! Declarations of variables, in modules and in functions.

use super::lexer::Kind;
use super::parser::Parser;
use super::tree::{Result, Space, Variable};

/// The most bytes of a variable, and of all in one state space of a kernel.
pub(crate) const MAX_BYTES: u64 = 1 << 26;
/// The largest alignment: that of a tensor map is 64.
const MAX_ALIGNMENT: u64 = 1 << 12;

impl<'a> Parser<'a> {
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
    pub(super) fn variable(&mut self) -> Result<Variable<'a>> {
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
                ".align" => align = self.alignment()?,
                // The space and alignment of a pointer's target: `.ptr .global .align 16`.
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
                count = self.number()?.saturating_mul(count);
                self.expect(']')?;
            }
        }
        let mut initial = Vec::new();
        if self.take('=') {
            self.initial(element, &mut initial)?;
        }
        let bytes = if unsized_ { 0 } else { count.saturating_mul(element) };
        if bytes > MAX_BYTES {
            return Err(self.error(format!("a variable of more than {MAX_BYTES} bytes")));
        }
        Ok(Variable { name, space, align: align.max(element), bytes, unsized_, initial })
    }

    /// Reads an initial value: a number, or nested lists of them.
    fn initial(&mut self, element: u64, out: &mut Vec<u8>) -> Result<()> {
        if !self.take('{') {
            let value = self.number()?;
            let wide = u128::from(value).to_le_bytes();
            out.extend(&wide[..element as usize]);
            return Ok(());
        }
        self.nested(|it| {
            while !it.take('}') {
                it.initial(element, out)?;
                it.take(',');
            }
            Ok(())
        })
    }

    /// A power of two.
    fn alignment(&mut self) -> Result<u64> {
        match self.number()? {
            align if align.is_power_of_two() && align <= MAX_ALIGNMENT => Ok(align),
            align => Err(self.error(format!("an alignment of {align}"))),
        }
    }
}

/// Returns the size of a type.
fn bytes_of(type_: &str) -> Option<u64> {
    Some(match type_ {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        ".b128" => 16,
        _ => return None,
    })
}
