//! The bindings of a header as an application uses them.

/// The header of the histogram, in Rust.
mod header {
    #![expect(
        unreachable_pub,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "the bindings are as `bindgen` writes them, and public wherever they are included"
    )]

    include!("../tvmtune/bindings/kernels-histogram.h.histogram_params.rs");
}

#[test]
fn constants_and_structs_of_a_header_are_there_in_rust() {
    assert_eq!(header::HISTOGRAM_SHARED_BYTES, 48 * 1024);
    let params = header::histogram_params { n: 3, lo: -1.0, scale: 128.0 };
    assert_eq!((params.n, params.lo, params.scale), (3, -1.0, 128.0));
}
