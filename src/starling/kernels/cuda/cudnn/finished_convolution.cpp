#include <cudnn_backend.h>

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "starling/kernels/cuda/convolution.h"
#include "starling/kernels/cuda/cudnn/descriptors.h"

namespace starling::cuda {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace)

// Object of the library's interface of graphs.
class Object {
 public:
  explicit Object(cudnnBackendDescriptorType_t type) {
    check_cudnn(cudnnBackendCreateDescriptor(type, &handle_), "describing a convolution");
  }
  Object(Object&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Object& operator=(Object&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Object() {
    if (handle_) cudnnBackendDestroyDescriptor(handle_);
  }

  template <class T>
  Object& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T* values, std::int64_t count) {
    check_cudnn(cudnnBackendSetAttribute(handle_, name, type, count, values), "describing a convolution");
    return *this;
  }
  template <class T>
  Object& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    return set(name, type, &value, 1);
  }
  Object& set(cudnnBackendAttributeName_t name, const Object& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.handle_);
  }
  Object& set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
    return set(name, CUDNN_TYPE_INT64, values.data(), static_cast<std::int64_t>(values.size()));
  }
  Object& done() {
    check_cudnn(cudnnBackendFinalize(handle_), "describing a convolution");
    return *this;
  }
  cudnnBackendDescriptor_t handle() const { return handle_; }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

constexpr int kMostCompiled = 2;  // the library compiles each at run time

enum class Id : std::int64_t { x = 1, w, bias, residual, y, products, biased, total };

// Sizes [a, b, rows, columns]; dense, with b last or second in memory.
Object tensor(Id id, DType dtype, const std::array<int, 4>& sizes, bool channels_last, bool is_virtual = false) {
  const std::vector<std::int64_t> dims(sizes.begin(), sizes.end());
  const std::int64_t b = dims[1], rows = dims[2], columns = dims[3];
  const std::vector<std::int64_t> strides =
      channels_last ? std::vector<std::int64_t>{b * rows * columns, 1, b * columns, b}
                    : std::vector<std::int64_t>{b * rows * columns, rows * columns, columns, 1};
  Object made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, library_type(dtype))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, static_cast<std::int64_t>(id))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::int64_t{16})
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  made.done();
  return made;
}

Object pointwise(cudnnPointwiseMode_t mode, const Object& x, const Object* b, const Object& y) {
  Object how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .done();
  Object made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y).done();
  return made;
}

Object products(const device::Conv& c, const Object& x, const Object& w, const Object& y) {
  const auto pair = [](const int(&of)[3]) { return std::vector<std::int64_t>{of[1], of[2]}; };
  Object how(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  how.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, pair(c.dilation))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, pair(c.stride))
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pair(c.padding))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pair(c.padding))
      .done();
  Object made(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.f)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.f)
      .done();
  return made;
}

// Implementations of y = relu(conv(x, w) + bias + residual), in the order in which the library takes them to be fast.
std::vector<Object> engines(cudnnHandle_t handle, const device::Conv& c, ConvStorage storage, ConvFinish finish) {
  const bool last = storage.channels_last;
  const std::array<int, 4> sizes{c.n, c.o, c.y[1], c.y[2]};
  const Object x = tensor(Id::x, storage.dtype, {c.n, c.c, c.x[1], c.x[2]}, last);
  const Object w = tensor(Id::w, storage.dtype, {c.o, c.c, c.k[1], c.k[2]}, last);
  const Object bias = tensor(Id::bias, storage.dtype, {1, c.o, 1, 1}, last);
  const Object residual = tensor(Id::residual, storage.dtype, sizes, last),
               y = tensor(Id::y, storage.dtype, sizes, last);
  const auto between = [&](Id id) { return tensor(id, DType::f32, sizes, last, true); };
  const Object sums = between(Id::products), biased = between(Id::biased), total = between(Id::total);
  std::vector<Object> operations;
  operations.push_back(products(c, x, w, sums));
  const bool ends = !finish.residual && !finish.relu;
  operations.push_back(pointwise(CUDNN_POINTWISE_ADD, sums, &bias, ends ? y : biased));
  if (finish.residual) operations.push_back(pointwise(CUDNN_POINTWISE_ADD, biased, &residual, finish.relu ? total : y));
  if (finish.relu)
    operations.push_back(pointwise(CUDNN_POINTWISE_RELU_FWD, finish.residual ? total : biased, nullptr, y));
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Object& operation : operations) handles.push_back(operation.handle());
  Object graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle)
      .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, handles.data(),
           static_cast<std::int64_t>(handles.size()))
      .done();
  Object heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A)
      .done();
  std::vector<Object> found;
  handles.clear();
  for (int i = 0; i < kMostAlgorithms; ++i) {
    found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    handles.push_back(found.back().handle());
  }
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(heuristics.handle(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostAlgorithms, &count, handles.data()),
              "looking for a convolution");
  while (static_cast<std::int64_t>(found.size()) > count) found.pop_back();
  return found;
}

