#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling {

// Samples that can be asked for by number. A sample has one or more fields (an image, its label). Reading is const and
// may happen on any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual std::vector<TensorType> fields() const = 0;  // of one sample, without the batch axis

  // Writes field f of sample rows[i] to out[f][i]. Each out[f] is dense on a CPU: fields()[f] with rows.size() before
  // it.
  virtual void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const = 0;
};

// Samples held in memory: one dense tensor on a CPU per field, samples along the first axis.
class TensorDataset final : public Dataset {
 public:
  explicit TensorDataset(std::vector<Tensor> columns);
  std::int64_t size() const override;
  std::vector<TensorType> fields() const override;
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override;
  // The same of column `first` and those after it; out still has a tensor for each.
  void gather_columns(std::span<const std::int64_t> rows, std::span<const Tensor> out, std::size_t first) const;

 private:
  std::vector<Tensor> columns_;
};

}  // namespace starling
