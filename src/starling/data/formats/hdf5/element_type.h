#pragma once

#include <optional>
#include <string>

#include "starling/data/formats/hdf5/library.h"
#include "starling/tensor/tensor.h"

// Element types of HDF5 and dtypes of tensors. All under Hdf5Library.
namespace starling::data {

// Dtype that holds elements of this type; absent if they are not numbers, or numbers that no tensor has.
std::optional<DType> dtype_of_hdf5(hid_t type);

// Type of elements of `dtype` in memory. `file_type` is that of the file, which a bool is read as.
Hdf5Id memory_type(DType dtype, hid_t file_type);

// Name of a type of elements that are no numbers: "text", "compound", ….
std::string describe_hdf5(hid_t type);

}  // namespace starling::data
