#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <new>

#include "../byte_helpers.h"
#include "starling/base/bytes.h"
#include "starling/base/hash/crc32c.h"
#include "starling/data/formats/tar.h"
#include "starling/data/formats/text.h"
#include "starling/data/formats/tfrecord.h"
#include "starling/data/formats/webdataset.h"
#include "starling/data/records/record_reader.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;
using testing::golden;
using testing::read_text;

struct Seen {
  std::uint64_t offset;
  std::string key;
  std::vector<std::pair<std::string, std::string>> parts;
  friend bool operator==(const Seen&, const Seen&) = default;
};

std::vector<Seen> all_of(RecordReader& reader) {
  std::vector<Seen> all;
  while (true) {
    const std::uint64_t next = reader.offset();
    const Record* record = reader.next();
    if (record == nullptr) return all;
    EXPECT_EQ(record->offset, next);
    Seen seen{record->offset, record->key, {}};
    for (const auto& part : record->parts) seen.parts.emplace_back(part.name, as_text(part.bytes));
    all.push_back(std::move(seen));
  }
}

using Open = std::function<std::unique_ptr<RecordReader>(const std::filesystem::path&, std::uint64_t)>;

void expect_to_go_on_from_every_offset(const std::filesystem::path& file, const Open& open) {
  const auto all = all_of(*open(file, 0));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all_of(*open(file, all[i].offset)), std::vector(all.begin() + static_cast<std::ptrdiff_t>(i), all.end()));
  }
  const auto reader = open(file, 0);
  while (reader->next() != nullptr) {
  }
  EXPECT_EQ(open(file, reader->offset())->next(), nullptr);
}

TEST(TfRecord, ReadsPlainAndGzippedAndGoesOnFromEveryOffset) {
  const Open open = [](const auto& file, auto offset) { return open_tfrecord(file, offset); };
  const auto all = all_of(*open(golden("five.tfrecord"), 0));
  ASSERT_EQ(all.size(), 5U);
  EXPECT_NE(all[3].parts[0].second.find("sample 3"), std::string::npos);
  EXPECT_EQ(all_of(*open(golden("five.tfrecord.gz"), 0)), all);
  for (const char* name : {"five.tfrecord", "five.tfrecord.gz"}) expect_to_go_on_from_every_offset(golden(name), open);
}

TEST(TfRecord, WritesWhatItReads) {
  const auto reader = open_tfrecord(golden("five.tfrecord"), 0);
  std::string written;
  while (const Record* record = reader->next()) append_tfrecord(written, record->parts[0].bytes);
  EXPECT_EQ(written, read_text(golden("five.tfrecord")));
}

std::string read_all(const std::string& bytes, const RecordLimits& limits = {}) {
  return error_of([&] {
    const auto reader = read_tfrecord(ByteSource::of(as_bytes(bytes), "f", {.who = "tfrecord"}), limits);
    while (reader->next() != nullptr) {
    }
  });
}

TEST(TfRecord, RefusesEveryTruncationInsideARecordAndEveryDamagedByte) {
  const std::string whole = read_text(golden("five.tfrecord"));
  std::vector<std::size_t> ends = {0};
  const auto reader = open_tfrecord(golden("five.tfrecord"), 0);
  while (reader->next() != nullptr) ends.push_back(reader->offset());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const bool between = std::find(ends.begin(), ends.end(), size) != ends.end();
    EXPECT_EQ(read_all(whole.substr(0, size)).empty(), between) << size;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_NE(read_all(damaged), "") << at;
  }
}

TEST(TfRecord, RefusesLargeRecordsBeforeTakingMemory) {
  const std::string whole = read_text(golden("five.tfrecord"));
  EXPECT_NE(read_all(whole, {.most_record = 10}).find("at most 10 bytes"), std::string::npos);
  // A length with a valid checksum and no data after it.
  std::string lying("\0\0\0\x10\0\0\0\0", 8);
  const std::uint32_t crc = crc32c(as_bytes(lying));
  const std::uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
  for (int i = 0; i < 4; ++i) lying += static_cast<char>(masked >> (8 * i) & 0xFF);
  EXPECT_NE(read_all(lying, {.most_record = 1U << 30}).find("a record of 268435456 bytes in the record at byte 0"),
            std::string::npos);
  EXPECT_NE(read_all(testing::gzipped(lying), {.most_record = 1U << 30}).find("bytes left"), std::string::npos);
}

