#include "starling/data/datasets/picture_dataset.h"

#include <fmt/format.h>

#include <utility>

#include "starling/base/error.h"
#include "starling/base/result.h"
#include "starling/data/formats/image.h"
#include "starling/data/raw/warning.h"

namespace starling::data {
namespace {

constexpr std::size_t kMostNamed = 10;  // files named in one warning

}  // namespace

PictureDataset::PictureDataset(std::vector<PictureFile> files, PictureDatasetOptions options)
    : options_(std::move(options)), files_(std::move(files)) {
  if (!options_.strict) leave_out_strangers();
  check(!files_.empty(), "[image_folder] expected .jpg, .jpeg or .png files in {}, got none", options_.folder);
  damaged_->files = files_.size();
}

std::shared_ptr<const Dataset> PictureDataset::part(const std::vector<std::int64_t>& rows) const {
  std::shared_ptr<PictureDataset> made(new PictureDataset());
  made->options_ = options_;
  made->damaged_ = damaged_;
  for (const auto row : rows) made->files_.push_back(file(row));
  return made;
}

const PictureFile& PictureDataset::file(std::int64_t row) const {
  if (row < 0 || row >= size()) fail("[image_folder] expected samples below {}, got {}", size(), row);
  return files_[static_cast<std::size_t>(row)];
}

void PictureDataset::leave_out_strangers() {
  std::string named;
  std::size_t count = 0;
  const std::size_t all = files_.size();
  std::erase_if(files_, [&](const PictureFile& one) {
    const std::string fault = picture_fault(one.file);
    if (fault.empty()) return false;
    if (++count <= kMostNamed) named += fmt::format("\n  {}: {}", one.file.string(), fault);
    return true;
  });
  if (count == 0) return;
  if (count > kMostNamed) named += fmt::format("\n  and {} more", count - kMostNamed);
  warn_once_for_all_ranks(fmt::format("[image_folder] {} of {} files in {} left out (strict: true refuses them):{}",
                                      count, all, options_.folder, named));
}

std::vector<TensorType> PictureDataset::fields() const {
  const PictureReader& reader = options_.reader;
  return {{options_.bytes ? DType::u8 : DType::f32, {reader.channels, reader.height, reader.width}}, {DType::i64, {}}};
}

void PictureDataset::gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const {
  const std::int64_t pixels = options_.reader.bytes();
  std::vector<std::uint8_t> planes(options_.bytes ? 0 : static_cast<std::size_t>(pixels));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i) * pixels;
    const std::int64_t label = file(rows[i]).label;
    read(static_cast<std::size_t>(rows[i]), options_.bytes ? out[0].data<std::uint8_t>() + at : planes.data());
    for (std::int64_t p = 0; !options_.bytes && p < pixels; ++p) {
      out[0].data<float>()[at + p] = static_cast<float>(planes[static_cast<std::size_t>(p)]) / 255.0F;
    }
    out[1].data<std::int64_t>()[i] = label;
  }
}

// The search for a stand-in depends on the files alone, so every run and rank finds the same.
void PictureDataset::read(std::size_t row, std::uint8_t* planes) const {
  for (std::size_t step = 0; step < files_.size(); ++step) {
    const std::size_t candidate = (row + step) % files_.size();
    if (files_[candidate].label != files_[row].label) continue;
    try {
      return options_.reader.read(files_[candidate].file, planes);
    } catch (const DamagedImage& error) {
      if (options_.strict) throw;
      note_damage(files_[candidate], message_without_rank(error));
    }
  }
  fail(
      "[image_folder] expected a sound picture of the class of {}, got only damaged ones (put sound ones there, or "
      "move "
      "the folder of the class away)",
      files_[row].file.string());
}

void PictureDataset::note_damage(const PictureFile& file, const std::string& why) const {
  const std::lock_guard lock(damaged_->mutex);
  if (!damaged_->told.insert(file.file).second) return;
  warn(fmt::format("{} ({} damaged of {} so far; the next picture of its class stands in, strict: true refuses it)",
                   why, damaged_->told.size(), damaged_->files));
}

}  // namespace starling::data
