#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace starling::testing {

// A temporary folder, removed at the end of the test.
class TestFolder {
 public:
  explicit TestFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("starling-" + name + "-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void clear() const {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }

 private:
  std::filesystem::path path_;
};

inline void put_big_endian(std::ofstream& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.put(static_cast<char>(value >> shift));
}

// Images whose class is a bright band of rows over noise, in Fashion-MNIST's file format.
inline void write_tiny_part(const std::filesystem::path& folder, const std::string& part, std::uint32_t count) {
  std::ofstream images(folder / (part + "-images-idx3-ubyte"), std::ios::binary);
  std::ofstream labels(folder / (part + "-labels-idx1-ubyte"), std::ios::binary);
  put_big_endian(images, 0x803);
  for (std::uint32_t n : {count, 28U, 28U}) put_big_endian(images, n);
  put_big_endian(labels, 0x801);
  put_big_endian(labels, count);
  std::uint32_t noise = 12345;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t label = i % 10;
    labels.put(static_cast<char>(label));
    for (std::uint32_t pixel = 0; pixel < 28 * 28; ++pixel) {
      noise = noise * 1664525U + 1013904223U;
      const bool bright = pixel / 28 / 3 == label;
      images.put(static_cast<char>((noise >> 25) + (bright ? 120U : 0U)));
    }
  }
}

inline void write_tiny_fashion(const std::filesystem::path& folder, std::uint32_t train, std::uint32_t test) {
  write_tiny_part(folder, "train", train);
  write_tiny_part(folder, "t10k", test);
}

}  // namespace starling::testing
