#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "starling/base/file/file.h"
#include "starling/base/result.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/tensor/tensor.h"

namespace starling::data {

struct NpyOptions {
  std::uint64_t most_bytes = std::uint64_t{64} << 30;  // limit of one array after decompression
};

// Reads a NumPy array. Row-major data in native byte order is a read-only view of the mapped file, so arrays may be
// larger than memory; other data is copied into a contiguous tensor. bfloat16 is '|V2', as ml_dtypes writes it. Throws
// "[npy] <file>: expected …, got …".
Tensor read_npy(const std::filesystem::path& path, const NpyOptions& options = {});
Tensor parse_npy(std::span<const std::byte> file, const std::string& name, const NpyOptions& options = {});  // a copy
Result<void> write_npy(const std::filesystem::path& path, const Tensor& tensor);
std::string format_npy(const Tensor& tensor);  // contents of an .npy file

// Reads an .npz archive, stored or deflated. Names are without their ".npy". Checksums are verified.
std::vector<NamedTensor> read_npz(const std::filesystem::path& path, const NpyOptions& options = {});
std::vector<NamedTensor> parse_npz(std::span<const std::byte> file, const std::string& name,
                                   const NpyOptions& options = {});
// Reads one array of an archive without decompressing the others. Throws on an unknown name, listing the existing ones.
Tensor read_npz_array(const std::filesystem::path& path, const std::string& array, const NpyOptions& options = {});
struct NpzOptions {
  bool compress = false;
};
Result<void> write_npz(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const NpzOptions& options = {});

}  // namespace starling::data
