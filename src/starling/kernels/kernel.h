#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "starling/ops/op_def.h"

namespace starling {

class Comm;

// One operand as a kernel sees it; strides in elements.
struct ArgDesc {
  DType dtype = DType::f32;
  Shape shape;
  Shape strides;
  bool contiguous() const { return is_contiguous(shape, strides); }
  friend bool operator==(const ArgDesc&, const ArgDesc&) = default;
};
ArgDesc dense(const TensorType& type);

struct PlanRequest {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const ArgDesc> in;
  std::span<const ArgDesc> out;  // always dense
  int threads;
};

// What a running kernel may use besides its operands. A device stream where the device has them; the communicator in
// distributed programs.
struct RunContext {
  void* stream = nullptr;
  Comm* comm = nullptr;
};

struct Launch {
  void* const* in;
  void* const* out;
  void* scratch;  // Plan::scratch_bytes, 64-byte aligned
  RunContext& context;
};

// A kernel bound to one signature: all decisions are made, running it allocates nothing. Immutable, so that several
// instances may run it at once.
class Plan {
 public:
  virtual ~Plan() = default;
  virtual void run(const Launch& launch) const = 0;
  std::size_t scratch_bytes = 0;
};

// Which memory an input may have. Callers copy an input that a kernel does not accept.
enum class Accepts : std::uint8_t {
  contiguous,
  transposed,  // dense, but for the last two dimensions being swapped
  strided,     // anything, including 0 strides
};
bool accepts(Accepts what, const ArgDesc& arg);

struct Kernel {
  std::string name;  // "gemm", "im2col", "reference"
  Accepts accepts = Accepts::contiguous;
  std::function<std::unique_ptr<Plan>(const PlanRequest&)> plan;  // null: not for this signature
};

// A plan from a callable: make_plan(scratch bytes, [=](const Launch& l) { … }).
template <class F>
std::unique_ptr<Plan> make_plan(std::size_t scratch_bytes, F run) {
  class Made final : public Plan {
   public:
    explicit Made(F f) : run_(std::move(f)) {}
    void run(const Launch& launch) const override { run_(launch); }

   private:
    F run_;
  };
  auto plan = std::make_unique<Made>(std::move(run));
  plan->scratch_bytes = scratch_bytes;
  return plan;
}
template <class F>
std::unique_ptr<Plan> make_plan(F run) {
  return make_plan(0, std::move(run));
}

}  // namespace starling
