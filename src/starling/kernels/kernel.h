#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "starling/ops/def/op_def.h"
#include "starling/tensor/bytes.h"

namespace starling {
class Comm;
}

namespace starling::kernels {

// One operand as a kernel sees it; strides in elements.
struct ArgDesc {
  DType dtype = DType::f32;
  Shape shape;
  Shape strides;
  bool contiguous() const { return is_contiguous(shape, strides); }
  friend bool operator==(const ArgDesc&, const ArgDesc&) = default;
};
ArgDesc dense(const TensorType& type);
inline std::size_t bytes_of(const ArgDesc& arg) { return bytes_of(arg.shape, arg.dtype); }

struct PlanRequest {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const ArgDesc> in;
  std::span<const ArgDesc> out;  // always dense
  int threads;
};

// Resources of a running kernel besides its operands: a device stream if the device has them; the communicator in
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

// Kernel bound to one signature: all decisions are made, running it allocates nothing. Immutable, so that several
// instances may run it at once.
class Plan {
 public:
  virtual ~Plan() = default;
  virtual void run(const Launch& launch) const = 0;
  std::size_t scratch_bytes = 0;
};

// Input strides that a kernel accepts. Callers copy other inputs to dense memory.
enum class Accepts : std::uint8_t {
  contiguous,
  transposed,  // dense, except that the last two dimensions may be swapped
  strided,     // any strides, including 0
};
bool accepts(Accepts what, const ArgDesc& arg);

struct Kernel {
  std::string name;  // "gemm", "im2col", "reference"
  Accepts accepts = Accepts::contiguous;
  std::function<std::unique_ptr<Plan>(const PlanRequest&)> plan;  // returns null if it does not take this signature
};

// Plan from a callable: make_plan(scratch bytes, [=](const Launch& l) { … }).
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

}  // namespace starling::kernels
