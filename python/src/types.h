#pragma once

#include "starling/tensor/device.h"
#include "starling/tensor/dtype.h"

namespace starling::python {

// dtype and device as Python objects; there is one object of each dtype.
struct PyDType {
  DType value;
};
struct PyDevice {
  Device value;
};

}  // namespace starling::python
