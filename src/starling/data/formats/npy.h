#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "starling/base/file.h"
#include "starling/base/result.h"
#include "starling/data/host_bytes.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct NpyOptions {
  std::uint64_t most_bytes = std::uint64_t{64} << 30;  // of one array after unpacking
};

// NumPy's arrays. Row-major data in this machine's order of bytes is a read-only view of the mapped file, so that
// arrays larger than memory can be used; other data is copied into a dense row-major tensor. bfloat16 is '|V2', as
// ml_dtypes writes it. Throws "[npy] <file>: expected …, got …".
Tensor read_npy(const std::filesystem::path& path, const NpyOptions& options = {});
Tensor parse_npy(std::span<const std::byte> file, const std::string& name, const NpyOptions& options = {});  // a copy
Result<void> write_npy(const std::filesystem::path& path, const Tensor& tensor);
std::string format_npy(const Tensor& tensor);  // the whole file

// Archives of arrays: zip files, entries stored or deflated, whose names end with ".npy" (left out here). Checksums are
// checked.
std::vector<NamedTensor> read_npz(const std::filesystem::path& path, const NpyOptions& options = {});
std::vector<NamedTensor> parse_npz(std::span<const std::byte> file, const std::string& name,
                                   const NpyOptions& options = {});
// One array of an archive: the others are not unpacked. Throws naming those there are where there is none of that name.
Tensor read_npz_array(const std::filesystem::path& path, const std::string& array, const NpyOptions& options = {});
struct NpzOptions {
  bool compress = false;
};
Result<void> write_npz(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const NpzOptions& options = {});

}  // namespace starling
