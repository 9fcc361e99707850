// Bindings of kernels/histogram.h, made by tvmtune; e27607dd7d88f6e07f05b62c8c3125cd1309f8954c73a3cf3eaa41b6afe51fcd
pub const HISTOGRAM_SHARED_BYTES: u32 = 49152;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct histogram_params {
    pub n: ::core::ffi::c_uint,
    pub lo: f32,
    pub scale: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of histogram_params"][::core::mem::size_of::<histogram_params>() - 12usize];
    [
        "Alignment of histogram_params",
    ][::core::mem::align_of::<histogram_params>() - 4usize];
    [
        "Offset of field: histogram_params::n",
    ][::core::mem::offset_of!(histogram_params, n) - 0usize];
    [
        "Offset of field: histogram_params::lo",
    ][::core::mem::offset_of!(histogram_params, lo) - 4usize];
    [
        "Offset of field: histogram_params::scale",
    ][::core::mem::offset_of!(histogram_params, scale) - 8usize];
};
