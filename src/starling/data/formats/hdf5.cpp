#include "starling/data/formats/hdf5.h"

#include "starling/base/error.h"
#include "starling/tensor/bytes.h"

namespace starling::data {

Tensor read_hdf5(const Hdf5Array& array) {
  Tensor tensor = empty(array.type().shape, array.type().dtype);
  if (tensor.numel() > 0)
    array.read(0, tensor.size(0), {static_cast<std::byte*>(tensor.raw()), bytes_of(array.type())});
  return tensor;
}

Tensor read_hdf5(const std::filesystem::path& path, const std::string& name, const Hdf5Options& options) {
  const auto array = open_hdf5(path, name);
  check(bytes_of(array->type()) <= options.most_bytes, "[hdf5] {}: expected at most {} bytes in '{}', got {} for {}",
        path.string(), options.most_bytes, name, bytes_of(array->type()), to_string(array->type()));
  return read_hdf5(*array);
}

}  // namespace starling::data
