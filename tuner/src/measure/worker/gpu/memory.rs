//! The memory of a GPU that candidates work on.
//!
//! # Invariants
//!
//! - A candidate whose results count gets parameters as they were drawn, whatever the one before it
//!   wrote there, and results that hold what no candidate computes.

use tvmtune_ir::interp::Array;
use tvmtune_runtime::Error;
use tvmtune_runtime::cuda::{Buffer, Device, Stream};

use super::super::super::protocol::{Case, Word};
use super::super::param::Packing;
use super::super::{Trouble, invalid};
use super::trouble;

/// Results are full of this before a launch: neither zeros nor the last candidate's results pass for
/// what was not computed.
const SPOILED: u8 = 0xff;

/// The arguments of one case.
pub(super) struct Arguments {
    case: Case,
    /// Parameters in host memory, once they were needed.
    params: Vec<Option<Array>>,
    /// Parameters as they were drawn, in each layout that candidates of now ask for.
    drawn: Vec<(Word, Buffer)>,
    /// What candidates are launched on: parameters and results, each with a copy of its own.
    sets: Vec<Vec<(Word, Buffer)>>,
}

impl Arguments {
    pub(super) fn new(case: &Case) -> Self {
        let params = vec![None; case.params.len()];
        Self { case: case.clone(), params, drawn: Vec::new(), sets: Vec::new() }
    }

    /// How many bytes these arguments have together; about, as packing may add some.
    pub(super) fn n_bytes(&self, words: &[Word]) -> usize {
        let mut n_bytes = 0;
        for (n, word) in words.iter().enumerate() {
            if !words[..n].contains(word) {
                n_bytes += match word {
                    Word::Param(n) | Word::Packed(n, _) => self
                        .case
                        .params
                        .get(*n)
                        .map_or(0, |it| it.shape.iter().product::<u64>() * it.dtype.bytes()),
                    Word::Output(n) => self.case.outputs.get(*n).map_or(0, |it| it.bytes()),
                    Word::Shared(_) | Word::Value(_) => 0,
                } as usize;
            }
        }
        n_bytes
    }

    /// Makes sure that there are so many copies of these arguments, and of no others; on a GPU that
    /// is nearly full, fewer. Gives how many there are.
    pub(super) fn provide(
        &mut self,
        device: &Device,
        words: &[Word],
        n_sets: usize,
    ) -> Result<usize, Trouble> {
        self.drawn.retain(|(it, _)| words.contains(it));
        for set in &mut self.sets {
            set.retain(|(it, _)| words.contains(it));
        }
        for word in words {
            if !matches!(word, Word::Output(_)) && find(&self.drawn, word).is_none() {
                let buffer = Buffer::of(device, &self.bytes(word)?).map_err(trouble)?;
                self.drawn.push((word.clone(), buffer));
            }
        }
        for n in 0..n_sets {
            match self.complete(device, words, n) {
                Ok(()) => {}
                Err(Error::Cuda { reason: "CUDA_ERROR_OUT_OF_MEMORY", .. }) if n > 0 => {
                    self.sets.truncate(n);
                    return Ok(n);
                }
                Err(other) => return Err(trouble(other)),
            }
        }
        Ok(n_sets)
    }

    /// Adds to a copy of the arguments what it lacks.
    fn complete(&mut self, device: &Device, words: &[Word], n: usize) -> Result<(), Error> {
        if self.sets.len() == n {
            self.sets.push(Vec::new());
        }
        for word in words {
            if find(&self.sets[n], word).is_some() {
                continue;
            }
            let buffer = match (word, find(&self.drawn, word)) {
                (Word::Output(output), _) => {
                    let n_bytes = self.case.outputs.get(*output).map_or(0, |it| it.bytes());
                    Buffer::new(device, n_bytes as usize, SPOILED)?
                }
                (_, Some(drawn)) => drawn.copy(device)?,
                (_, None) => continue,
            };
            self.sets[n].push((word.clone(), buffer));
        }
        Ok(())
    }

    /// The bytes of a parameter, in the order it is asked for.
    fn bytes(&mut self, word: &Word) -> Result<Vec<u8>, Trouble> {
        let (n, layout) = match word {
            Word::Param(n) => (*n, None),
            Word::Packed(n, layout) => (*n, Some(layout)),
            _ => return Err(invalid("no parameter").into()),
        };
        let spec = self.case.params.get(n).ok_or_else(|| invalid("no such parameter"))?;
        let bytes = self.params[n].get_or_insert_with(|| spec.array()).bytes();
        let Some(layout) = layout else { return Ok(bytes) };
        let packing = Packing::of(spec, layout)?;
        let mut packed = vec![0; packing.n_bytes()];
        packing.pack(&bytes, &mut packed);
        Ok(packed)
    }

    /// Brings the first copy into the state that candidates are promised.
    pub(super) fn restore(&self, stream: &Stream) -> Result<(), Trouble> {
        for (word, buffer) in self.sets.first().into_iter().flatten() {
            let restored = match find(&self.drawn, word) {
                Some(drawn) => buffer.copy_from(drawn, stream),
                None => buffer.fill(SPOILED),
            };
            restored.map_err(trouble)?;
        }
        Ok(())
    }

    /// One copy of these arguments.
    pub(super) fn set(&self, n: usize, words: &[Word]) -> Result<Vec<&Buffer>, Trouble> {
        let set = self.sets.get(n).ok_or_else(|| invalid("no such copy"))?;
        let buffer = |it| find(set, it).ok_or_else(|| invalid("no such argument").into());
        words.iter().map(buffer).collect()
    }

    /// What the results of the first copy hold, when all launches are over.
    pub(super) fn results(&self) -> Result<Vec<Vec<u8>>, Error> {
        let set = self.sets.first().map_or(&[][..], Vec::as_slice);
        let result = |n| find(set, &Word::Output(n)).map_or(Ok(Vec::new()), Buffer::read);
        (0..self.case.outputs.len()).map(result).collect()
    }
}

fn find<'a>(among: &'a [(Word, Buffer)], word: &Word) -> Option<&'a Buffer> {
    among.iter().find(|(it, _)| it == word).map(|it| &it.1)
}
