#pragma once

#define H5_USE_110_API  // the functions of 1.10, which later versions have too
#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace starling::data {

// Exclusive use of libhdf5 by this thread, for as long as it lives, not to be taken twice: the library is not safe to
// share unless it was built to be. Errors are kept for last_error() instead of being printed.
class Hdf5Library {
 public:
  Hdf5Library();
  ~Hdf5Library();
  Hdf5Library(const Hdf5Library&) = delete;
  Hdf5Library& operator=(const Hdf5Library&) = delete;

  static std::string last_error();  // innermost message of the call that failed last

 private:
  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

// Owner of an id of the library. Use and destroy it under Hdf5Library.
class Hdf5Id {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Id() = default;
  Hdf5Id(hid_t id, Close close) : id_(id), close_(close) {}
  Hdf5Id(Hdf5Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Id& operator=(Hdf5Id&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hdf5Id() { reset(); }

  hid_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }
  void reset() {
    if (id_ >= 0) close_(id_);
    id_ = -1;
  }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

// Opens a file to read. Throws if it is not there, is no HDF5 file or is damaged.
Hdf5Id open_hdf5_file(const std::string& path);

}  // namespace starling::data
