#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "starling/tensor/tensor.h"

// Arrays of HDF5 files, contiguous or chunked, compressed or not, read in slices: a file may be larger than memory. All
// functions throw "[hdf5] <file>: expected …, got …", also in builds without libhdf5. One lock guards the library.
//
// libhdf5 can crash or loop on a damaged file. So listing a file and opening an array are tried in a child process
// first, and a file that the child does not survive is an error like any other. Reading samples of an array that was
// opened happens in this process: a damaged size of chunks that is no larger than the array is not noticed before, and
// may still make libhdf5 read behind a chunk. Do not read files of strangers.
namespace starling::data {

bool has_hdf5();  // true if this build has libhdf5

// An array of an open file, samples along the first axis. Reading is const and thread-safe.
class Hdf5Array {
 public:
  virtual ~Hdf5Array() = default;
  virtual const TensorType& type() const = 0;  // of the whole array; rank 1 at least
  // Reads samples first, …, first + count - 1, row-major, into `to`, which has exactly their bytes.
  virtual void read(std::int64_t first, std::int64_t count, std::span<std::byte> to) const = 0;
};

struct Hdf5Entry {
  std::string name{};                // path in the file: "train/x"
  std::optional<TensorType> type{};  // absent if the elements are not numbers that tensors have
  std::string what{};                // name of their type then: "text", "compound", …
};

// Arrays of a file with those of its groups, in the order of their names. Links to other files are not followed.
std::vector<Hdf5Entry> list_hdf5(const std::filesystem::path& path);

// Opens an array: floats of 16, 32 and 64 bits (bfloat16 too), integers of 8 to 64 bits, h5py's bools; in either byte
// order. With `as`, numbers are converted while they are read; those out of range become the nearest in range.
std::shared_ptr<const Hdf5Array> open_hdf5(const std::filesystem::path& path, const std::string& name,
                                           std::optional<DType> as = {});

struct Hdf5Options {
  std::uint64_t most_bytes = std::uint64_t{64} << 30;  // limit of one array in memory
};

// Reads a whole array.
Tensor read_hdf5(const std::filesystem::path& path, const std::string& name, const Hdf5Options& options = {});
Tensor read_hdf5(const Hdf5Array& array);

}  // namespace starling::data
