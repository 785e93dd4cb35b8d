#pragma once

#include <cudnn.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

// cuDNN's graph API: operations on tensors of four dimensions are described, and engines that run them as one are asked
// for.
namespace starling::cuda {

// Descriptor of the API; throws when the library refuses an attribute.
class GraphDescriptor {
 public:
  explicit GraphDescriptor(cudnnBackendDescriptorType_t kind);
  explicit GraphDescriptor(cudnnBackendDescriptor_t made) : handle_(made) {}
  GraphDescriptor(GraphDescriptor&& from) noexcept : handle_(std::exchange(from.handle_, nullptr)) {}
  GraphDescriptor(const GraphDescriptor&) = delete;
  GraphDescriptor& operator=(const GraphDescriptor&) = delete;
  ~GraphDescriptor();

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* data);
  void set(cudnnBackendAttributeName_t name, std::int64_t value) { set(name, CUDNN_TYPE_INT64, 1, &value); }
  void set(cudnnBackendAttributeName_t name, bool value) { set(name, CUDNN_TYPE_BOOLEAN, 1, &value); }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value) { set(name, CUDNN_TYPE_DATA_TYPE, 1, &value); }
  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const GraphDescriptor& other) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.handle_);
  }
  void finalize();
  cudnnBackendDescriptor_t handle() const { return handle_; }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

// Engine with its settings, ready to run. Immutable.
class GraphPlan {
 public:
  GraphPlan(GraphDescriptor plan, std::size_t scratch_bytes) : plan_(std::move(plan)), scratch_bytes_(scratch_bytes) {}
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  void run(cudnnHandle_t handle, std::span<const std::int64_t> tensors, std::span<void* const> pointers,
           void* scratch) const;

 private:
  GraphDescriptor plan_;
  std::size_t scratch_bytes_;
};

// Operations in the order in which they are added. Tensors are known by the numbers that plans take pointers for.
class OperationGraph {
 public:
  using Tensor = std::int64_t;
  using Sizes = std::vector<std::int64_t>;

  // Tensor in memory; one between operations, which none is given for; a number that every run passes.
  Tensor tensor(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type);
  Tensor between(const Sizes& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  Tensor number(float value);

  // The operand whose absence is meant by it.
  static constexpr Tensor kNone = -1;
  void pointwise(cudnnPointwiseMode_t mode, Tensor a, Tensor b, Tensor result, Tensor selector = kNone,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT);
  void index(int axis, Tensor like, Tensor result);  // of every element along an axis
  void multiply(Tensor a, Tensor b, Tensor result);  // matrices
  void reduce(cudnnReduceTensorOp_t how, Tensor x, Tensor result);

  // Into a new tensor between operations, of the first operand's sizes.
  Tensor pointwise(cudnnPointwiseMode_t mode, Tensor a, Tensor b = kNone);
  // The last two dimensions change places.
  Tensor transpose(Tensor x, cudnnDataType_t type);

  // Plans for the engines of the handle's device that take the graph, those that cuDNN takes to be best first; at most
  // `most`.
  std::vector<std::unique_ptr<GraphPlan>> plans(cudnnHandle_t handle, std::size_t most);

  // Numbers with the addresses of their values, which live as long as this object.
  std::span<const Tensor> numbers() const { return numbers_; }
  std::span<void* const> number_values() const { return number_values_; }

 private:
  Tensor add(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type, bool is_between, bool by_value);
  const GraphDescriptor& at(Tensor tensor) const { return tensors_[static_cast<std::size_t>(tensor)]; }
  void add(GraphDescriptor operation);

  std::vector<GraphDescriptor> tensors_, operations_;
  std::vector<Sizes> sizes_, strides_;
  std::deque<float> values_;
  std::vector<Tensor> numbers_;
  std::vector<void*> number_values_;
};

}  // namespace starling::cuda
