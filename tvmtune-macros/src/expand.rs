//! From the tokens of an annotated function to the tokens that take its place.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ItemFn;
use tvmtune_ir::dag::{DType, Dag, Expr, print};
use tvmtune_ir::dsl::{self, Program};
use tvmtune_ir::workload;
use tvmtune_plan::contain::contained;
use tvmtune_plan::handoff::OpSource;

use crate::constants::{self, Resolved};
use crate::plan::Plan;
use crate::{emit, functions, plan, stub};

/// Expands `#[autotune(options)] item`. Errors become `compile_error!`.
///
/// Next to them goes a stub with the right name and arity, so that one mistake in a kernel does
/// not also break every call to it.
pub(crate) fn autotune(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut function = match dsl::function(item) {
        Ok(function) => function,
        Err(dsl::Unreadable { error, signature }) => {
            let errors = error.into_compile_error();
            let is_shallow = dsl::check_nesting(&options).is_ok();
            let readable = if is_shallow { options } else { TokenStream::new() };
            let stub = signature.map(|it| stub::stub(&readable, &it));
            return quote! { #errors #stub };
        }
    };
    if let Err(error) = dsl::check_nesting(&options) {
        let errors = error.into_compile_error();
        let stub = stub::stub(&TokenStream::new(), &function);
        return quote! { #errors #stub };
    }
    let called = functions::resolve(&mut function, &options);
    let Resolved { options, checks, is_unknown } = constants::resolve(&options, &function);
    let expansion = expansion(&options, &function).unwrap_or_else(|error| {
        let errors = (!is_unknown).then(|| error.into_compile_error());
        let stub = stub::stub(&options, &function);
        quote! { #errors #stub }
    });
    quote! { #expansion #checks #called }
}

fn expansion(options: &TokenStream, function: &ItemFn) -> syn::Result<TokenStream> {
    let instances = dsl::instances(options.clone(), function)?;
    let planned = dsl::for_each_instance(&instances, |it| planned(&it.options, &it.item))?;
    let emit = || match &planned[..] {
        [one] if instances[0].types.is_empty() => emit::kernel(one),
        all => emit::generic(function, &instances, all),
    };
    let text = || planned.iter().map(|it| print::canonical(&it.dag)).collect();
    at(function, text, emit)
}

/// A program, and what is generated from it.
pub(crate) struct Planned {
    pub(crate) program: Program,
    pub(crate) dag: Dag,
    /// The identity of the workload.
    pub(crate) id: String,
    pub(crate) plan: Plan,
}

/// Compiles a part of a function; a panic of the compiler is an error there.
fn at<T>(
    function: &ItemFn,
    text: impl FnOnce() -> String,
    compile: impl FnOnce() -> T,
) -> syn::Result<T> {
    let ident = &function.sig.ident;
    contained(&ident.to_string(), text, compile).map_err(|it| syn::Error::new(ident.span(), it))
}

fn planned(options: &TokenStream, function: &ItemFn) -> syn::Result<Planned> {
    let read = || {
        let program = dsl::parse(options.clone(), function)?;
        let dag = dsl::build(&program)?;
        Ok::<_, syn::Error>((program, dag))
    };
    let source = || quote!(#[autotune(#options)] #function).to_string();
    let (program, dag) = at(function, source, read)??;
    check_half(&program, &dag, cfg!(feature = "half"))?;
    check_dim_names(&program)?;
    let id = workload::id(&dag).to_string();
    let name = function.sig.ident.to_string();
    let item = ItemFn { attrs: Vec::new(), ..function.clone() }.to_token_stream().to_string();
    let source = OpSource { name, options: options.to_string(), item };
    let look_up = || plan::look_up(&id, source, &program, &dag);
    let plan = at(function, || print::canonical(&dag), look_up)??;
    Ok(Planned { program, dag, id, plan })
}

/// Checks that the runtime has the types of a program: those of the crate `half` are behind a feature.
fn check_half(program: &Program, dag: &Dag, is_enabled: bool) -> syn::Result<()> {
    let Some(dtype) = half_type(dag).filter(|_| !is_enabled) else { return Ok(()) };
    let message = format!(
        "`{}` is a type of the crate `half`; enable the feature `half` of `tvmtune-runtime`, as in \
         `cargo add tvmtune-runtime --features half`",
        dtype.name()
    );
    Err(syn::Error::new(program.ident.span(), message))
}

/// Returns a 16-bit float of which a program has elements, scalars or values in between.
fn half_type(dag: &Dag) -> Option<DType> {
    let tensors = dag.tensors.iter().map(|it| it.dtype);
    let mut dtypes: Vec<DType> = tensors.chain(dag.scalars.iter().map(|it| it.dtype)).collect();
    for compute in &dag.computes {
        compute.body.walk(&mut |it| match it {
            Expr::Const(_, dtype) | Expr::Cast(dtype, _) => dtypes.push(*dtype),
            _ => {}
        });
    }
    dtypes.into_iter().find(|it| matches!(it, DType::F16 | DType::Bf16))
}

/// Checks that dimensions differ when they are written as the fields of `Dims`.
fn check_dim_names(program: &Program) -> syn::Result<()> {
    for (n, dim) in program.dims.iter().enumerate() {
        let field = dim.ident.to_string().to_lowercase();
        let same = |other: &&dsl::DynamicDim| other.ident.to_string().to_lowercase() == field;
        if let Some(other) = program.dims[..n].iter().find(same) {
            let message = format!(
                "dimensions `{}` and `{}` would both be the field `{field}` of `Dims`; \
                 rename one of them",
                other.ident, dim.ident
            );
            return Err(syn::Error::new(dim.ident.span(), message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_without_half(body: &str, element: &str) -> Option<String> {
        let function =
            format!("fn f(x: Tensor<{element}, N>) -> Tensor<{element}, N> {{ {body} }}");
        let function: ItemFn = syn::parse_str(&function).unwrap();
        let program = dsl::parse(quote!(dims(N = 8)), &function).unwrap();
        let dag = dsl::build(&program).unwrap();
        assert!(check_half(&program, &dag, true).is_ok());
        check_half(&program, &dag, false).err().map(|it| it.to_string())
    }

    #[test]
    fn types_of_the_crate_half_need_its_feature() {
        let copy = "compute(|n| x[[n]])";
        assert_eq!(error_without_half(copy, "f32"), None);
        let missing = "`bf16` is a type of the crate `half`; enable the feature `half` of \
                       `tvmtune-runtime`, as in `cargo add tvmtune-runtime --features half`";
        assert_eq!(error_without_half(copy, "bf16").as_deref(), Some(missing));
        let between = "compute(|n| (x[[n]] as f16) as f32)";
        assert!(error_without_half(between, "f32").unwrap().starts_with("`f16` is a type"));
    }
}
