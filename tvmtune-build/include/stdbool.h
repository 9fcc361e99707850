// The part of <stdbool.h> that headers of kernel parameters need: the libclang of PyPI has no headers.
#pragma once
#ifndef __cplusplus
#define bool _Bool
#define true 1
#define false 0
#endif
