#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "starling/data/records/record_reader.h"
#include "starling/tensor/tensor.h"

namespace starling::bench {

inline constexpr std::int64_t kSide = 28;
inline constexpr std::int64_t kPixels = kSide * kSide;
inline constexpr int kShards = 8;

struct Options {
  std::string name;
  int workers = 1;
  std::int64_t batch = 128;
  double seconds = 2;
  std::filesystem::path folder = "build/bench-loader-data";
  std::int64_t megabytes = 64;
};

Tensor random_bytes(const Shape& shape);

// Shards of TFRecord in the folder, written when they are not there: a record is 784 bytes of a picture and one of its
// label; the first 8 bytes are its number.
data::RecordShards picture_shards(const Options& options);
std::int64_t picture_count(const Options& options);

// Streams, shuffles and resumes a set of four times the memory that the process may have from here on, and says what it
// took at most.
void run_limited(const Options& options);

}  // namespace starling::bench
