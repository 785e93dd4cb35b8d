#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "starling/data/datasets/dataset.h"
#include "starling/data/raw/picture_reader.h"

namespace starling::data {

struct PictureFile {
  std::filesystem::path file;
  std::int64_t label = 0;
};

struct PictureDatasetOptions {
  PictureReader reader{};
  bool bytes = true;     // samples of u8; else f32 from 0 to 1
  bool strict = false;   // a file that is no picture is an error; else it is left out with a warning
  std::string folder{};  // that the files come from, for messages
};

// Pictures decoded on access, with a label each: field 0 is [channels, height, width], field 1 i64 [].
// A file that does not begin like a picture is left out when the set is made. One that turns out to be damaged while it
// is decoded keeps its place, since orders and sizes are known by then: the next sound picture of its class stands in.
// Both are told on standard error, once a file.
class PictureDataset final : public Dataset {
 public:
  PictureDataset(std::vector<PictureFile> files, PictureDatasetOptions options);
  std::int64_t size() const override { return std::ssize(files_); }
  std::vector<TensorType> fields() const override;
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override;

 private:
  void leave_out_strangers();
  void read(std::size_t row, std::uint8_t* planes) const;
  void note_damage(std::size_t row, const std::string& why) const;

  PictureDatasetOptions options_;
  std::vector<PictureFile> files_;
  mutable std::mutex mutex_;
  mutable std::set<std::size_t> damaged_;  // rows already told
};

}  // namespace starling::data
