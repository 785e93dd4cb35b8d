#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "starling/ops/def/op_def.h"

namespace starling::cuda {

// Device code of an optimizer's rule (ops/updates), registered by the file of its name in updates/. It sees the
// attributes by name as doubles and bools; `constants` sets floats c0 to c3 from the doubles lr, t and mu, once a
// block; `step` changes the weight x0 and the states x1 to x3 by the gradient g. F(e) is a double as float.
struct UpdateCode {
  std::string constants;
  std::string step;
  // Rules by the norms of whole tensors: `measured` is the value whose norm is taken besides the weights'; `ratio` sets
  // r from both norms, wn and on. Empty: the rule has none.
  std::string measured{};
  std::string ratio{};
};

// Codes by the names of the ops. CMake calls register_update_code_<rule>(UpdateCodes&) of every file in updates/.
using UpdateCodes = std::map<std::string, UpdateCode, std::less<>>;

// Statement that moves the first and second moments x1 and x2 of Adam and its variants by g.
inline constexpr const char* kMoveMoments =
    "x1 = F(beta1) * x1 + F(1 - beta1) * g; x2 = F(beta2) * x2 + F(1 - beta2) * g * g;";

const UpdateCode* update_code(std::string_view op);  // null if there is none

// Most tensors that one launch takes: their table is an argument of the kernel.
inline constexpr int kUpdateTensors = 40;
inline constexpr int kUpdateThreads = 256;
inline constexpr int kUpdateBlock = kUpdateThreads * 4;  // elements of one block
inline constexpr int kNormPieces = 64;                   // blocks that share the norm of one tensor

struct UpdateTable {
  struct Tensor {
    const float* from[4];
    float* to[4];
    const float* gradient;
    long long n;
  };
  Tensor tensors[kUpdateTensors];
  int first_block[kUpdateTensors];
  int count;
  const void* lr;
  const long long* t;
  const void* mu;
  const float* factor;
  const bool* skip;
  float* norms;  // [tensors, kNormPieces, 2]
};

// Sources of the kernels `run(UpdateTable)`: the step, and the norms before it.
struct UpdateSource {
  const UpdateCode& code;
  const Attrs& attrs;
  std::size_t targets;  // weight and states
  bool mu_double;
};
std::string update_source(const UpdateSource& source);
std::string update_norm_source(const UpdateSource& source);

// Attributes of a rule by name, as doubles and bools.
std::string update_constants(const Attrs& attrs);

}  // namespace starling::cuda
