#include "starling/data/formats/npy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/base/file/mapped_guard.h"
#include "starling/data/formats/npy_header.h"
#include "starling/data/formats/zip.h"
#include "starling/tensor/bytes.h"

namespace starling::data {
namespace {

constexpr std::string_view kSuffix = ".npy";

NpyHeader checked_header(std::span<const std::byte> file, const std::string& name, const NpyOptions& options) {
  NpyHeader header = parse_npy_header(file, name);
  const auto bytes = bytes_of(header.type);
  check(bytes <= options.most_bytes, "[npy] {}: expected at most {} bytes of data, got {} for {}", name,
        options.most_bytes, bytes, to_string(header.type));
  check(file.size() - header.data_begin == bytes, "[npy] {}: expected {} bytes of data for {}, got {}", name, bytes,
        to_string(header.type), file.size() - header.data_begin);
  if (header.type.dtype == DType::boolean) {
    const auto data = file.subspan(header.data_begin);
    check(std::all_of(data.begin(), data.end(), [](std::byte b) { return b <= std::byte{1}; }),
          "[npy] {}: expected bools of 0 and 1, got others", name);
  }
  return header;
}

void swap_elements(std::byte* data, std::int64_t count, std::size_t size) {
  for (std::int64_t i = 0; i < count; ++i, data += size) std::reverse(data, data + size);
}

// Copies column-major data to row-major.
void reorder(const std::byte* from, std::byte* to, const TensorType& type) {
  const std::size_t size = size_of(type.dtype);
  const int rank = type.shape.rank();
  Shape stride = Shape::filled(rank, 1), index = Shape::filled(rank, 0);
  for (int axis = 1; axis < rank; ++axis) stride[axis] = stride[axis - 1] * type.shape[axis - 1];
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < type.shape.numel(); ++i, to += size) {
    std::memcpy(to, from + static_cast<std::size_t>(at) * size, size);
    for (int axis = rank - 1; axis >= 0; --axis) {
      at += stride[axis];
      if (++index[axis] < type.shape[axis]) break;
      at -= stride[axis] * type.shape[axis];
      index[axis] = 0;
    }
  }
}

Tensor copied(std::span<const std::byte> file, const NpyHeader& header) {
  Tensor tensor = empty(header.type.shape, header.type.dtype);
  if (tensor.numel() == 0) return tensor;
  auto* to = static_cast<std::byte*>(tensor.raw());
  const std::byte* from = file.data() + header.data_begin;
  if (header.fortran_order && header.type.shape.rank() > 1) {
    reorder(from, to, header.type);
  } else {
    std::memcpy(to, from, file.size() - header.data_begin);
  }
  check_mapped(file.data());
  if (header.swapped) swap_elements(to, tensor.numel(), size_of(header.type.dtype));
  return tensor;
}

std::string entry_name(const std::string& name) {
  check(!name.empty(), "[npz] expected names of arrays, got an empty one");
  return name + std::string(kSuffix);
}

std::string array_name(const ZipArchive& zip, const ZipEntry& entry) {
  check(entry.name.ends_with(kSuffix), "[npz] {}: expected entries that end with .npy, got '{}'", zip.name(),
        entry.name);
  return entry.name.substr(0, entry.name.size() - kSuffix.size());
}

Tensor array_of(const ZipArchive& zip, const ZipEntry& entry, const NpyOptions& options) {
  return parse_npy(zip.read(entry, options.most_bytes), zip.name() + ":" + entry.name, options);
}

}  // namespace

Tensor parse_npy(std::span<const std::byte> file, const std::string& name, const NpyOptions& options) {
  return copied(file, checked_header(file, name, options));
}

Tensor read_npy(const std::filesystem::path& path, const NpyOptions& options) {
  auto file = MappedFile::map(path).value();
  const auto bytes = file->bytes();
  const NpyHeader header = checked_header(bytes, path.string(), options);
  const bool aligned = header.data_begin % size_of(header.type.dtype) == 0;
  if (header.swapped || !aligned || (header.fortran_order && header.type.shape.rank() > 1) ||
      header.type.shape.numel() == 0) {
    return copied(bytes, header);
  }
  auto* data = const_cast<std::byte*>(bytes.data() + header.data_begin);
  Ref<Storage> storage = new Storage(
      kCpu, data, bytes.size() - header.data_begin, [file](void*) {}, true);
  return from_storage(std::move(storage), header.type.dtype, header.type.shape);
}

std::string format_npy(const Tensor& tensor) {
  const Tensor dense = on_host(tensor);
  const auto bytes = host_bytes(dense);
  std::string file = format_npy_header(dense.type());
  file.append(as_text(bytes));
  return file;
}

Result<void> write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  const Tensor dense = on_host(tensor);
  TemporaryFile temporary(path);
  auto file = FileWriter::create(temporary.path());
  if (!file) return file.failure();
  if (auto done = file->write(format_npy_header(dense.type())); !done) return done;
  if (auto done = file->write(host_bytes(dense)); !done) return done;
  if (auto done = file->finish(); !done) return done;
  return temporary.publish();
}

std::vector<NamedTensor> read_npz(const std::filesystem::path& path, const NpyOptions& options) {
  const auto file = MappedFile::map(path).value();
  return parse_npz(file->bytes(), path.string(), options);
}

std::vector<NamedTensor> parse_npz(std::span<const std::byte> file, const std::string& name,
                                   const NpyOptions& options) {
  const ZipArchive zip(file, name);
  std::vector<NamedTensor> arrays;
  for (const auto& entry : zip.entries()) arrays.push_back({array_name(zip, entry), array_of(zip, entry, options)});
  return arrays;
}

Tensor read_npz_array(const std::filesystem::path& path, const std::string& array, const NpyOptions& options) {
  const auto file = MappedFile::map(path).value();
  const ZipArchive zip(file->bytes(), path.string());
  std::vector<std::string> names;
  for (const auto& entry : zip.entries()) {
    names.push_back(array_name(zip, entry));
    if (names.back() == array) return array_of(zip, entry, options);
  }
  fail("[npz] {}: expected an array '{}', got {}{}", zip.name(), array, fmt::join(names, ", "),
       names.empty() ? "none" : "");
}

Result<void> write_npz(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const NpzOptions& options) {
  TemporaryFile temporary(path);
  auto file = FileWriter::create(temporary.path());
  if (!file) return file.failure();
  ZipWriter zip(*file, options.compress);
  for (const auto& [name, tensor] : tensors) {
    const std::string bytes = format_npy(tensor);
    if (auto done = zip.add(entry_name(name), std::as_bytes(std::span(bytes))); !done) return done;
  }
  if (auto done = zip.finish(); !done) return done;
  if (auto done = file->finish(); !done) return done;
  return temporary.publish();
}

}  // namespace starling::data
