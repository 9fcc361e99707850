// Bindings of kernels/histogram.h, made by tvmtune; bdd215e1e8ee78f30fd2039d4ab8ca21e4c3795aaa85c97952c9dd3490d6e048
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
