#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "starling/base/file/file.h"
#include "starling/base/result.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/data/formats/safetensors_header.h"
#include "starling/tensor/tensor.h"

namespace starling::data {

// A safetensors file opened for reading: memory-mapped, so opening costs the header only. Tensors are read-only views
// of the mapping, which lives as long as any of them. A tensor that does not begin at a multiple of its element's size
// is copied.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  static Result<SafetensorsFile> open(std::shared_ptr<const MappedFile> file, const std::string& name);

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }  // in the order of the data
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  bool contains(std::string_view name) const;
  // Tensor of that name, and all tensors of the file. A bool that is neither 0 nor 1 throws, as does an unknown name,
  // with the nearest known one.
  Tensor tensor(std::string_view name) const;
  std::vector<NamedTensor> tensors() const;

 private:
  SafetensorsFile(std::shared_ptr<const MappedFile> file, std::string name, SafetensorsHeader header);
  Tensor view(const SafetensorsEntry& entry) const;

  std::shared_ptr<const MappedFile> file_;
  std::string name_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// Parts of such a file, for writers that stop between tensors: the order of the tensors' bytes, and all that comes
// before the first. Throw on misuse (a name given twice or not UTF-8, a traced tensor).
std::vector<std::size_t> safetensors_order(std::span<const NamedTensor> tensors);
std::string safetensors_head(std::span<const NamedTensor> tensors, const SafetensorsMetadata& metadata = {});

// Writes tensors one at a time: a contiguous CPU tensor from where it lies, any other (any strides, any device) through
// one copy. Tensors keep their order, except that wider dtypes come first, so that all are aligned. Throws on misuse (a
// name given twice or not UTF-8, a traced tensor).
Result<void> write_safetensors(FileWriter& file, std::span<const NamedTensor> tensors,
                               const SafetensorsMetadata& metadata = {});

// Writes a whole file atomically and durably.
Result<void> write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                               const SafetensorsMetadata& metadata = {});

}  // namespace starling::data
