// What the kernels of histogram.cu are told at a launch. Read by the compiler of the device, and for the
// bindings in Rust by that of C.
#pragma once

// The shared memory that a block may have on any device without being asked.
#define HISTOGRAM_SHARED_BYTES (48 * 1024)

struct histogram_params {
  unsigned int n;  // values
  float lo;        // where the first bin begins
  float scale;     // bins in a unit
};
