#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "dense.h"
#include "dlpack.h"
#include "dlpack_abi.h"
#include "held.h"
#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/tensor/device_memory.h"
#include "strided.h"

namespace starling::python {

using Code = nb::dlpack::dtype_code;

nb::dlpack::dtype dlpack::dtype_code(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  const Code code = dtype == DType::bf16       ? Code::Bfloat
                    : is_float(dtype)          ? Code::Float
                    : dtype == DType::boolean  ? Code::Bool
                    : is_signed_integer(dtype) ? Code::Int
                                               : Code::UInt;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

DType dlpack::dtype_of_code(nb::dlpack::dtype given) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (dtype_code(static_cast<DType>(i)) == given) return static_cast<DType>(i);
  }
  throw nb::type_error("[tensor] expected an array of floats, integers or booleans (not complex, strings or objects)");
}

namespace {

[[noreturn]] void refuse_buffer(const std::string& text) { throw nb::buffer_error(text.c_str()); }

// A managed array that was taken out of its capsule: whoever has it calls the deleter.
struct Taken {
  dlpack::Array array;
  bool read_only;
  std::function<void()> drop;
};

template <class Managed>
Taken taken_out(PyObject* capsule, bool read_only) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName));
  if (!managed || PyCapsule_SetName(capsule, Managed::kUsed) != 0) throw nb::python_error();
  return {managed->array, read_only, [managed] {
            if (managed->deleter) managed->deleter(managed);
          }};
}

Taken taken_from(nb::handle capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::ManagedVersioned::kName)) {
    const auto* managed =
        static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::ManagedVersioned::kName));
    if (managed->version.major != 1)
      refuse_buffer(fmt::format("[from_dlpack] expected version 1 of DLPack, got {}", managed->version.major));
    return taken_out<dlpack::ManagedVersioned>(capsule.ptr(), (managed->flags & dlpack::kReadOnly) != 0);
  }
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::Managed::kName)) return taken_out<dlpack::Managed>(capsule.ptr(), true);
  throw nb::type_error("[from_dlpack] expected a DLPack capsule that nobody has taken yet");
}

// Gives the memory back when a scope is left by an error; a storage gives it back otherwise.
class Guard {
 public:
  explicit Guard(std::function<void()> drop) : drop_(std::move(drop)) {}
  ~Guard() {
    if (drop_) drop_();
  }
  Guard(const Guard&) = delete;
  std::function<void()> release() { return std::exchange(drop_, nullptr); }

 private:
  std::function<void()> drop_;
};

Device device_of(const dlpack::Array& array) {
  switch (array.device.device_type) {
    case dlpack::kOnCpu:
    case dlpack::kOnCudaHost: return kCpu;
    case dlpack::kOnCuda:
    case dlpack::kOnCudaManaged: return {DeviceKind::cuda, static_cast<std::uint8_t>(array.device.device_id)};
    default:
      refuse_buffer(fmt::format("[from_dlpack] expected memory of the CPU or of CUDA, got DLPack's device kind {}",
                                array.device.device_type));
  }
}

void expect_reachable(Device device) {
  if (device.kind != DeviceKind::cuda || device.index < cuda_device_count()) return;
  refuse_buffer(fmt::format(
      "[from_dlpack] expected memory that this build of starling reaches on this machine ({} GPUs), got {}: take it "
      "to the CPU first, from_dlpack(x, device=\"cpu\")",
      cuda_device_count(), to_string(device)));
}

// Memory of a GPU goes back once the work that was given to it is done: its owner may use it in another stream.
void wait_for_default_stream(const void* data) noexcept {
  try {
    std::byte one{};
    device_memory(DeviceKind::cuda).to_host(&one, data, 1);
  } catch (const std::exception&) {  // the driver has been shut down: nothing runs any more
  }
}

Ref<Storage> storage_of(Device device, void* data, std::size_t bytes, bool read_only, std::function<void()> drop) {
  const bool gpu = device.kind == DeviceKind::cuda && bytes > 0;
  const auto give_back = [drop = std::move(drop), gpu](void* memory) {
    if (gpu) wait_for_default_stream(memory);
    if (!python_is_there()) return;
    const nb::gil_scoped_acquire gil;
    drop();
  };
  return Ref<Storage>(new Storage(device, data, bytes, give_back, read_only));
}

struct Extent {
  Shape shape, strides;
  std::int64_t first = 0, last = 0;  // elements before and after the one that `data` points to
};

