#include "starling/data/formats/hdf5/array.h"

#include <algorithm>
#include <array>
#include <limits>

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/data/formats/hdf5.h"
#include "starling/data/formats/hdf5/element_type.h"
#include "starling/data/formats/hdf5/rehearsal.h"
#include "starling/tensor/bytes.h"

namespace starling::data {
namespace {

using Sizes = std::array<hsize_t, H5S_MAX_RANK>;

constexpr std::size_t kLeastCache = std::size_t{1} << 20;     // bytes of chunks that are kept unpacked
constexpr std::size_t kMostCache = std::size_t{256} << 20;    // so that a large chunk is still unpacked once a batch
constexpr std::uint64_t kMostChunk = std::uint64_t{1} << 30;  // of bytes; the library unpacks a chunk as a whole
constexpr std::uint64_t kMostSample = std::uint64_t{4} << 30;
constexpr std::size_t kCacheSlots = 12421;  // a prime

[[noreturn]] void refuse_name(const std::string& path, const std::string& name, const std::string& error) {
  std::vector<std::string> names;
  for (const auto& entry : list_hdf5(path)) names.push_back(entry.name);
  check(std::find(names.begin(), names.end(), name) == names.end(), "[hdf5] {}: expected to open '{}', got: {}", path,
        name, error);
  const std::string near = nearest(name, names);
  const std::string first = names.empty() ? "" : " such as '" + names.front() + "'";
  fail("[hdf5] {}: expected one of its {} arrays{}, got '{}'{}", path, names.size(), first, name,
       near.empty() ? "" : " (did you mean '" + near + "'?)");
}

// Bytes of the chunks that one sample lies in.
std::size_t chunk_cache(hid_t properties, const TensorType& type, const std::string& where) {
  Sizes chunk{};
  if (H5Pget_layout(properties) != H5D_CHUNKED) return kLeastCache;
  check(H5Pget_chunk(properties, H5S_MAX_RANK, chunk.data()) == type.shape.rank(),
        "[hdf5] {}: expected chunks of {} axes, got others", where, type.shape.rank());
  double bytes = static_cast<double>(size_of(type.dtype)), chunks = 1;
  for (int axis = 0; axis < type.shape.rank(); ++axis) {
    const auto size = std::max<double>(1, static_cast<double>(chunk[static_cast<std::size_t>(axis)]));
    bytes *= size;
    if (axis > 0) chunks *= std::max(1.0, static_cast<double>(type.shape[axis]) / size + 1);
  }
  check(bytes <= static_cast<double>(kMostChunk), "[hdf5] {}: expected chunks of at most {} bytes, got {:.0f}", where,
        kMostChunk, bytes);
  return static_cast<std::size_t>(
      std::clamp(bytes * chunks, static_cast<double>(kLeastCache), static_cast<double>(kMostCache)));
}

// Make and destroy it under Hdf5Library.
class OpenArray final : public Hdf5Array {
 public:
  OpenArray(const std::string& path, const std::string& name, std::optional<DType> as)
      : where_(path + ":" + name), file_(open_hdf5_file(path)) {
    open(name, H5P_DEFAULT);
    if (!dataset_.valid()) return;
    read_type(as);
    cache_chunks(name);
    if (!dataset_.valid()) return;
    check_storage();
    try_elements();
  }
  bool found() const { return dataset_.valid(); }
  const std::string& why_not() const { return error_; }
  const TensorType& type() const override { return type_; }
  void read(std::int64_t first, std::int64_t count, std::span<std::byte> to) const override {
    const Hdf5Library library;
    read_slice(first, count, to);
  }