class Finished final : public FinishedConvolution {
 public:
  // Null if cuDNN has no implementation of it.
  static std::shared_ptr<const FinishedConvolution> of(const device::Conv& conv, ConvStorage storage,
                                                       ConvFinish finish) {
    auto made = std::make_shared<Finished>(finish);
    return made->choose(conv, storage) ? made : nullptr;
  }
  explicit Finished(ConvFinish finish) : finish_(finish) {}

  void run(const void* x, const void* w, const void* bias, const void* residual, void* y, void* scratch,
           cudaStream_t stream) const override {
    const std::array<const void*, 5> pointers{x, w, bias, y, residual};
    constexpr std::array kIds{Id::x, Id::w, Id::bias, Id::y, Id::residual};
    const std::int64_t count = finish_.residual ? 5 : 4;
    void* const work = library_aligned(scratch);
    Object pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers.data(), count)
        .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, kIds.data(), count)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, work)
        .done();
    check_cudnn(
        LibraryHandle::shared().with(
            stream, [&](cudnnHandle_t handle) { return cudnnBackendExecute(handle, plan_->handle(), pack.handle()); }),
        "launching a convolution");
  }

 private:
  bool choose(const device::Conv& conv, ConvStorage storage) {
    const Trial trial(conv);
    const TrialMemory bias(static_cast<std::size_t>(conv.o) * sizeof(float)),
        residual(finish_.residual ? Trial::bytes(conv.n, conv.o, conv.y) : 0);
    const auto found = LibraryHandle::shared().with(
        cudaStreamLegacy, [&](cudnnHandle_t handle) { return engines(handle, conv, storage, finish_); });
    std::shared_ptr<const Object> fastest;
    float least = std::numeric_limits<float>::infinity();
    std::size_t scratch = 0;
    int tried = 0;
    for (const Object& engine : found) {
      if (tried == kMostCompiled) break;
      try {
        use(engine);
        if (scratch_bytes > library_scratch(kMostScratch)) continue;
        const float ms = time_on_device([&](cudaStream_t stream) {
          run(trial.x.data(), trial.w.data(), bias.data(), residual.data(), trial.y.data(), trial.scratch.data(),
              stream);
        });
        if (ms < least) least = ms, fastest = plan_, scratch = scratch_bytes;
        ++tried;
      } catch (const Error&) {  // an engine that cannot run after all
        static_cast<void>(cudaGetLastError());
      }
    }
    plan_ = fastest;
    scratch_bytes = scratch;
    milliseconds = least;
    return fastest != nullptr;
  }

  void use(const Object& engine) {
    auto plan = std::make_shared<Object>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    LibraryHandle::shared().with(cudaStreamLegacy, [&](cudnnHandle_t handle) {
      plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle)
          .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine)
          .done();
      return 0;
    });
    std::int64_t bytes = 0, count = 0;
    check_cudnn(cudnnBackendGetAttribute(plan->handle(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                         &count, &bytes),
                "describing a convolution");
    scratch_bytes = library_scratch(static_cast<std::size_t>(bytes));
    plan_ = std::move(plan);
  }

  ConvFinish finish_;
  std::shared_ptr<const Object> plan_;
};

}  // namespace

std::shared_ptr<const FinishedConvolution> cudnn_finished_convolution(const device::Conv& conv, ConvStorage storage,
                                                                      ConvFinish finish) {
  if (!storage.channels_last || !Descriptors::is_flat(conv) || conv.groups != 1) return nullptr;
  using Key = std::array<int, sizeof(device::Conv) / sizeof(int) + 4>;
  Key key{static_cast<int>(storage.dtype), storage.channels_last, finish.relu, finish.residual};
  std::memcpy(key.data() + 4, &conv, sizeof(conv));
  static std::mutex mutex;
  static auto& known = *new std::map<Key, std::shared_ptr<const FinishedConvolution>>;
  const std::lock_guard lock(mutex);
  const auto [slot, fresh] = known.try_emplace(key);
  if (!fresh) return slot->second;
  try {
    slot->second = Finished::of(conv, storage, finish);
  } catch (const Error&) {  // sizes that cuDNN does not take
    static_cast<void>(cudaGetLastError());
  }
  return slot->second;
}

}  // namespace starling::cuda
