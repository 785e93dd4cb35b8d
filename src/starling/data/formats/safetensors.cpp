#include "starling/data/formats/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"

namespace starling::data {
namespace {

constexpr std::size_t kMostSuggested = 1000;  // names searched for the nearest one

std::vector<std::size_t> data_order(std::span<const NamedTensor> tensors) {
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(tensors[a].tensor.dtype()) > size_of(tensors[b].tensor.dtype());
  });
  return order;
}

void check_names(std::span<const NamedTensor> tensors) {
  std::set<std::string_view> seen;
  for (const auto& [name, tensor] : tensors) {
    check(tensor.defined() && !tensor.traced(), "[safetensors] expected a tensor with data for '{}', got none", name);
    check(name != "__metadata__" && seen.insert(name).second,
          "[safetensors] expected each tensor once and none named '__metadata__', got '{}'", name);
  }
  check(tensors.size() <= kSafetensorsMostTensors, "[safetensors] expected at most {} tensors, got {}",
        kSafetensorsMostTensors, tensors.size());
}

std::string make_header(std::span<const NamedTensor> tensors, std::span<const std::size_t> order,
                        const SafetensorsMetadata& metadata) {
  SafetensorsHeader header;
  header.metadata = metadata;
  for (auto i : order) header.entries.push_back({.name = tensors[i].name, .type = tensors[i].tensor.type()});
  try {
    std::string text = format_safetensors_header(header);
    check(text.size() - 8 <= kSafetensorsMostHeader, "[safetensors] expected a header of at most {} bytes, got {}",
          kSafetensorsMostHeader, text.size() - 8);
    return text;
  } catch (const nlohmann::json::exception& error) {
    fail("[safetensors] expected names and metadata in UTF-8, got: {}", error.what());
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::shared_ptr<const MappedFile> file, std::string name, SafetensorsHeader header)
    : file_(std::move(file)), name_(std::move(name)), header_(std::move(header)) {
  for (std::size_t i = 0; i < header_.entries.size(); ++i) index_.emplace(header_.entries[i].name, i);
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  auto file = MappedFile::map(path);
  if (!file) return file.failure();
  return open(std::move(*file), path.string());
}

Result<SafetensorsFile> SafetensorsFile::open(std::shared_ptr<const MappedFile> file, const std::string& name) {
  return attempt([&] {
    auto header = parse_safetensors_header(file->bytes(), name);
    return SafetensorsFile(std::move(file), name, std::move(header));
  });
}

bool SafetensorsFile::contains(std::string_view name) const { return index_.find(name) != index_.end(); }

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const auto found = index_.find(name);
  if (found != index_.end()) return view(header_.entries[found->second]);
  std::vector<std::string> names;
  for (const auto& entry : header_.entries) {
    if (names.size() < kMostSuggested) names.push_back(entry.name);
  }
  const std::string near = nearest(name, names);
  fail("[safetensors] {}: expected one of {} tensors, got '{}'{}", name_, header_.entries.size(), name,
       near.empty() ? "" : " (did you mean '" + near + "'?)");
}

std::vector<NamedTensor> SafetensorsFile::tensors() const {
  std::vector<NamedTensor> all;
  all.reserve(header_.entries.size());
  for (const auto& entry : header_.entries) all.push_back({entry.name, view(entry)});
  return all;
}

Tensor SafetensorsFile::view(const SafetensorsEntry& entry) const {
  const auto bytes = file_->bytes().subspan(header_.data_begin + entry.begin, entry.end - entry.begin);
  // Reading any other byte as bool is undefined behaviour.
  check(entry.type.dtype != DType::boolean ||
            std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b <= std::byte{1}; }),
        "[safetensors] {}: expected 0 or 1 in '{}' of bool, got other bytes", name_, entry.name);
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % size_of(entry.type.dtype) != 0) {
    Tensor copy = empty(entry.type.shape, entry.type.dtype);
    if (!bytes.empty()) std::memcpy(copy.raw(), bytes.data(), bytes.size());
    return copy;
  }
  Ref<Storage> storage = new Storage(
      kCpu, const_cast<std::byte*>(bytes.data()), bytes.size(), [keep = file_](void*) {}, true);
  return from_storage(std::move(storage), entry.type.dtype, entry.type.shape);
}

std::vector<std::size_t> safetensors_order(std::span<const NamedTensor> tensors) {
  check_names(tensors);
  return data_order(tensors);
}

std::string safetensors_head(std::span<const NamedTensor> tensors, const SafetensorsMetadata& metadata) {
  return make_header(tensors, safetensors_order(tensors), metadata);
}

Result<void> write_safetensors(FileWriter& file, std::span<const NamedTensor> tensors,
                               const SafetensorsMetadata& metadata) {
  Result<void> result = file.write(safetensors_head(tensors, metadata));
  for (auto i : data_order(tensors)) {
    if (!result) return result;
    for_host_pieces(tensors[i].tensor, [&](std::span<const std::byte> bytes) {
      result = file.write(bytes);
      return result.ok();
    });
  }
  return result;
}

Result<void> write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                               const SafetensorsMetadata& metadata) {
  TemporaryFile temporary(path);
  auto file = FileWriter::create(temporary.path());
  if (!file) return file.failure();
  if (auto result = write_safetensors(*file, tensors, metadata); !result) return result;
  if (auto result = file->finish(); !result) return result;
  return temporary.publish();
}

}  // namespace starling::data
