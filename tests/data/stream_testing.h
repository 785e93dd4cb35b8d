#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "starling/base/error.h"
#include "starling/base/file/file.h"
#include "starling/data/loading/loader.h"
#include "starling/data/records/record_reader.h"
#include "testing/temporary_folder.h"

namespace starling::testing {

// A temporary folder, removed at the end of the test.
class Folder {
 public:
  Folder() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            fmt::format("starling-{}-{}-{}", ::getpid(), info->test_suite_name(), info->name());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Simplest record format: 4 bytes of length, 8 bytes of number, the rest filler.
class NumberReader final : public data::RecordReader {
 public:
  NumberReader(const std::filesystem::path& file, std::uint64_t offset)
      : fd_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)), name_(file.string()), offset_(offset) {
    if (!fd_) fail("[numbers] {}: expected a file, got: {}", name_, errno_text());
    record_.parts.resize(1);
  }
  const data::Record* next() override {
    std::uint32_t length = 0;
    const auto got = ::pread(fd_.get(), &length, sizeof length, static_cast<off_t>(offset_));
    if (got == 0) return nullptr;
    bytes_.resize(length);
    const auto at = static_cast<off_t>(offset_ + sizeof length);
    if (got != sizeof length || length < 8 ||
        ::pread(fd_.get(), bytes_.data(), length, at) != static_cast<ssize_t>(length)) {
      fail("[numbers] {}: expected a whole record, got a part of one", name_);
    }
    record_.offset = offset_;
    record_.parts[0].bytes = bytes_;
    offset_ += sizeof length + length;
    return &record_;
  }
  std::uint64_t offset() const override { return offset_; }

 private:
  UniqueFd fd_;
  std::string name_;
  std::uint64_t offset_;
  std::vector<std::byte> bytes_;
  data::Record record_;
};

// Decodes the number of a record; throws at a chosen one.
class NumberDecoder final : public data::RecordDecoder {
 public:
  explicit NumberDecoder(std::int64_t refused = -1) : refused_(refused) {}
  std::vector<TensorType> fields() const override { return {{DType::i64, {}}}; }
  void decode(const data::Record& record, const std::string&, std::span<const Tensor> out) const override {
    std::int64_t number = 0;
    std::memcpy(&number, record.parts.at(0).bytes.data(), sizeof number);
    if (number == refused_) fail("[numbers] expected a picture, got a cat");
    *out[0].data<std::int64_t>() = number;
  }

 private:
  std::int64_t refused_;
};

inline void append_number(std::string& to, std::int64_t number, std::uint32_t filler) {
  const std::uint32_t length = 8 + filler;
  to.append(reinterpret_cast<const char*>(&length), sizeof length);
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
  to.append(filler, 'x');
}

// Shards of these sizes with the numbers 0, 1, …; fillers differ from record to record.
inline data::RecordShards number_shards(const std::filesystem::path& folder, const std::vector<int>& sizes,
                                        std::int64_t refused = -1) {
  data::RecordShards shards;
  std::int64_t number = 0;
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    std::string text;
    for (int i = 0; i < sizes[s]; ++i, ++number) append_number(text, number, static_cast<std::uint32_t>(number % 37));
    shards.files.push_back(folder / fmt::format("shard-{}", s));
    write_text(shards.files.back(), text);
  }
  shards.open = [](const std::filesystem::path& file, std::uint64_t offset) -> std::unique_ptr<data::RecordReader> {
    return std::make_unique<NumberReader>(file, offset);
  };
  shards.decoder = std::make_shared<NumberDecoder>(refused);
  return shards;
}

// Numbers of the next `batches` batches, with -1 at the end of an epoch.
inline std::vector<std::int64_t> take(Loader& loader, int batches) {
  std::vector<std::int64_t> all;
  for (int i = 0; i < batches; ++i) {
    const Batch* batch = loader.next();
    if (batch == nullptr) {
      all.push_back(-1);
      continue;
    }
    const auto* numbers = batch->fields[0].data<std::int64_t>();
    all.insert(all.end(), numbers, numbers + batch->size);
  }
  return all;
}

// Numbers of the whole next epoch, without the -1.
inline std::vector<std::int64_t> take_epoch(Loader& loader) {
  std::vector<std::int64_t> all;
  while (const Batch* batch = loader.next()) {
    const auto* numbers = batch->fields[0].data<std::int64_t>();
    all.insert(all.end(), numbers, numbers + batch->size);
  }
  return all;
}

inline std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

}  // namespace starling::testing
