// The parameters of the kernel of paged_attention.cu. The compiler of the device reads this header, and
// libclang does for the bindings in Rust.
#pragma once

// The shared memory that a block may have on any device without being asked.
#define PAGED_ATTENTION_SHARED_BYTES (48 * 1024)

struct paged_attention_params {
  unsigned int pages;  // of the cache
  unsigned int slots;  // of the table, for a sequence
  float scale;         // of scores: mostly one by the square root of HEAD_DIM
};
