#pragma once

#include <string>

#include "starling/data/formats/hdf5/library.h"
#include "starling/tensor/tensor.h"

namespace starling::data {

// Shape of a data set, checked to fit a tensor. Throws naming `where`.
Shape shape_of_hdf5(hid_t dataset, const std::string& where);

}  // namespace starling::data
