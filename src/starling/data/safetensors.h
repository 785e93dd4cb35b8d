#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "starling/base/file.h"
#include "starling/base/result.h"
#include "starling/data/host_bytes.h"
#include "starling/data/safetensors_header.h"
#include "starling/tensor/tensor.h"

namespace starling {

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
  // Throw when there is no such tensor (naming the nearest) and when a bool is neither 0 nor 1.
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

// Writes tensors to the file, one at a time: a dense tensor on a CPU is written from where it is, any other through one
// copy of it. They keep their order, except that wider dtypes come first, which keeps every tensor aligned. Any layout
// of memory and any device may be given. Throws on misuse (a name given twice or not UTF-8, a traced tensor).
Result<void> write_safetensors(FileWriter& file, std::span<const NamedTensor> tensors,
                               const SafetensorsMetadata& metadata = {});

// The same as a whole file that appears at once, durable.
Result<void> write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                               const SafetensorsMetadata& metadata = {});

}  // namespace starling
