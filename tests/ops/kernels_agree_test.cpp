#include <gtest/gtest.h>

#include <cstdlib>

#include "ops/op_checks.h"
#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/eager.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/tensor/interpreter.h"

namespace starling::testing {
namespace {

enum class Memory { dense, strided };

double tolerance(const OpDef& op, DType floats) {
  if (op.name == "normal") return 2e-6;  // the kernel computes in float for every dtype
  if (op.name == "uniform") return 5e-7;
  return floats == DType::f32 ? 2e-5 : 1e-11;
}

void compare(const OpDef& op, const OpCase& sample, DType floats, Memory memory) {
  Drawn drawn = draw(sample, floats);
  const Attrs attrs = attrs_for(sample, floats);
  const TensorList want = [&] {
    const kernels::ReferenceScope reference;
    return apply(op, drawn.span(), attrs);
  }();
  if (memory == Memory::strided) {
    for (auto& x : drawn.in) x = strided_copy(x);
  }
  const TensorList got = apply(op, drawn.span(), attrs);
  ASSERT_EQ(got.size(), want.size()) << describe(op, sample);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(difference(got[i], want[i]), tolerance(op, floats))
        << describe(op, sample) << " in " << name(floats) << (memory == Memory::strided ? ", strided" : "")
        << ", output " << i;
  }
}

void compare_all(DType floats, Memory memory) {
  for (const auto* op : tested_ops()) {
    if (!op->cases) continue;
    for (const auto& sample : op->cases()) compare(*op, sample, floats, memory);
  }
}

enum class Side { first, last };

// A view whose first or last dimension of more than one element repeats its first slice.
Tensor repeated(const Tensor& x, Side side) {
  Shape strides = x.strides();
  int found = -1;
  for (int d = 0; d < x.rank(); ++d) {
    if (x.shape()[d] > 1 && (found < 0 || side == Side::last)) found = d;
  }
  if (found >= 0) strides[found] = 0;
  return view_of(x, x.shape(), strides, 0);
}

// One operand after the other is a broadcast view. Equal slices may make values that an op refuses.
void compare_repeated(const OpDef& op, const OpCase& sample, Side side) {
  const Attrs attrs = attrs_for(sample, DType::f32);
  for (std::size_t i = 0; i < sample.in.size(); ++i) {
    if (sample.in[i].diagonal != 0) continue;  // a matrix with equal rows has no inverse
    Drawn views = draw(sample, DType::f32);
    views.in[i] = repeated(views.in[i], side);
    Drawn same = views;
    same.in[i] = kernels::densify(views.in[i]);
    TensorList want;
    try {
      const kernels::ReferenceScope reference;
      want = apply(op, same.span(), attrs);
    } catch (const Error&) {
      EXPECT_THROW(apply(op, views.span(), attrs), Error) << describe(op, sample) << ", operand " << i;
      continue;
    }
    const TensorList got = apply(op, views.span(), attrs);
    ASSERT_EQ(got.size(), want.size()) << describe(op, sample);
    for (std::size_t k = 0; k < got.size(); ++k) {
      EXPECT_LE(difference(got[k], want[k]), tolerance(op, DType::f32))
          << describe(op, sample) << ", operand " << i << " broadcast along its "
          << (side == Side::first ? "first" : "last") << " dimension, output " << k;
    }
  }
}

TEST(FastKernels, AgreeWithReferenceInF32) { compare_all(DType::f32, Memory::dense); }
TEST(FastKernels, AgreeWithReferenceInF64) { compare_all(DType::f64, Memory::dense); }
TEST(FastKernels, AgreeWithReferenceOnStridedF32) { compare_all(DType::f32, Memory::strided); }
TEST(FastKernels, AgreeWithReferenceOnStridedF64) { compare_all(DType::f64, Memory::strided); }
TEST(FastKernels, AgreeWithReferenceOnBroadcastF32) {
  for (const auto* op : tested_ops()) {
    if (!op->cases) continue;
    for (const auto& sample : op->cases()) {
      for (const Side side : {Side::first, Side::last}) compare_repeated(*op, sample, side);
    }
  }
}

// Results may overwrite an input where the definition says so.
TEST(FastKernels, WriteInPlaceWhatTheyMay) {
  int checked = 0;
  for (const auto* op : tested_ops()) {
    if (!op->cases || op->inplace < 0 || op->view) continue;
    for (const auto& sample : op->cases()) {
      const Drawn drawn = draw(sample, DType::f32);
      const Attrs attrs = attrs_for(sample, DType::f32);
      const TensorList want = apply(*op, drawn.span(), attrs);
      TensorList targets;
      bool fits = true;
      for (std::size_t i = 0; i < want.size(); ++i) {
        const Tensor& target = drawn.in[i + static_cast<std::size_t>(op->inplace)];
        fits = fits && target.type() == want[i].type();
        targets.push_back(target);
      }
      if (!fits) continue;
      current_interpreter().apply_into(*op, drawn.span(), attrs, {targets.data(), targets.size()});
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_LE(difference(targets[i], want[i]), 1e-6) << describe(*op, sample);
      ++checked;
    }
  }
  EXPECT_TRUE(checked > 50 || std::getenv("STARLING_OPS") != nullptr) << checked;
}

// An op whose fast kernel declines its own samples would pass the comparisons above by running the reference twice.
TEST(FastKernels, AreChosenForF32) {
  for (const auto* op : tested_ops()) {
    if (!op->cases || op->plain) continue;
    for (const auto& sample : op->cases()) {
      const Drawn drawn = draw(sample, DType::f32);
      const Attrs attrs = attrs_for(sample, DType::f32);
      const Types types = types_of(drawn.span());
      std::vector<kernels::ArgDesc> in, out;
      for (const auto& type : types) in.push_back(kernels::dense(type));
      for (const auto& type : infer(*op, {types.data(), types.size()}, attrs)) out.push_back(kernels::dense(type));
      const kernels::Planned planned = plan_kernel(*op, DeviceKind::cpu, attrs, in, out, {.threads = 1});
      EXPECT_NE(planned.kernel, "reference") << describe(*op, sample);
      for (const bool copied : planned.densify) EXPECT_FALSE(copied);
    }
  }
}

TEST(FastKernels, GiveTheSameWithSeveralThreads) {
  for (const auto* op : tested_ops()) {
    if (!op->cases || op->comm) continue;
    for (const auto& sample : op->cases()) {
      const Drawn drawn = draw(sample, DType::f32);
      const Attrs attrs = attrs_for(sample, DType::f32);
      const TensorList want = apply(*op, drawn.span(), attrs);
      const ThreadScope threads(3);
      const TensorList got = apply(*op, drawn.span(), attrs);
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_LE(difference(got[i], want[i]), 1e-5) << describe(*op, sample);
    }
  }
}

}  // namespace
}  // namespace starling::testing
