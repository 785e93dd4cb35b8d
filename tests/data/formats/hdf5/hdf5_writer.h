#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <string>
#include <vector>

namespace starling::testing {

// How the elements of an array lie in the file.
struct Hdf5Layout {
  std::vector<hsize_t> chunk{};  // empty: contiguous
  bool compress = false;
};

// Writes an HDF5 file through the C library. Groups in names are made as needed.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(const std::filesystem::path& path, bool latest = false) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (latest) H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    file_ = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    EXPECT_GE(file_, 0) << path;
    H5Pclose(access);
  }
  ~Hdf5Writer() { H5Fclose(file_); }
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  // An array of numbers of `type` in the file. No values: space is promised and never written.
  void add(const std::string& name, hid_t type, const std::vector<hsize_t>& sizes, const std::vector<double>& values,
           const Hdf5Layout& layout = {}) const {
    add_as(name, type, H5T_NATIVE_DOUBLE, sizes, values.empty() ? nullptr : values.data(), layout);
  }
  // As h5py writes np.bool_.
  void add_bools(const std::string& name, const std::vector<signed char>& values) const {
    const hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
    const signed char no = 0, yes = 1;
    H5Tenum_insert(type, "FALSE", &no);
    H5Tenum_insert(type, "TRUE", &yes);
    add_as(name, type, type, {values.size()}, values.data(), {});
    H5Tclose(type);
  }
  void add_text(const std::string& name, const std::vector<const char*>& words) const {
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    add_as(name, type, type, {words.size()}, words.data(), {});
    H5Tclose(type);
  }

 private:
  void add_as(const std::string& name, hid_t type, hid_t memory, const std::vector<hsize_t>& sizes, const void* values,
              const Hdf5Layout& layout) const {
    const hid_t space =
        sizes.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
    const hid_t links = H5Pcreate(H5P_LINK_CREATE), made = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    if (!layout.chunk.empty()) H5Pset_chunk(made, static_cast<int>(layout.chunk.size()), layout.chunk.data());
    if (layout.compress) {
      H5Pset_shuffle(made);
      H5Pset_deflate(made, 6);
    }
    const hid_t dataset = H5Dcreate2(file_, name.c_str(), type, space, links, made, H5P_DEFAULT);
    EXPECT_GE(dataset, 0) << name;
    const herr_t wrote = values == nullptr ? 0 : H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    EXPECT_GE(wrote, 0) << name;
    H5Dclose(dataset);
    H5Pclose(made);
    H5Pclose(links);
    H5Sclose(space);
  }

  hid_t file_ = -1;
};

}  // namespace starling::testing
