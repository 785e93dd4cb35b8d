#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "starling/dist/comm/shared/process.h"

namespace starling::dist {

// Anonymous shared memory that processes of one user can map; freed when the last of them ends, however they end. Pages
// are allocated on first touch.
class Mapping {
 public:
  static std::shared_ptr<Mapping> create(std::size_t bytes);

  // Maps memory created by another process of this user, by its address(). Fails once that process has called close().
  static std::shared_ptr<Mapping> open(const std::string& address);

  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  // Address for open(), valid until close(). Contains an unguessable key.
  std::string address() const;
  // Prevents further processes from mapping it.
  void close();

  // Allocates and maps the pages of this range now. False: not enough memory.
  bool populate(std::size_t offset, std::size_t bytes) const;
  // Returns the pages of this range to the system; they read as zeros afterwards.
  void release(std::size_t offset, std::size_t bytes) const;

 private:
  Mapping(int file, std::size_t bytes, std::uint64_t key);

  int file_;
  std::size_t bytes_;
  std::uint64_t key_;  // kept in the last word of the memory
  std::byte* data_ = nullptr;
};

}  // namespace starling::dist