// Runs f in a process that may take so many megabytes more than this one has; what f returns, or "no memory".
template <class F>
std::string within_megabytes(std::uint64_t megabytes, F&& f) {
  int told[2];
  EXPECT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const std::uint64_t most = pages * 4096 + (megabytes << 20);
    const rlimit limit{most, most};
    ::setrlimit(RLIMIT_AS, &limit);
    std::string text = "no memory";
    try {
      text = f();
    } catch (const std::bad_alloc&) {
    }
    ::_exit(::write(told[1], text.data(), text.size()) > 0 ? 0 : 1);
  }
  ::close(told[1]);
  std::string text(4096, '\0');
  const auto size = ::read(told[0], text.data(), text.size());
  ::close(told[0]);
  ::waitpid(child, nullptr, 0);
  return text.substr(0, size > 0 ? static_cast<std::size_t>(size) : 0);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // sanitizers need more memory than the limit
#else
constexpr bool kSanitized = false;
#endif

// Bytes that hardly compress, so that the file could well expand to what its header says.
std::string noise(std::size_t size) {
  std::string text(size, '\0');
  std::uint32_t state = 1;
  for (char& c : text) c = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
  return text;
}

TEST(CompressedShards, TakeNoMemoryOnTheWordOfAHeader) {
  if (kSanitized) GTEST_SKIP();
  std::string lying("\0\0\0\x10\0\0\0\0", 8);  // 256 MiB
  const std::uint32_t crc = crc32c(as_bytes(lying));
  const std::uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
  for (int i = 0; i < 4; ++i) lying += static_cast<char>(masked >> (8 * i) & 0xFF);
  const std::string record = testing::gzipped(lying + noise(400'000));
  const std::string of_record = within_megabytes(64, [&] { return read_all(record); });
  EXPECT_NE(of_record.find("268435460 bytes at byte 12, got 400000"), std::string::npos) << of_record;

  std::string header(512, '\0');
  header.replace(0, 5, "a.bin");
  header.replace(124, 11, "02000000000");  // 256 MiB
  header[156] = '0';
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  const std::string archive = testing::gzipped(header + noise(400'000));
  const std::string of_entry = within_megabytes(64, [&] {
    return error_of([&] {
      TarReader tar(ByteSource::of(as_bytes(archive), "f", {.who = "tar"}));
      std::vector<std::byte> bytes;
      while (tar.next()) tar.read(bytes);
    });
  });
  EXPECT_NE(of_entry.find("268435456 bytes at byte 512, got 400000"), std::string::npos) << of_entry;
}

TEST(CompressedShards, StopAtTheirLimit) {
  std::string plain;
  const std::string zeros(1 << 20, '\0');
  for (int i = 0; i < 20; ++i) append_tfrecord(plain, as_bytes(zeros));
  const std::string bomb = testing::gzipped(plain);
  EXPECT_LT(bomb.size(), 100'000U);
  const auto read = [&](std::uint64_t most) {
    return error_of([&] {
      const auto reader =
          read_tfrecord(ByteSource::of(as_bytes(bomb), "f", {.who = "tfrecord", .most_unpacked = most}), {});
      while (reader->next() != nullptr) {
      }
    });
  };
  EXPECT_EQ(read(30 << 20), "");
  EXPECT_NE(read(10 << 20).find("expected at most 10485760 bytes after unpacking"), std::string::npos);
}

TEST(CompressedShards, ReadSeveralGzipMembersAndRefuseDamage) {
  const auto read = [](const std::string& bytes) {
    auto source = ByteSource::of(as_bytes(bytes), "f", {.who = "text"});
    std::string text(100, '\0');
    text.resize(source.read(text.data(), text.size()));
    EXPECT_TRUE(source.at_end());
    return text;
  };
  const std::string two = testing::gzipped("hello ") + testing::gzipped("world");
  EXPECT_EQ(read(two), "hello world");
  for (std::size_t size = 3; size < two.size(); ++size) {
    const bool between = size == testing::gzipped("hello ").size();
    EXPECT_EQ(error_of([&] { read(two.substr(0, size)); }).empty(), between) << size;
  }
  EXPECT_NE(error_of([&] { read(two + "more"); }), "");
}

TEST(WebDataset, GroupsFilesByKeyInEveryDialectOfTar) {
  const Open open = [](const auto& file, auto offset) { return open_webdataset(file, offset); };
  std::string bytes;
  for (int i = 0; i < 5 * 256; ++i) bytes += static_cast<char>(i);
  for (const std::string name : {"pax.tar", "gnu.tar", "ustar.tar", "pax.tar.gz"}) {
    const auto all = all_of(*open(golden(name), 0));
    ASSERT_EQ(all.size(), name.starts_with("pax") ? 3U : 2U) << name;
    std::string deep;
    for (int i = 0; i < (name == "ustar.tar" ? 20 : 30); ++i) deep += "deep/";
    EXPECT_EQ(all[0].key, "folder/0001");
    EXPECT_EQ(all[0].parts, (decltype(all[0].parts){{"cls", "3"}, {"left.txt", "hello"}}));
    EXPECT_EQ(all[1].key, "folder/" + deep + "0002");
    EXPECT_EQ(all[1].parts, (decltype(all[1].parts){{"cls", "4"}, {"left.txt", bytes}}));
    EXPECT_EQ(all.back().key, all.size() == 3 ? "folder/zwölf" : all[1].key);
    expect_to_go_on_from_every_offset(golden(name), open);
  }
}

std::string read_tar(const std::string& bytes, const RecordLimits& limits = {}) {
  return error_of([&] {
    const auto reader = read_webdataset(ByteSource::of(as_bytes(bytes), "f.tar", {.who = "webdataset"}), limits);
    while (reader->next() != nullptr) {
    }
  });
}

TEST(WebDataset, RefusesWhatIsCutInsideAnEntry) {
  const std::string whole = read_text(golden("gnu.tar")).substr(0, 6 * 512);
  int refused = 0;
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const std::string error = read_tar(whole.substr(0, size));
    if (size % 512 != 0) {
      EXPECT_NE(error, "") << size;
      ++refused;
    }
  }
  EXPECT_GT(refused, 3000);
}

TEST(WebDataset, RefusesDamagedHeadersAndTooLargeSamples) {
  const std::string whole = read_text(golden("gnu.tar"));
  for (std::size_t at = 512; at < 1024; ++at) {  // the header of the first file
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 2);
    if (at == 512 + 155) continue;  // byte after the checksum, which is ignored
    EXPECT_NE(read_tar(damaged), "") << at;
  }
  EXPECT_NE(read_tar(whole, {.most_record = 1000}).find("a sample of at most 1000 bytes"), std::string::npos);
  EXPECT_EQ(read_tar(whole, {.most_record = 1281}), "");
}

TEST(Lines, AreRecordsWithoutTheirEnds) {
  const testing::TemporaryFolder folder;
  testing::write_text(folder / "a.txt", "one\r\n\ntwo\nlast");
  const Open open = [](const auto& file, auto offset) { return open_lines(file, offset); };
  std::vector<std::string> lines;
  for (const auto& seen : all_of(*open(folder / "a.txt", 0))) lines.push_back(seen.parts[0].second);
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "two", "last"}));
  expect_to_go_on_from_every_offset(folder / "a.txt", open);
  EXPECT_NE(error_of([&] { read_lines(ByteSource::of(as_bytes("abc"), "f", {}), {.most_record = 2})->next(); }), "");
}

}  // namespace
}  // namespace starling::data
