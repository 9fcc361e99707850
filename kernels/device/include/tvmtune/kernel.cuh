// A check that hand-written kernels have the parameters that launches pass. All architectures.
#pragma once

#include "tvmtune/types.cuh"

namespace tvmtune {

// An input may be taken as `const T*` or as `T*`; everything else by the very type.
template <class Passed, class Taken> struct IsTaken { enum : bool { value = Same<Passed, Taken>::value }; };
template <class T> struct IsTaken<const T*, T*> { enum : bool { value = true }; };

template <class... T> struct List {};

template <class Passed, class Taken> struct AreTaken { enum : bool { value = false }; };
template <> struct AreTaken<List<>, List<>> { enum : bool { value = true }; };
template <class P, class... Ps, class T, class... Ts> struct AreTaken<List<P, Ps...>, List<T, Ts...>> {
  enum : bool { value = IsTaken<P, T>::value && AreTaken<List<Ps...>, List<Ts...>>::value };
};

// True if a kernel, as the type of its address, takes arguments of the types that are passed.
template <class Kernel, class... Passed> struct Takes { enum : bool { value = false }; };
template <class... Taken, class... Passed> struct Takes<void (*)(Taken...), Passed...> {
  enum : bool { value = AreTaken<List<Passed...>, List<Taken...>>::value };
};

} // namespace tvmtune
