#include "starling/kernels/cuda/cudnn/graph.h"

#include "starling/kernels/cuda/cudnn/handle.h"

// Versions before 9.9 ask for the handle of a graph, whose name later ones mark deprecated.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace starling::cuda {
namespace {

constexpr std::int64_t kAlignment = 16;  // bytes that addresses of tensors are multiples of

OperationGraph::Sizes dense_strides(const OperationGraph::Sizes& sizes) {
  OperationGraph::Sizes strides(sizes.size(), 1);
  for (std::size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

}  // namespace

GraphDescriptor::GraphDescriptor(cudnnBackendDescriptorType_t kind) {
  check_cudnn(cudnnBackendCreateDescriptor(kind, &handle_), "describing a graph");
}

GraphDescriptor::~GraphDescriptor() {
  if (handle_) cudnnBackendDestroyDescriptor(handle_);
}

void GraphDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                          const void* data) {
  check_cudnn(cudnnBackendSetAttribute(handle_, name, type, count, data), "describing a graph");
}

void GraphDescriptor::finalize() { check_cudnn(cudnnBackendFinalize(handle_), "describing a graph"); }

void GraphPlan::run(cudnnHandle_t handle, std::span<const std::int64_t> tensors, std::span<void* const> pointers,
                    void* scratch) const {
  GraphDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, tensors);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(pointers.size()),
           pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
  pack.finalize();
  check_cudnn(cudnnBackendExecute(handle, plan_.handle(), pack.handle()), "launching a graph of cuDNN");
}

OperationGraph::Tensor OperationGraph::add(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type,
                                           bool is_between, bool by_value) {
  const auto number = static_cast<Tensor>(tensors_.size());
  GraphDescriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
  made.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, number);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_between);
  made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, by_value);
  made.finalize();
  tensors_.push_back(std::move(made));
  sizes_.push_back(sizes);
  strides_.push_back(strides);
  return number;
}

OperationGraph::Tensor OperationGraph::tensor(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type) {
  return add(sizes, strides, type, false, false);
}

OperationGraph::Tensor OperationGraph::between(const Sizes& sizes, cudnnDataType_t type) {
  return add(sizes, dense_strides(sizes), type, true, false);
}

OperationGraph::Tensor OperationGraph::number(float value) {
  numbers_.push_back(add({1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, false, true));
  number_values_.push_back(&values_.emplace_back(value));
  return numbers_.back();
}

void OperationGraph::add(GraphDescriptor operation) {
  operation.finalize();
  operations_.push_back(std::move(operation));
}

void OperationGraph::pointwise(cudnnPointwiseMode_t mode, Tensor a, Tensor b, Tensor result, Tensor selector,
                               cudnnDataType_t compute) {
  GraphDescriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute);
  how.finalize();
  GraphDescriptor made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(a));
  if (b != kNone) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b));
  if (selector != kNone) made.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, at(selector));
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(result));
  add(std::move(made));
}

OperationGraph::Tensor OperationGraph::pointwise(cudnnPointwiseMode_t mode, Tensor a, Tensor b) {
  const Tensor result = between(sizes_[static_cast<std::size_t>(a)]);
  pointwise(mode, a, b, result);
  return result;
}

void OperationGraph::index(int axis, Tensor like, Tensor result) {
  const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_GEN_INDEX;
  GraphDescriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  how.set(CUDNN_ATTR_POINTWISE_AXIS, std::int64_t{axis});
  how.finalize();
  GraphDescriptor made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(like));
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(result));
  add(std::move(made));
}

void OperationGraph::multiply(Tensor a, Tensor b, Tensor result) {
  GraphDescriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  how.finalize();
  GraphDescriptor made(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a));
  made.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b));
  made.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(result));
  add(std::move(made));
}

void OperationGraph::reduce(cudnnReduceTensorOp_t how_reduced, Tensor x, Tensor result) {
  GraphDescriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how_reduced);
  how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  how.finalize();
  GraphDescriptor made(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x));
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(result));
  add(std::move(made));
}

OperationGraph::Tensor OperationGraph::transpose(Tensor x, cudnnDataType_t type) {
  Sizes sizes = sizes_[static_cast<std::size_t>(x)], strides = strides_[static_cast<std::size_t>(x)];
  std::swap(sizes[2], sizes[3]);
  std::swap(strides[2], strides[3]);
  const Tensor result = add(sizes, strides, type, true, false);
  GraphDescriptor made(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, at(x));
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, at(result));
  add(std::move(made));
  return result;
}

std::vector<std::unique_ptr<GraphPlan>> OperationGraph::plans(cudnnHandle_t handle, std::size_t most) {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const auto& operation : operations_) operations.push_back(operation.handle());
  GraphDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(operations.size()),
            operations.data());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  graph.finalize();

  GraphDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristics.finalize();
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(heuristics.handle(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
              "asking for engines");
  std::vector<GraphDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configs.back().handle());
  }
  check_cudnn(cudnnBackendGetAttribute(heuristics.handle(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
              "asking for engines");

  std::vector<std::unique_ptr<GraphPlan>> made;
  for (std::int64_t i = 0; i < count && made.size() < most; ++i) {
    try {
      GraphDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[static_cast<std::size_t>(i)]);
      plan.finalize();
      std::int64_t bytes = 0, got = 0;
      check_cudnn(cudnnBackendGetAttribute(plan.handle(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                           &got, &bytes),
                  "asking for an engine's scratch");
      made.push_back(std::make_unique<GraphPlan>(std::move(plan), static_cast<std::size_t>(bytes)));
    } catch (const Error&) {  // an engine that does not take the graph after all
    }
  }
  return made;
}

}  // namespace starling::cuda
