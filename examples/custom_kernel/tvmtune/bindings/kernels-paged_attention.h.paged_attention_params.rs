// Bindings of kernels/paged_attention.h, made by tvmtune; 830e854a86adfc05bb7f044551c71f0bffd7bd444178c044a73bb1ac5285e295
pub const PAGED_ATTENTION_SHARED_BYTES: u32 = 49152;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct paged_attention_params {
    pub pages: ::core::ffi::c_uint,
    pub slots: ::core::ffi::c_uint,
    pub scale: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of paged_attention_params",
    ][::core::mem::size_of::<paged_attention_params>() - 12usize];
    [
        "Alignment of paged_attention_params",
    ][::core::mem::align_of::<paged_attention_params>() - 4usize];
    [
        "Offset of field: paged_attention_params::pages",
    ][::core::mem::offset_of!(paged_attention_params, pages) - 0usize];
    [
        "Offset of field: paged_attention_params::slots",
    ][::core::mem::offset_of!(paged_attention_params, slots) - 4usize];
    [
        "Offset of field: paged_attention_params::scale",
    ][::core::mem::offset_of!(paged_attention_params, scale) - 8usize];
};
