#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "starling/tensor/tensor.h"

namespace starling::python {

namespace nb = nanobind;

// What a tensor of foreign memory may be: `where_can` shares it unless it cannot lie as it is, `must` refuses then.
enum class Sharing { no, where_can, must };

// A tensor of an object with __dlpack__, or of a capsule. It may be written if the exporter says so: versioned DLPack
// tells memory that may not be, and of older exporters, which cannot tell, no memory may be written. Memory of a GPU is
// ready for work in the default stream, in which all of ours runs. `device`: where the tensor shall be.
Tensor dlpack_tensor(nb::handle exporter, Sharing sharing, std::optional<Device> device = std::nullopt);
bool is_dlpack(nb::handle given);  // a capsule, or an object with __dlpack__

void bind_dlpack(nb::class_<Tensor>& tensor);

}  // namespace starling::python
