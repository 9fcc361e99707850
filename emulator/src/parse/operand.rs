//! Operands: registers, numbers, addresses, vectors.

use super::lexer::Kind;
use super::parser::Parser;
use super::scope::{Name, Scope};
use super::tree::{LaneMask, Operand, Result, Special};

impl<'a> Parser<'a> {
    /// One operand, with what follows a `|`.
    pub(super) fn operand(&mut self, scope: &Scope<'a>) -> Result<Operand<'a>> {
        self.nested(|it| it.operand_inside(scope))
    }

    fn operand_inside(&mut self, scope: &Scope<'a>) -> Result<Operand<'a>> {
        let first = self.simple(scope)?;
        if self.take('|') {
            let second = self.simple(scope)?;
            return Ok(Operand::Both(Box::new((first, second))));
        }
        Ok(first)
    }

    fn simple(&mut self, scope: &Scope<'a>) -> Result<Operand<'a>> {
        match self.next()? {
            Kind::Mark('{') => Ok(Operand::Vector(self.sequence(scope, '}')?)),
            Kind::Mark('(') => Ok(Operand::List(self.sequence(scope, ')')?)),
            Kind::Mark('[') => self.nested(|it| it.address(scope)),
            Kind::Mark('!') => {
                let name = self.word()?;
                match scope.find(name) {
                    Some(Name::Register(crate::registers::Class::Predicate, slot)) => {
                        Ok(Operand::Not(slot))
                    }
                    _ => Err(self.error(format!("no predicate `{name}`"))),
                }
            }
            Kind::Mark('-') => Ok(Operand::Number(match self.next()? {
                Kind::Number(value) => value.wrapping_neg(),
                _ => return Err(self.error("expected a number")),
            })),
            Kind::Number(value) => Ok(Operand::Number(value)),
            Kind::Word("_") => Ok(Operand::Sink),
            Kind::Word(name) => self.name(scope, name),
            _ => {
                self.at -= 1;
                Err(self.error("expected an operand"))
            }
        }
    }

    fn sequence(&mut self, scope: &Scope<'a>, end: char) -> Result<Vec<Operand<'a>>> {
        let mut found = Vec::new();
        while !self.take(end) {
            found.push(self.operand(scope)?);
            if !self.take(',') {
                self.expect(end)?;
                break;
            }
        }
        Ok(found)
    }

    /// After the bracket: `base`, `base + offset`, `number`, `base, {x, y}`.
    fn address(&mut self, scope: &Scope<'a>) -> Result<Operand<'a>> {
        let base = self.simple(scope)?;
        let mut offset = 0;
        if self.take('+') || self.peek() == Some(Kind::Mark('-')) {
            offset = self.number()? as i64;
        }
        let mut coordinates = Vec::new();
        if self.take(',') {
            match self.simple(scope)? {
                Operand::Vector(found) => coordinates = found,
                _ => return Err(self.error("expected coordinates")),
            }
        }
        self.expect(']')?;
        Ok(Operand::Address(Box::new(base), offset, coordinates))
    }

    fn name(&mut self, scope: &Scope<'a>, name: &'a str) -> Result<Operand<'a>> {
        Ok(match scope.find(name) {
            Some(Name::Register(class, slot)) => Operand::Register(class, slot),
            Some(Name::Variable(n)) => Operand::Variable(n),
            None if name.starts_with('%') => Operand::Special(
                special(name).ok_or_else(|| self.error(format!("unknown register `{name}`")))?,
            ),
            None => Operand::Symbol(name),
        })
    }
}

fn special(name: &str) -> Option<Special> {
    let (base, dimension) = name.rsplit_once('.').unwrap_or((name, "x"));
    let dimension = ["x", "y", "z"].iter().position(|it| *it == dimension)?;
    Some(match base {
        "%tid" => Special::Thread(dimension),
        "%ntid" => Special::Threads(dimension),
        "%ctaid" => Special::Cta(dimension),
        "%nctaid" => Special::Ctas(dimension),
        "%clusterid" => Special::Cluster(dimension),
        "%nclusterid" => Special::Clusters(dimension),
        "%cluster_ctaid" => Special::CtaInCluster(dimension),
        "%cluster_nctaid" => Special::CtasInCluster(dimension),
        "%cluster_ctarank" => Special::RankInCluster,
        "%cluster_nctarank" => Special::SizeOfCluster,
        "%is_explicit_cluster" => Special::IsExplicitCluster,
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::Warps,
        "%smid" => Special::Processor,
        "%nsmid" => Special::Processors,
        "%gridid" => Special::Grid,
        "%lanemask_eq" => Special::LaneMask(LaneMask::Equal),
        "%lanemask_lt" => Special::LaneMask(LaneMask::Less),
        "%lanemask_le" => Special::LaneMask(LaneMask::LessEqual),
        "%lanemask_gt" => Special::LaneMask(LaneMask::Greater),
        "%lanemask_ge" => Special::LaneMask(LaneMask::GreaterEqual),
        "%dynamic_smem_size" => Special::DynamicSharedBytes,
        "%total_smem_size" => Special::TotalSharedBytes,
        "%clock" | "%clock64" | "%clock_hi" | "%globaltimer" | "%globaltimer_lo" => Special::Clock,
        _ => return None,
    })
}
