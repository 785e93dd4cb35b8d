#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "starling/dist/comm/shared/process.h"

namespace starling {

// A piece of memory without a name that processes of one user can map: it is gone when the last of them is, however
// they end. Pages are taken when they are first touched.
class Mapping {
 public:
  static std::shared_ptr<Mapping> create(std::size_t bytes);

  // What another process of this user made; address is its address(). Fails once that process has closed it.
  static std::shared_ptr<Mapping> open(const std::string& address);

  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  // For others to open it by, as long as close() has not been called. Holds what cannot be guessed.
  std::string address() const;
  // From now on nobody else can map it.
  void close();

  // Takes pages for this range now and maps them here. False: there is not enough memory.
  bool populate(std::size_t offset, std::size_t bytes) const;
  // Gives the pages of this range back; they read as zeros afterwards.
  void release(std::size_t offset, std::size_t bytes) const;

 private:
  Mapping(int file, std::size_t bytes, std::uint64_t key);

  int file_;
  std::size_t bytes_;
  std::uint64_t key_;  // kept in the last word of the memory
  std::byte* data_ = nullptr;
};

}  // namespace starling
