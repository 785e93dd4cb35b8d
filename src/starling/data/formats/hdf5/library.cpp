#include "starling/data/formats/hdf5/library.h"

#include <filesystem>

#include "starling/base/error.h"

namespace starling::data {
namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

// Called from the outermost function that failed to the innermost, which knows most.
herr_t keep_message(unsigned, const H5E_error2_t* error, void* into) {
  if (error != nullptr && error->desc != nullptr) *static_cast<std::string*>(into) = error->desc;
  return 0;
}

}  // namespace

Hdf5Library::Hdf5Library() : lock_(library_mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Hdf5Library::~Hdf5Library() { H5Eset_auto2(H5E_DEFAULT, print_, print_data_); }

std::string Hdf5Library::last_error() {
  std::string message;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_message, &message);
  return message.empty() ? "an error without a message" : message;
}

Hdf5Id open_hdf5_file(const std::string& path) {
  check(std::filesystem::is_regular_file(path), "[hdf5] expected a file, got {}, which is none", path);
  Hdf5Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  check(file.valid(), "[hdf5] {}: expected an HDF5 file that is whole, got: {}", path, Hdf5Library::last_error());
  return file;
}

}  // namespace starling::data
