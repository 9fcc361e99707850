//! The arguments of candidates in the memory of a GPU.
//!
//! # Invariants
//!
//! - A candidate whose results count gets parameters as they were drawn, even if the one before it
//!   overwrote them, and poisoned results.

use tvmtune_ir::interp::Array;
use tvmtune_runtime::Error;
use tvmtune_runtime::cuda::{Buffer, Device, Stream};

use super::super::super::protocol::{Case, OutputSpec, Word};
use super::super::param::Packing;
use super::super::{WorkerError, invalid};

/// The poison that fills results before a launch: neither zeros nor the results of the last candidate
/// pass for elements that were not computed.
const POISON: u8 = 0xff;

/// The arguments of one case.
pub(super) struct Arguments {
    case: Case,
    /// Parameters in host memory, created when first needed.
    params: Vec<Option<Array>>,
    /// Parameters as they were drawn, in each layout of the present candidates.
    drawn: Vec<(Word, Buffer)>,
    /// Copies of the arguments that candidates are launched on.
    sets: Vec<Vec<(Word, Buffer)>>,
}

impl Arguments {
    pub(super) fn new(case: &Case) -> Self {
        let params = vec![None; case.params.len()];
        Self { case: case.clone(), params, drawn: Vec::new(), sets: Vec::new() }
    }

    /// Returns the size of these arguments in bytes, without the padding of packing.
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

    /// Provides `n_sets` copies of these arguments, and of no others; fewer if memory is short.
    /// Returns their number.
    pub(super) fn provide(
        &mut self,
        device: &Device,
        words: &[Word],
        n_sets: usize,
    ) -> Result<usize, WorkerError> {
        self.drawn.retain(|(it, _)| words.contains(it));
        for set in &mut self.sets {
            set.retain(|(it, _)| words.contains(it));
        }
        for word in words {
            if !matches!(word, Word::Output(_)) && find(&self.drawn, word).is_none() {
                let buffer = Buffer::of(device, &self.bytes(word)?)?;
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
                Err(other) => return Err(other.into()),
            }
        }
        Ok(n_sets)
    }

    /// Adds the missing arguments to a copy.
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
                    Buffer::new(device, n_bytes as usize, POISON)?
                }
                (_, Some(drawn)) => drawn.copy(device)?,
                (_, None) => continue,
            };
            self.sets[n].push((word.clone(), buffer));
        }
        Ok(())
    }

    /// Returns the bytes of a parameter in a layout.
    fn bytes(&mut self, word: &Word) -> Result<Vec<u8>, WorkerError> {
        let (n, layout) = match word {
            Word::Param(n) => (*n, None),
            Word::Packed(n, layout) => (*n, Some(layout)),
            _ => return Err(invalid("no parameter").into()),
        };
        let spec = self.case.params.get(n).ok_or_else(|| invalid("no such parameter"))?;
        let bytes = self.params[n].get_or_insert_with(|| spec.array()).bytes();
        let Some(layout) = layout else { return Ok(bytes) };
        let packing = Packing::new(spec, layout)?;
        let mut packed = vec![0; packing.n_bytes()];
        packing.pack(&bytes, &mut packed);
        Ok(packed)
    }

    /// Restores the parameters that results replaced, of all copies.
    pub(super) fn restore_replaced(&self, stream: &Stream) -> Result<(), WorkerError> {
        for (word, drawn) in &self.drawn {
            if !matches!(word, Word::Param(n) if self.case.is_replaced(*n)) {
                continue;
            }
            for set in &self.sets {
                find(set, word).map_or(Ok(()), |it| it.copy_from(drawn, stream))?;
            }
        }
        Ok(())
    }

    /// Restores the parameters of the first copy, and poisons its results.
    pub(super) fn restore(&self, stream: &Stream) -> Result<(), WorkerError> {
        for (word, buffer) in self.sets.first().into_iter().flatten() {
            let restored = match find(&self.drawn, word) {
                Some(drawn) => buffer.copy_from(drawn, stream),
                None => buffer.fill(POISON),
            };
            restored?;
        }
        Ok(())
    }

    /// Returns a copy of these arguments; of parameters that launches find in a cache, always the first.
    pub(super) fn set(&self, n: usize, words: &[Word]) -> Result<Vec<&Buffer>, WorkerError> {
        let is_warm = |word: &Word| match word {
            Word::Param(n) | Word::Packed(n, _) => {
                self.case.params.get(*n).is_some_and(|it| !it.cold)
            }
            Word::Output(_) | Word::Shared(_) | Word::Value(_) => false,
        };
        let buffer = |word: &Word| {
            let set = self.sets.get(if is_warm(word) { 0 } else { n });
            let set = set.ok_or_else(|| invalid("no such copy"))?;
            find(set, word).ok_or_else(|| invalid("no such argument").into())
        };
        words.iter().map(buffer).collect()
    }

    /// Reads the results of the first copy, after all launches.
    pub(super) fn results(&self) -> Result<Vec<Vec<u8>>, Error> {
        let set = self.sets.first().map_or(&[][..], Vec::as_slice);
        let result = |(n, it): (usize, &OutputSpec)| {
            let word = it.replaces.map_or(Word::Output(n), Word::Param);
            find(set, &word).map_or(Ok(Vec::new()), Buffer::read)
        };
        self.case.outputs.iter().enumerate().map(result).collect()
    }
}

/// Finds the buffer of a word.
fn find<'a>(among: &'a [(Word, Buffer)], word: &Word) -> Option<&'a Buffer> {
    among.iter().find(|(it, _)| it == word).map(|it| &it.1)
}