 private:
  void open(const std::string& name, hid_t access) {
    dataset_ = Hdf5Id(H5Dopen2(file_.get(), name.c_str(), access), H5Dclose);
    if (!dataset_.valid()) error_ = Hdf5Library::last_error();
  }
  void read_type(std::optional<DType> as) {
    const Hdf5Id stored(H5Dget_type(dataset_.get()), H5Tclose);
    const auto dtype = dtype_of_hdf5(stored.get());
    check(dtype.has_value(), "[hdf5] {}: expected numbers, got {}", where_, describe_hdf5(stored.get()));
    const bool converts = as && *dtype != DType::boolean && *as != DType::boolean;
    type_ = {converts ? *as : *dtype, shape_of_hdf5(dataset_.get(), where_)};
    check(type_.shape.rank() > 0, "[hdf5] {}: expected an array with samples along its first axis, got one number",
          where_);
    memory_ = memory_type(type_.dtype, stored.get());
    check(memory_.valid(), "[hdf5] {}: expected a type for {}, got: {}", where_, starling::name(type_.dtype),
          Hdf5Library::last_error());
  }
  // Opens the array again with room for the chunks of a sample: the library's own megabyte may hold none.
  void cache_chunks(const std::string& name) {
    const Hdf5Id made(H5Dget_create_plist(dataset_.get()), H5Pclose), access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
    check(made.valid() && access.valid(), "[hdf5] {}: expected its properties, got: {}", where_,
          Hdf5Library::last_error());
    H5Pset_chunk_cache(access.get(), kCacheSlots, chunk_cache(made.get(), type_, where_), 1.0);
    dataset_.reset();
    open(name, access.get());
  }
  // No chunk is larger than an array that cannot grow. The library checks it when it writes; when it reads a damaged
  // size, it copies from behind the chunk that it has unpacked.
  void check_chunk_sizes(hid_t properties, hid_t space) const {
    Sizes chunk{}, sizes{}, most{};
    H5Pget_chunk(properties, H5S_MAX_RANK, chunk.data());
    H5Sget_simple_extent_dims(space, sizes.data(), most.data());
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(type_.shape.rank()); ++axis) {
      check(most[axis] == H5S_UNLIMITED || chunk[axis] <= most[axis],
            "[hdf5] {}: expected chunks of at most {} along axis {}, got {}", where_, most[axis], axis, chunk[axis]);
    }
  }
  // Finds a damaged index of chunks, or a shape that is not that of the data, while the array is being opened.
  void check_storage() const {
    const Hdf5Id made(H5Dget_create_plist(dataset_.get()), H5Pclose), space(H5Dget_space(dataset_.get()), H5Sclose);
    const Hdf5Id stored(H5Dget_type(dataset_.get()), H5Tclose);
    const auto layout = H5Pget_layout(made.get());
    hsize_t count = 0;
    if (layout == H5D_CHUNKED) check_chunk_sizes(made.get(), space.get());
    check(layout != H5D_CHUNKED || H5Dget_num_chunks(dataset_.get(), space.get(), &count) >= 0,
          "[hdf5] {}: expected an index of its chunks, got: {}", where_, Hdf5Library::last_error());
    const auto bytes = static_cast<hsize_t>(type_.shape.numel()) * H5Tget_size(stored.get());
    const auto kept = H5Dget_storage_size(dataset_.get());
    check(layout != H5D_CONTIGUOUS || kept == 0 || kept == bytes, "[hdf5] {}: expected {} bytes for {}, got {}", where_,
          bytes, to_string(type_), kept);
    const auto sample = bytes_of(type_) / static_cast<std::size_t>(std::max<std::int64_t>(1, type_.shape[0]));
    check(sample <= kMostSample, "[hdf5] {}: expected at most {} bytes a sample, got {} for {}", where_, kMostSample,
          sample, to_string(type_));
  }
  // Reads the first and the last element, and so converts what is to be converted and unpacks what is packed.
  void try_elements() const {
    if (type_.shape.numel() == 0) return;
    std::array<std::byte, 8> element{};
    for (const bool last : {false, true}) {
      Sizes begin{}, size{};
      for (int axis = 0; axis < type_.shape.rank(); ++axis) {
        begin[static_cast<std::size_t>(axis)] = last ? static_cast<hsize_t>(type_.shape[axis] - 1) : 0;
        size[static_cast<std::size_t>(axis)] = 1;
      }
      check(read_block(begin, size, element.data()), "[hdf5] {}: expected to read its {} element, got: {}", where_,
            last ? "last" : "first", Hdf5Library::last_error());
    }
  }
  bool read_block(const Sizes& begin, const Sizes& size, void* to) const {
    const Hdf5Id from(H5Dget_space(dataset_.get()), H5Sclose);
    const Hdf5Id into(H5Screate_simple(type_.shape.rank(), size.data(), nullptr), H5Sclose);
    return from.valid() && into.valid() &&
           H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, begin.data(), nullptr, size.data(), nullptr) >= 0 &&
           H5Dread(dataset_.get(), memory_.get(), into.get(), from.get(), H5P_DEFAULT, to) >= 0;
  }
  void read_slice(std::int64_t first, std::int64_t count, std::span<std::byte> to) const {
    check(first >= 0 && count >= 0 && first <= type_.shape[0] - count,
          "[hdf5] {}: expected samples below {}, got {} to {}", where_, type_.shape[0], first, first + count - 1);
    Shape shape = type_.shape;
    shape[0] = count;
    check(to.size() == bytes_of(shape, type_.dtype), "[hdf5] {}: expected {} bytes to read into, got {}", where_,
          bytes_of(shape, type_.dtype), to.size());
    if (to.empty()) return;
    Sizes begin{}, size{};
    begin[0] = static_cast<hsize_t>(first);
    std::copy(shape.begin(), shape.end(), size.begin());
    check(read_block(begin, size, to.data()), "[hdf5] {}: expected to read samples {} to {}, got: {}", where_, first,
          first + count - 1, Hdf5Library::last_error());
    check(type_.dtype != DType::boolean ||
              std::all_of(to.begin(), to.end(), [](std::byte b) { return b <= std::byte{1}; }),
          "[hdf5] {}: expected bools of 0 and 1, got others", where_);
  }

  std::string where_;
  std::string error_;
  Hdf5Id file_, dataset_, memory_;
  TensorType type_{};
};

void close_array(const OpenArray* array) {
  const Hdf5Library library;
  delete array;
}

}  // namespace

Shape shape_of_hdf5(hid_t dataset, const std::string& where) {
  const Hdf5Id space(H5Dget_space(dataset), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  check(rank >= 0 && rank <= kMaxRank && H5Sget_simple_extent_type(space.get()) != H5S_NULL,
        "[hdf5] {}: expected an array of at most {} axes, got {}", where, kMaxRank,
        rank > kMaxRank ? std::to_string(rank) : "none");
  Sizes sizes{};
  H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr);
  Shape shape;
  double bytes = 8;
  for (int axis = 0; axis < rank; ++axis) {
    const auto size = sizes[static_cast<std::size_t>(axis)];
    bytes *= static_cast<double>(std::max<hsize_t>(size, 1));
    check(bytes < static_cast<double>(std::int64_t{1} << 62), "[hdf5] {}: expected less than 2^62 bytes, got more",
          where);
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

bool has_hdf5() { return true; }

std::shared_ptr<const Hdf5Array> open_hdf5(const std::filesystem::path& path, const std::string& name,
                                           std::optional<DType> as) {
  std::string error;
  {
    const Hdf5Library library;
    auto array = rehearsed(path.string(), [&] { return std::make_unique<OpenArray>(path.string(), name, as); });
    if (array->found()) return {array.release(), close_array};
    error = array->why_not();
  }
  refuse_name(path.string(), name, error);
}

}  // namespace starling::data
