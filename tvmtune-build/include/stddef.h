// The part of <stddef.h> that headers of kernel parameters need: the libclang of PyPI has no headers.
#pragma once
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#ifndef __cplusplus
typedef __WCHAR_TYPE__ wchar_t;
#endif
#define offsetof(type, member) __builtin_offsetof(type, member)
