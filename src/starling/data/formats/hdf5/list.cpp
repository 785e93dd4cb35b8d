#include "starling/base/error.h"
#include "starling/data/formats/hdf5.h"
#include "starling/data/formats/hdf5/array.h"
#include "starling/data/formats/hdf5/element_type.h"
#include "starling/data/formats/hdf5/rehearsal.h"

namespace starling::data {
namespace {

herr_t keep_dataset(hid_t, const char* name, const H5O_info_t* info, void* into) {
  if (info->type == H5O_TYPE_DATASET) static_cast<std::vector<std::string>*>(into)->emplace_back(name);
  return 0;
}

Hdf5Entry entry_of(hid_t file, const std::string& path, const std::string& name) {
  const Hdf5Id dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
  check(dataset.valid(), "[hdf5] {}: expected to open '{}', got: {}", path, name, Hdf5Library::last_error());
  const Hdf5Id type(H5Dget_type(dataset.get()), H5Tclose), space(H5Dget_space(dataset.get()), H5Sclose);
  Hdf5Entry entry{.name = name};
  const auto dtype = dtype_of_hdf5(type.get());
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) {
    entry.what = "nothing";
  } else if (dtype) {
    entry.type = TensorType{*dtype, shape_of_hdf5(dataset.get(), path + ":" + name)};
  } else {
    entry.what = describe_hdf5(type.get());
  }
  return entry;
}

std::vector<Hdf5Entry> list_file(const std::string& path) {
  const Hdf5Id file = open_hdf5_file(path);
  std::vector<std::string> names;
  check(H5Ovisit(file.get(), H5_INDEX_NAME, H5_ITER_INC, keep_dataset, &names) >= 0,
        "[hdf5] {}: expected groups and arrays, got: {}", path, Hdf5Library::last_error());
  std::vector<Hdf5Entry> entries;
  entries.reserve(names.size());
  for (const auto& name : names) entries.push_back(entry_of(file.get(), path, name));
  return entries;
}

}  // namespace

std::vector<Hdf5Entry> list_hdf5(const std::filesystem::path& path) {
  const Hdf5Library library;
  return rehearsed(path.string(), [&] { return list_file(path.string()); });
}

}  // namespace starling::data
