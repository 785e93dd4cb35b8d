#include "starling/data/transform_scratch.h"

#include <algorithm>

#include "starling/tensor/bytes.h"

namespace starling::data {

std::size_t bytes_of_fields(const std::vector<TensorType>& types, std::size_t count) {
  std::size_t total = kFieldAlign;
  for (const auto& type : types) {
    const std::size_t bytes = bytes_of(type) * count;
    total += (bytes + kFieldAlign - 1) / kFieldAlign * kFieldAlign;
  }
  return total;
}

// Sample transforms alternate between two buffers, batch transforms between two others. The last step writes into the
// batch; the first batch transform reads a buffer, or the data set's samples if no step precedes it.
std::int64_t scratch_bytes(const std::vector<TransformStep>& steps, std::vector<TensorType> fields,
                           std::int64_t samples) {
  std::size_t sample[2] = {}, batch[2] = {};
  std::size_t first_of_batch = 0;
  while (first_of_batch < steps.size() && steps[first_of_batch].sample) ++first_of_batch;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    const bool single = i < first_of_batch, last_single = i + 1 == first_of_batch;
    fields = single ? steps[i].sample->fields(std::move(fields)) : steps[i].batch->fields(std::move(fields));
    std::size_t& buffer = !single ? batch[(i - first_of_batch + 1) % 2] : last_single ? batch[0] : sample[i % 2];
    const auto count = single && !last_single ? std::size_t{1} : static_cast<std::size_t>(samples);
    buffer = std::max(buffer, bytes_of_fields(fields, count));
  }
  return static_cast<std::int64_t>(sample[0] + sample[1] + batch[0] + batch[1]);
}

}  // namespace starling::data
