//! Random programs in the language, from a grammar: text as somebody may write it.
//!
//! In: random numbers. Out: a [`Program`] that the language accepts, but for a few that show its limits.
//!
//! `dims` declares dimensions, `scope` has what an expression may mention, `float`, `integer` and
//! `condition` write expressions of a type, `reduction` reductions, `block` computes and groups of them
//! that belong together, and this file the function around them.

mod block;
mod condition;
mod dims;
mod float;
mod integer;
mod reduction;
mod scope;

use tvmtune_tuner::random::Random;

use crate::launch::Numbers;

use self::dims::Dims;
use self::scope::{Extent, Tensor};

/// Parts of text by which a construct of the language is known.
pub const CONSTRUCTS: &[&str] = &[
    "sum(",
    "prod(",
    "max(",
    "min(",
    "mean(",
    "any(",
    "all(",
    "argmax(",
    "argmin(",
    "argtop(",
    "scan(",
    "sum((",
    "..=i",
    ".get([",
    ".unwrap_or(",
    "if ",
    "else",
    " as f32",
    " as f64",
    " as i8",
    " as u8",
    " as i32",
    " as u32",
    " as i64",
    "Tensor<f16",
    "Tensor<bf16",
    "Tensor<f64",
    "Tensor<i8",
    "Tensor<u8",
    "Tensor<i32",
    "Tensor<u32",
    "Tensor<i64",
    "Tensor<bool",
    "Weight<",
    "InOut<",
    ") -> (",
    "buckets(",
    "types(W",
    "accum = f64",
    "cold(",
    "warm(",
    "tol(",
    ".clamp(",
    ".mul_add(",
    ".powi(",
    "tf32(",
    "exp(",
    "ln(",
    "sqrt(",
    "rsqrt(",
    "tanh(",
    "erf(",
    "sin(",
    "cos(",
    "abs(",
    "floor(",
    "ceil(",
    "round(",
    "round_ties_even(",
    "pow(",
    "powf(",
    "relu(",
    "gelu(",
    "gelu_tanh(",
    "silu(",
    "sigmoid(",
    "exp2(",
    "log2(",
    "exp_m1(",
    "ln_1p(",
    "recip(",
    "softplus(",
    "mish(",
    "hardswish(",
    "hardsigmoid(",
    "leaky_relu(",
    "atan(",
    "acos(",
    "sinh(",
    "acosh(",
    "log10(",
    "cbrt(",
    "trunc(",
    "signum(",
    "f32::INFINITY",
    "f32::MAX",
    "i32::MIN",
    "2147483647",
    " % ",
    " / ",
    " & ",
    " | ",
    " ^ ",
    " << ",
    " >> ",
    " == ",
    " != ",
    "&&",
    "||",
    "!(",
    "CAP",
    "let v",
    "let f",
];

/// A kind of programs, by the numbers whose results can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// Operations that are exact on small whole numbers, in any order: results are equal.
    Exact,
    /// Functions of fractions, all of them continuous: results are near one another.
    Smooth,
    /// Anything, of any numbers: code is compared with its own interpreter.
    Extreme,
}

impl Flavor {
    /// Returns the numbers that programs of this kind get.
    pub fn numbers(self) -> Numbers {
        match self {
            Self::Exact => Numbers::Whole,
            Self::Smooth => Numbers::Fractions,
            Self::Extreme => Numbers::Extremes,
        }
    }
}

/// A program as text.
#[derive(Clone, Debug)]
pub struct Program {
    /// The function with its attribute.
    pub text: String,
    /// Its kind.
    pub flavor: Flavor,
}

/// Writes a program.
pub fn program(random: &mut Random) -> Program {
    let flavor = match random.below(10) {
        0..=4 => Flavor::Exact,
        5..=7 => Flavor::Smooth,
        _ => Flavor::Extreme,
    };
    let text = Writer::new(flavor, random).function();
    Program { text, flavor }
}

