#pragma once

#include <type_traits>

// Ends of files that compile a table of functions, `template <class T> Fns<T> fns()`, for every instruction set. They
// are macros because Highway exports functions by their name, in the scope of the file.

// Inside HWY_NAMESPACE, after fns(): names for the tables of f32 and f64 to be exported by.
// NOLINTBEGIN(bugprone-macro-parentheses): the argument is the name of a template
#define STARLING_NAME_FNS(Fns)                    \
  Fns<float> fns_f32() { return fns<float>(); }   \
  Fns<double> fns_f64() { return fns<double>(); } \
  static_assert(true)

// Inside #if HWY_ONCE: defines dispatched<T>(), the table of this machine's instruction set.
#define STARLING_EXPORT_FNS(Fns)              \
  HWY_EXPORT(fns_f32);                        \
  HWY_EXPORT(fns_f64);                        \
  template <class T>                          \
  Fns<T> dispatched() {                       \
    if constexpr (std::is_same_v<T, float>) { \
      return HWY_DYNAMIC_DISPATCH(fns_f32)(); \
    } else {                                  \
      return HWY_DYNAMIC_DISPATCH(fns_f64)(); \
    }                                         \
  }                                           \
  static_assert(true)

// Inside #if HWY_ONCE: register_block_<file>, which the table of blocks calls, adds what `add` of the best set adds.
#define STARLING_REGISTER_BLOCKS(file, add)                                           \
  namespace {                                                                         \
  HWY_EXPORT(add);                                                                    \
  }                                                                                   \
  void register_block_##file(BlockTable& table);                                      \
  void register_block_##file(BlockTable& table) { HWY_DYNAMIC_DISPATCH(add)(table); } \
  static_assert(true)
// NOLINTEND(bugprone-macro-parentheses)
