// The parameters of the kernels of histogram.cu. The compiler of the device reads this header, and libclang
// does for the bindings in Rust.
#pragma once

// The shared memory that a block may have on any device without being asked.
#define HISTOGRAM_SHARED_BYTES (48 * 1024)

struct histogram_params {
  unsigned int n;  // values
  float lo;        // where the first bin begins
  float scale;     // bins in a unit
};