/// The state of writing one program.
struct Writer<'a> {
    flavor: Flavor,
    random: &'a mut Random,
    dims: Dims,
    /// Parameters, then what was computed, as far as that is written.
    tensors: Vec<Tensor>,
    /// Run-time scalars: name and type.
    scalars: Vec<(String, &'static str)>,
    /// The list of types that `W` stands for, if there is one.
    types: Option<&'static str>,
    /// Statements of the body.
    body: Vec<String>,
    n_names: usize,
}

impl<'a> Writer<'a> {
    fn new(flavor: Flavor, random: &'a mut Random) -> Self {
        let dims = Dims::new(random);
        let (tensors, scalars, body) = (Vec::new(), Vec::new(), Vec::new());
        Self { flavor, random, dims, tensors, scalars, types: None, body, n_names: 0 }
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.random.chance(probability)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len())]
    }

    /// A name that is not in use.
    fn name(&mut self, first: &str) -> String {
        self.n_names += 1;
        format!("{first}{}", self.n_names)
    }

    /// Writes the function.
    fn function(mut self) -> String {
        if self.chance(0.12) {
            self.types = Some(self.random_types());
        }
        self.params();
        for _ in 0..self.random.below(3) {
            let scalar = (self.name("s"), self.pick(&["f32", "f32", "i32", "f64", "i64"]));
            self.scalars.push(scalar);
        }
        let n_blocks = 1 + self.random.below(4);
        for _ in 0..n_blocks {
            self.block();
        }
        let replaced = self.replacements();
        let results = self.results(replaced);
        self.finish(&results)
    }

    fn random_types(&mut self) -> &'static str {
        self.pick(&["[f32, bf16]", "[f16, i8]", "[f32, i8, u8]", "[bf16, f64]", "[i32, f32]"])
    }

    /// Parameters: between them they have every dynamic dimension.
    fn params(&mut self) {
        let n_params = 1 + self.random.below(4);
        let mut missing: Vec<Extent> = self.dims.dynamic();
        for n in 0..n_params.max(missing.len().div_ceil(2)) {
            let mut shape: Vec<Extent> = missing.drain(..missing.len().min(2)).collect();
            while shape.len() < 3 && (shape.is_empty() || self.chance(0.45)) {
                shape.push(self.dims.any(self.random));
            }
            if self.chance(0.3) {
                shape.reverse();
            }
            let shape: Vec<Extent> =
                shape.into_iter().map(|it| self.dims.with_room(it, self.random)).collect();
            let is_fixed = shape.iter().all(|it| self.dims.fixed(it).is_some());
            let kind = match self.random.below(10) {
                0..=3 if is_fixed => "Weight",
                4..=5 if n > 0 => "InOut",
                _ => "Tensor",
            };
            let takes_types = self.types.is_some() && kind != "InOut";
            let dtype =
                if takes_types && (n == 0 || self.chance(0.3)) { "W" } else { self.dtype() };
            let name = self.name("x");
            self.tensors.push(Tensor { name, dtype, shape, kind, is_read: false });
        }
    }

    /// The type of a tensor's elements.
    fn dtype(&mut self) -> &'static str {
        match self.flavor {
            Flavor::Smooth => self.pick(&["f32", "f32", "f32", "f32", "f16", "bf16", "f64", "i8"]),
            _ => self.pick(&[
                "f32", "f32", "f32", "f32", "f16", "bf16", "i32", "i32", "i8", "u8", "u32", "i64",
                "f64", "bool",
            ]),
        }
    }

    /// Assigns each `InOut` parameter; returns how many there are.
    fn replacements(&mut self) -> usize {
        let places: Vec<usize> =
            (0..self.tensors.len()).filter(|at| self.tensors[*at].kind == "InOut").collect();
        for at in &places {
            self.replace(*at);
        }
        places.len()
    }

    /// The tensors that the function returns: at least one, where it replaces nothing.
    fn results(&mut self, n_replaced: usize) -> Vec<Tensor> {
        let computed: Vec<Tensor> =
            self.tensors.iter().filter(|it| it.kind == "let").cloned().collect();
        let unread = computed.iter().filter(|it| !it.is_read).cloned();
        let mut results: Vec<Tensor> = unread.rev().take(4).collect();
        let wants_more = match (results.is_empty(), n_replaced) {
            (true, 0) => true,
            (true, _) => self.chance(0.5),
            (false, _) => self.chance(0.15),
        };
        if wants_more
            && let Some(more) = computed.last()
            && !results.iter().any(|it| it.name == more.name)
        {
            results.push(more.clone());
        }
        results
    }

    fn finish(mut self, results: &[Tensor]) -> String {
        let params: Vec<String> = self.parameters();
        let ty = |it: &Tensor| format!("Tensor<{}{}>", it.dtype, self.shape_text(&it.shape));
        let types: Vec<String> = results.iter().map(ty).collect();
        let names: Vec<&str> = results.iter().map(|it| it.name.as_str()).collect();
        let (output, last) = match (types.as_slice(), names.as_slice()) {
            ([], _) => (String::new(), String::new()),
            ([ty], [name]) => (format!(" -> {ty}"), format!("    {name}\n")),
            _ => (format!(" -> ({})", types.join(", ")), format!("    ({})\n", names.join(", "))),
        };
        let body: String = self.body.iter().map(|it| format!("    {it}\n")).collect();
        let function = format!("fn f({}){output} {{\n{body}{last}}}", params.join(", "));
        let attribute = self.attribute(&function);
        format!("#[autotune({attribute})]\n{function}\n")
    }

    fn parameters(&self) -> Vec<String> {
        let tensors = self.tensors.iter().filter(|it| it.kind != "let");
        let tensors = tensors.map(|it| {
            let shape = self.shape_text(&it.shape);
            format!("{}: {}<{}{shape}>", it.name, it.kind, it.dtype)
        });
        let scalars = self.scalars.iter().map(|(name, dtype)| format!("{name}: {dtype}"));
        tensors.chain(scalars).collect()
    }

    /// The extents in a tensor's type, each after a comma.
    fn shape_text(&self, shape: &[Extent]) -> String {
        shape.iter().map(|it| format!(", {}", self.dims.text(it))).collect()
    }

    fn attribute(&mut self, function: &str) -> String {
        let mut parts = self.dims.declared(function);
        parts.extend(self.dims.buckets(function, self.random));
        parts.extend(self.types.map(|it| format!("types(W in {it})")));
        if self.chance(0.08) {
            parts.push("accum = f64".to_owned());
        }
        if self.chance(0.1) {
            parts.push("tol(rel = 1e-3, abs = 1e-3)".to_owned());
        }
        if self.chance(0.1) {
            let kind = self.pick(&["cold", "warm"]);
            let params: Vec<&Tensor> = self.tensors.iter().filter(|it| it.kind != "let").collect();
            let name = params[self.random.below(params.len())].name.clone();
            parts.push(format!("{kind}({name})"));
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::dsl;

    use super::*;

    #[test]
    fn most_programs_are_accepted_and_have_what_the_language_has() {
        // The rarest constructs are in one of 400 programs: 4,000 have each about ten times.
        let (mut n_accepted, n) = (0, 4_000);
        let mut all = String::new();
        let mut refusals = Vec::new();
        for seed in 0..n {
            let program = program(&mut Random::new(seed));
            let function: syn::ItemFn = syn::parse_str(&program.text).expect(&program.text);
            let options = dsl::attribute(&function).unwrap().unwrap_or_default();
            let instances = dsl::instances(options, &function);
            let read = instances.and_then(|it| {
                dsl::for_each_instance(&it, |it| dsl::parse(it.options.clone(), &it.item))
            });
            match read {
                Ok(_) => n_accepted += 1,
                Err(error) => refusals.push(format!("{error}\n{}", program.text)),
            }
            all.push_str(&program.text);
        }
        let shown = refusals.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
        assert!(n_accepted * 10 > n * 9, "only {n_accepted} of {n} accepted:\n{shown}");
        for construct in CONSTRUCTS {
            assert!(all.contains(construct), "no program has `{construct}`");
        }
    }
}
