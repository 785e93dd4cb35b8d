#pragma once

#include <memory>
#include <vector>

#include "starling/data/datasets/dataset.h"
#include "starling/data/formats/hdf5.h"

namespace starling::data {

// Arrays of HDF5 files, a field of the samples each. Small arrays are read at once; of others, the samples that are
// asked for, in the order of the file, so that a chunk is unpacked once a batch. Threads that gather take turns.
class Hdf5Dataset final : public Dataset {
 public:
  static constexpr std::size_t kHeld = std::size_t{64} << 20;  // bytes up to which an array is kept in memory
  explicit Hdf5Dataset(std::vector<std::shared_ptr<const Hdf5Array>> columns, std::size_t held = kHeld);

  std::int64_t size() const override { return size_; }
  std::vector<TensorType> fields() const override;
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override;

 private:
  struct Column {
    std::shared_ptr<const Hdf5Array> array;
    Tensor held{};  // undefined if samples are read when asked for
  };
  void read_rows(const Column& column, std::span<const std::int64_t> rows, const Tensor& out) const;

  std::vector<Column> columns_;
  std::int64_t size_ = 0;
};

}  // namespace starling::data
