// What a header of kernel parameters may want of <stdbool.h>, for libclang without headers of its own.
#pragma once
#ifndef __cplusplus
#define bool _Bool
#define true 1
#define false 0
#endif
