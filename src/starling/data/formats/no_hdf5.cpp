#include "starling/base/error.h"
#include "starling/data/formats/hdf5.h"

namespace starling::data {
namespace {

[[noreturn]] void refuse_hdf5(const std::filesystem::path& path) {
  fail("[hdf5] {}: expected a build with HDF5 (apt install libhdf5-dev, then build again), got one without",
       path.string());
}

}  // namespace

bool has_hdf5() { return false; }

std::vector<Hdf5Entry> list_hdf5(const std::filesystem::path& path) { refuse_hdf5(path); }

std::shared_ptr<const Hdf5Array> open_hdf5(const std::filesystem::path& path, const std::string&,
                                           std::optional<DType>) {
  refuse_hdf5(path);
}

}  // namespace starling::data
