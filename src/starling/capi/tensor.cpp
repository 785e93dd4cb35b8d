#include <cstring>

#include "starling/capi/guard.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/ops/api/creation.h"
#include "starling/tensor/bytes.h"

using namespace starling::capi;  // NOLINT(google-build-using-namespace): C functions stand outside
using starling::DType;
using starling::Tensor;

namespace {

static_assert(static_cast<int>(DType::boolean) == STARLING_BOOL && starling::kDTypeCount == STARLING_BOOL + 1,
              "codes of the interface are those of the library");

DType dtype_of(starling_dtype code) {
  const int number = static_cast<int>(code);
  if (number < 0 || number >= starling::kDTypeCount)
    throw BadArgument(fmt::format("[tensor] expected the code of a dtype, got {}", number));
  return static_cast<DType>(number);
}

void expect_bytes(const Tensor& tensor, std::size_t bytes) {
  const std::size_t own = starling::bytes_of(tensor.type());
  if (bytes != own)
    throw BadArgument(fmt::format("[tensor] expected {} bytes for {}, got {}", own, to_string(tensor.type()), bytes));
}

}  // namespace

extern "C" {

starling_status starling_tensor_new(starling_dtype dtype, const int64_t* shape, int rank, const void* data,
                                    starling_tensor** made) {
  return guarded([&] {
    given(made, "tensor", "a place for the tensor");
    Tensor tensor = starling::zeros(shape_of(shape, rank, "tensor"), dtype_of(dtype));
    if (data && tensor.numel() > 0) std::memcpy(tensor.raw(), data, starling::bytes_of(tensor.type()));
    *made = new starling_tensor{std::move(tensor)};
  });
}

void starling_tensor_free(starling_tensor* tensor) { delete tensor; }

starling_status starling_tensor_dtype(const starling_tensor* tensor, starling_dtype* dtype) {
  return guarded([&] {
    const DType own = given(tensor, "tensor", "a tensor").value.dtype();
    given(dtype, "tensor", "a place for the dtype") = static_cast<starling_dtype>(own);
  });
}

starling_status starling_tensor_shape(const starling_tensor* tensor, int64_t* shape, int capacity, int* rank) {
  return guarded([&] {
    const auto& own = given(tensor, "tensor", "a tensor").value.shape();
    if (capacity > 0) given(shape, "tensor", "a place for the shape");
    given(rank, "tensor", "a place for the rank") = own.rank();
    for (int i = 0; i < std::min(capacity, own.rank()); ++i) shape[i] = own[i];
  });
}

starling_status starling_tensor_bytes(const starling_tensor* tensor, size_t* bytes) {
  return guarded([&] {
    const std::size_t own = starling::bytes_of(given(tensor, "tensor", "a tensor").value.type());
    given(bytes, "tensor", "a place for the number of bytes") = own;
  });
}

starling_status starling_tensor_read(const starling_tensor* tensor, void* values, size_t bytes) {
  return guarded([&] {
    const Tensor& own = given(tensor, "tensor", "a tensor").value;
    expect_bytes(own, bytes);
    if (bytes == 0) return;
    given(static_cast<char*>(values), "tensor", "a place for the values");
    const Tensor host = starling::data::on_host(own.detach());
    std::memcpy(values, host.raw(), bytes);
  });
}

starling_status starling_tensor_write(starling_tensor* tensor, const void* values, size_t bytes) {
  return guarded([&] {
    const Tensor& own = given(tensor, "tensor", "a tensor").value;
    expect_bytes(own, bytes);
    if (bytes == 0) return;
    given(static_cast<const char*>(values), "tensor", "values");
    const Tensor host = starling::empty(own.shape(), own.dtype());
    std::memcpy(host.raw(), values, bytes);
    starling::copy_into(own.detach(), host);
  });
}

starling_status starling_tensor_item(const starling_tensor* tensor, double* value) {
  return guarded([&] {
    const double own = given(tensor, "tensor", "a tensor").value.item();
    given(value, "tensor", "a place for the value") = own;
  });
}

starling_status starling_tensor_requires_grad(starling_tensor* tensor, int on) {
  return guarded([&] { given(tensor, "tensor", "a tensor").value.set_requires_grad(on != 0); });
}

starling_status starling_tensor_backward(starling_tensor* scalar) {
  return guarded([&] { given(scalar, "backward", "a tensor").value.backward(); });
}

starling_status starling_tensor_grad(const starling_tensor* tensor, starling_tensor** gradient) {
  return guarded([&] {
    const Tensor grad = given(tensor, "tensor", "a tensor").value.grad();
    given(gradient, "tensor", "a place for the gradient") = grad.defined() ? new starling_tensor{grad} : nullptr;
  });
}

}  // extern "C"