Extent extent_of(const dlpack::Array& array) {
  if (array.ndim > kMaxRank) throw nb::value_error("[tensor] expected at most 8 dimensions");
  Extent extent;
  for (int i = 0; i < array.ndim; ++i) extent.shape.push_back(array.shape[i]);
  extent.strides = Shape(extent.shape);
  std::int64_t row = 1;
  for (int i = array.ndim - 1; i >= 0; --i) {
    extent.strides[i] = array.strides ? array.strides[i] : row;
    row *= extent.shape[i];
    if (extent.shape[i] < 2) continue;
    (extent.strides[i] < 0 ? extent.first : extent.last) += (extent.shape[i] - 1) * extent.strides[i];
  }
  return extent;
}

// Elements in an order that no view has, such as backwards, copied.
Tensor in_order(const Extent& extent, std::byte* data, DType dtype) {
  const Tensor copy = empty(extent.shape, dtype);
  copy_elements(extent.shape, size_of(dtype), {data, extent.strides}, {copy.raw(), copy.strides()});
  return copy;
}

Tensor tensor_of(Taken taken, Sharing sharing) {
  Guard guard(std::move(taken.drop));
  const dlpack::Array& array = taken.array;
  const DType dtype = dlpack::dtype_of_code(array.dtype);
  const Device device = device_of(array);
  expect_reachable(device);
  const Extent extent = extent_of(array);
  auto* data = static_cast<std::byte*>(array.data) + array.byte_offset;
  const bool empty_one = extent.shape.numel() == 0;
  const bool aligned = empty_one || reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0;
  if (extent.first < 0 || !aligned) {
    if (sharing == Sharing::must || device.kind != DeviceKind::cpu)
      refuse_buffer(
          "[from_dlpack] expected aligned memory without negative strides to share, got other: copy it first");
    return in_order(extent, data, dtype);
  }
  const std::int64_t elements = empty_one ? 0 : extent.last + 1;
  const auto storage =
      storage_of(device, data, static_cast<std::size_t>(elements) * size_of(dtype), taken.read_only, guard.release());
  const Tensor shared = view_of(from_storage(storage, dtype, Shape{elements}), extent.shape, extent.strides, 0);
  return sharing == Sharing::no ? dense_copy(shared) : shared;
}

nb::object version() { return nb::make_tuple(1, 1); }

// The exporter's capsule, as new as it makes them: those from before version 1 know no such keyword.
nb::object capsule_of(nb::handle exporter, nb::dict asked) {
  asked["max_version"] = version();
  try {
    return exporter.attr("__dlpack__")(**asked);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  PyDict_DelItemString(asked.ptr(), "max_version");
  if (asked.contains("dl_device"))
    refuse_buffer("[from_dlpack] expected an exporter that copies to the CPU by itself, got one before version 1");
  return exporter.attr("__dlpack__")(**asked);
}

}  // namespace

bool is_dlpack(nb::handle given) { return PyCapsule_CheckExact(given.ptr()) || nb::hasattr(given, "__dlpack__"); }

Tensor dlpack_tensor(nb::handle exporter, Sharing sharing, std::optional<Device> device) {
  if (PyCapsule_CheckExact(exporter.ptr())) return tensor_of(taken_from(exporter), sharing);
  const nb::object place = exporter.attr("__dlpack_device__")();
  const auto kind = nb::cast<std::int64_t>(place[0]);
  nb::dict asked;
  const bool on_gpu = kind == dlpack::kOnCuda || kind == dlpack::kOnCudaManaged;
  if (device && device->kind == DeviceKind::cpu && on_gpu) {
    if (sharing == Sharing::must)
      throw nb::value_error(
          "[from_dlpack] expected copy=True or None to bring an array of a GPU to the CPU, got False");
    asked["dl_device"] = nb::make_tuple(static_cast<int>(dlpack::kOnCpu), 0);  // by its own way, also without CUDA here
  } else if (on_gpu) {
    expect_reachable({DeviceKind::cuda, static_cast<std::uint8_t>(nb::cast<int>(place[1]))});
    asked["stream"] = 1;  // the legacy default stream
  }
  const nb::object capsule = capsule_of(exporter, asked);
  if (!PyCapsule_CheckExact(capsule.ptr()))
    throw nb::type_error(fmt::format("[from_dlpack] expected a capsule from __dlpack__, got {}",
                                     nb::cast<std::string>(nb::str(capsule.type().attr("__name__"))))
                             .c_str());
  const Tensor made = tensor_of(taken_from(capsule), sharing);
  if (!device || made.device() == *device) return made;
  if (sharing == Sharing::must)
    throw nb::value_error("[from_dlpack] expected copy=True or None for another device, got False");
  return to(made, *device);
}

}  // namespace starling::python
