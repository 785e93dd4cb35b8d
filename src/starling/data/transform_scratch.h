#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "starling/data/transform.h"
#include "starling/tensor/tensor.h"

namespace starling::data {

constexpr std::size_t kFieldAlign = 64;

// Size of a buffer (of any alignment) that holds the fields of `count` samples, each field aligned to kFieldAlign.
std::size_t bytes_of_fields(const std::vector<TensorType>& types, std::size_t count);

// Memory that one thread's TransformPipeline::Scratch needs to apply `steps` to `samples` samples at once; `fields` are
// the types of the data set's samples.
std::int64_t scratch_bytes(const std::vector<TransformStep>& steps, std::vector<TensorType> fields,
                           std::int64_t samples);

}  // namespace starling::data
