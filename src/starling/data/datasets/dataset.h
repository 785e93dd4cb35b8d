#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling {

// Map-style data set: samples by index. A sample has one or more fields (an image, its label). Reading is const and
// thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual std::vector<TensorType> fields() const = 0;  // types of one sample's fields, without the batch axis

  // Writes field f of sample rows[i] to out[f][i]. out[f] is contiguous on the CPU, with shape [rows.size(),
  // fields()[f]…].
  virtual void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const = 0;
};

// Samples held in memory: one contiguous CPU tensor per field, samples along the first axis.
class TensorDataset final : public Dataset {
 public:
  explicit TensorDataset(std::vector<Tensor> columns);
  std::int64_t size() const override;
  std::vector<TensorType> fields() const override;
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override;
  // As gather(), but only writes columns from `first` on; `out` still has a tensor for every column.
  void gather_columns(std::span<const std::int64_t> rows, std::span<const Tensor> out, std::size_t first) const;

 private:
  std::vector<Tensor> columns_;
};

}  // namespace starling
