#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "starling/data/transform.h"
#include "starling/tensor/tensor.h"

namespace starling {

constexpr std::size_t kFieldAlign = 64;

// Bytes of a buffer, wherever it begins, for fields of these types of `count` samples, each aligned.
std::size_t bytes_of_fields(const std::vector<TensorType>& types, std::size_t count);

// Memory that a thread's TransformPipeline::Scratch grows to when it applies these steps to `samples` at once; `fields`
// are those of a sample of the data set.
std::int64_t scratch_bytes(const std::vector<TransformStep>& steps, std::vector<TensorType> fields,
                           std::int64_t samples);

}  // namespace starling
