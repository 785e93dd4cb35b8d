#pragma once

namespace starling::device {

// How floats lie in memory; device code computes in f32.
enum class Real : int { f32, bf16, f16 };

// Array of floats of a kind that is known at run time.
struct Reals {
  const void* data;
  Real kind;
};
struct RealsOut {
  void* data;
  Real kind;
};

}  // namespace starling::device
