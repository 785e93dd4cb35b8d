#pragma once

#include <memory>
#include <string>
#include <vector>

#include "starling/base/config/settings.h"
#include "starling/data/pictures/fit_image.h"
#include "starling/data/records/record_reader.h"

namespace starling::data {

// How one field of a sample is decoded from a record.
struct RecordField {
  enum class Kind { image, floats, integers, bytes, npy };

  std::string name{};  // part or feature to decode; "jpg|png": the first that exists
  Kind kind = Kind::floats;
  std::vector<std::int64_t> shape{};  // shape of the field; for an image [channels, height, width]
  Fit fit = Fit::crop;                // how an image is brought to that size

  static Settings settings() {
    return {required(setting("name", &RecordField::name, "of the part or feature; a|b: the first that is there")),
            choice("kind", &RecordField::kind, {"image", "floats", "integers", "bytes", "npy"},
                   "image: u8 planes of a JPEG or PNG; floats: f32; integers: i64; bytes: u8 as they are; npy: f32 of "
                   "an array"),
            setting("shape", &RecordField::shape, "of the field; of an image [channels, height, width]", {.min = 1}),
            choice("fit", &RecordField::fit, {"crop", "pad", "stretch"}, "how an image comes to its size")};
  }
};

// Decoders of WebDataset samples (integers and floats are text there) and of tf.train.Examples.
std::shared_ptr<const RecordDecoder> webdataset_decoder(std::vector<RecordField> fields);
std::shared_ptr<const RecordDecoder> example_decoder(std::vector<RecordField> fields);

// Files matching patterns such as "data/train-*.tar", in order; throws if a pattern matches none.
std::vector<std::filesystem::path> expand_files(const std::vector<std::string>& patterns);

}  // namespace starling::data
