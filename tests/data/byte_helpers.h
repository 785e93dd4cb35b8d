#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <map>
#include <string>

#include "starling/data/formats/npy.h"
#include "starling/tensor/tensor.h"

namespace starling::testing {

inline std::string gzipped(const std::string& text) {
  std::string packed(text.size() + 1000, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// A file made by tests/data/golden/generate.py.
inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(STARLING_DATA_GOLDEN) / name;
}
inline std::map<std::string, Tensor> golden_arrays(const std::string& name) {
  std::map<std::string, Tensor> arrays;
  for (auto& [key, tensor] : data::read_npz(golden(name))) arrays[key] = tensor;
  return arrays;
}

}  // namespace starling::testing
