#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "starling/data/datasets/dataset.h"
#include "starling/data/datasets/own_parts.h"
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
  std::string folder{};  // folder of the files, for messages
};

// Pictures decoded on access, with a label each: field 0 is [channels, height, width], field 1 i64 [].
// A file that does not begin like a picture is left out when the set is made. One that turns out to be damaged while it
// is decoded keeps its place, since orders and sizes are known by then: the next sound picture of its class stands in,
// in a part one of that part. Both are told on standard error, once a file. A sound picture that cannot be read,
// because the system or a limit does not allow it, is an error.
class PictureDataset final : public Dataset, public OwnParts {
 public:
  PictureDataset(std::vector<PictureFile> files, PictureDatasetOptions options);
  std::int64_t size() const override { return std::ssize(files_); }
  std::vector<TensorType> fields() const override;
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override;
  std::shared_ptr<const Dataset> part(const std::vector<std::int64_t>& rows) const override;

 private:
  struct Damaged {
    std::size_t files = 0;  // of the whole set
    std::mutex mutex{};
    std::set<std::filesystem::path> told{};
  };
  PictureDataset() = default;
  const PictureFile& file(std::int64_t row) const;
  void leave_out_strangers();
  void read(std::size_t row, std::uint8_t* planes) const;
  void note_damage(const PictureFile& file, const std::string& why) const;

  PictureDatasetOptions options_;
  std::vector<PictureFile> files_;
  std::shared_ptr<Damaged> damaged_ = std::make_shared<Damaged>();  // shared by all parts
};

}  // namespace starling::data
