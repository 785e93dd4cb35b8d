#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <sstream>

#include "cuda/cuda_testing.h"
#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

// Ops that kernels on a GPU compute: communication, files and control flow have kernels of their own rooms, and some
// ops are for programs alone.
bool needs_kernel(const OpDef& op) { return !op.comm && !op.stateful && op.cases != nullptr; }

// Ops whose results' shapes depend on values: the CPU computes them, from copies.
const std::set<std::string> kOnHost = {"coalesce_rows", "masked_select", "nms", "nonzero", "unique"};

TEST(CudaTable, EveryOpHasAKernelUnlessItsShapesDependOnValues) {
  std::set<std::string> missing;
  for (const auto* op : op_registry().sorted()) {
    if (!needs_kernel(*op) || !kernels::kernel_table().find(*op, DeviceKind::cuda).empty()) continue;
    missing.insert(op->name);
    EXPECT_TRUE(op->measure) << op->name;
  }
  EXPECT_EQ(missing, kOnHost);
}

// Whether a call has a kernel, and whether its device code compiles. Plans may fail otherwise on machines without a
// GPU.
struct Tried {
  bool kernel = true, compiled = true;
  std::string log{};
};
Tried tried(const OpDef& op, const Attrs& attrs, const std::vector<TensorType>& types) {
  std::vector<kernels::ArgDesc> in, out;
  for (const auto& type : types) in.push_back(kernels::dense(type));
  Tried found;
  try {
    for (const auto& type : infer(op, types, attrs)) out.push_back(kernels::dense(type));
    plan_kernel(op, DeviceKind::cuda, attrs, in, out, {});
  } catch (const Error& error) {
    found.log = error.what();
    found.kernel = found.log.find("expected a kernel for") == std::string::npos;
    found.compiled = found.log.find("expected device code to compile") == std::string::npos;
  }
  return found;
}

// Ops with a sample call of f64 that no kernel takes: eager calls are computed on the host, programs refuse them.
constexpr const char* kNoDoubles =
    "adadelta_update adagrad_update adagrad_update_rows adam_update adam_update_rows adamax_update "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_avg_pool_backward adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d average_update avg_pool1d avg_pool2d avg_pool3d avg_pool_backward "
    "batch_norm_infer batch_norm_infer_backward batch_norm_positive_backward batch_norm_relu batch_norm_relu_backward "
    "batch_norm_train "
    "batch_norm_train_backward channel_squares channel_window_sum conv1d conv2d conv2d_backward_input conv2d_residual "
    "conv2d_backward_weight conv3d conv3d_backward_input conv3d_backward_weight conv_transpose1d conv_transpose2d "
    "conv_transpose3d cross_entropy_backward cross_entropy_sum cross_entropy_weighted "
    "cross_entropy_weighted_backward dropout embedding_backward global_avg_pool global_max_pool group_norm "
    "group_norm_backward gru_layer gru_layer_backward gru_layer_tangent instance_norm instance_norm_backward "
    "label_pick lamb_update lars_update layer_norm layer_norm_backward linear linear_epilogue lion_update "
    "local_conv2d_backward_input local_conv2d_backward_weight local_response_norm "
    "local_response_norm_backward log_softmax log_softmax_backward lp_pool1d lp_pool2d "
    "lp_pool3d lstm_layer lstm_layer_backward lstm_layer_tangent matmul matmul_act matmul_sgd matmul_sgd_rows "
    "max_pool1d max_pool1d_values max_pool2d max_pool2d_backward max_pool2d_values max_pool3d max_pool3d_values "
    "max_pool_backward "
    "max_pool_gather momentum_update momentum_update_rows nadam_update nll normal rms_norm rms_norm_backward "
    "rmsprop_update rnn_layer rnn_layer_backward rnn_layer_tangent scaled_dot_product_attention "
    "scaled_dot_product_attention_backward sgd_update sgd_update_many softmax softmax_backward squared_error "
    "uniform";

std::set<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

constexpr std::size_t kParts = 8;

class CudaCoverage : public ::testing::TestWithParam<std::size_t> {};

// Device code that cannot be compiled is found without a GPU, too. Every part takes its share of the ops.
// Label: full
TEST_P(CudaCoverage, DeviceCodeOfEverySampleCallCompiles) {
  const std::set<std::string> known = words(kNoDoubles);
  std::set<std::string> expected, missing;
  const auto ops = ops_on_gpu();
  for (std::size_t i = GetParam(); i < ops.size(); i += kParts) {
    const OpDef* op = ops[i];
    if (known.contains(op->name)) expected.insert(op->name);
    for (const auto& sample : op->cases()) {
      std::vector<TensorType> narrow, wide;
      for (const auto& input : sample.in) {
        wide.push_back({input.dtype, input.shape});
        narrow.push_back({input.dtype == DType::f64 ? DType::f32 : input.dtype, input.shape});
      }
      const Tried in_f32 = tried(*op, attrs_in_f32(sample), narrow), in_f64 = tried(*op, sample.attrs, wide);
      EXPECT_TRUE(in_f32.compiled) << op->name << ": " << in_f32.log;
      EXPECT_TRUE(in_f64.compiled) << op->name << " in f64: " << in_f64.log;
      if (!in_f64.kernel) missing.insert(op->name);
    }
  }
  EXPECT_EQ(missing, expected);
}

INSTANTIATE_TEST_SUITE_P(Part, CudaCoverage, ::testing::Range(std::size_t{0}, kParts));

}  // namespace
}  // namespace starling::testing
