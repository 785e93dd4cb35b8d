#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "data/stream_testing.h"

// A process streams, shuffles and resumes a data set four times larger than its memory limit.

namespace starling::data {
namespace {

using testing::Folder;
using testing::number_shards;

constexpr std::uint64_t kLimit = std::uint64_t{64} << 20;
constexpr std::int64_t kRecord = 64 << 10;
constexpr int kShards = 8;
constexpr std::int64_t kRecords = static_cast<std::int64_t>(4 * kLimit) / kRecord / kShards;  // per shard

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // sanitizers need more memory than the limit
#else
constexpr bool kSanitized = false;
#endif

class PayloadDecoder final : public RecordDecoder {
 public:
  std::vector<TensorType> fields() const override { return {{DType::i64, {}}, {DType::u8, {kRecord - 12}}}; }
  void decode(const Record& record, const std::string&, std::span<const Tensor> out) const override {
    const auto bytes = record.parts.at(0).bytes;
    std::memcpy(out[0].raw(), bytes.data(), 8);
    std::memcpy(out[1].raw(), bytes.data() + 8, bytes.size() - 8);
  }
};

// Writes only the first bytes of each record; the rest of the file is sparse.
RecordShards large_shards(const std::filesystem::path& folder, bool write) {
  RecordShards shards = number_shards(folder, {});
  shards.decoder = std::make_shared<PayloadDecoder>();
  for (int s = 0; s < kShards; ++s) {
    shards.files.push_back(folder / fmt::format("large-{}", s));
    if (!write) continue;
    const UniqueFd fd(::open(shards.files.back().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    for (std::int64_t i = 0; i < kRecords; ++i) {
      const auto length = static_cast<std::uint32_t>(kRecord - 4);
      std::string head(reinterpret_cast<const char*>(&length), 4);
      const std::int64_t number = s * kRecords + i;
      head.append(reinterpret_cast<const char*>(&number), 8);
      if (::pwrite(fd.get(), head.data(), head.size(), i * kRecord) != 12) fail("[test] expected to write");
    }
    if (::ftruncate(fd.get(), kRecords * kRecord) != 0) fail("[test] expected to make the file longer");
  }
  return shards;
}

std::int64_t memory_bytes(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(what + ":")) return std::atoll(line.c_str() + what.size() + 1) * 1024;
  }
  fail("[test] expected {} in /proc/self/status, got none", what);
}

// Streams from a state, if there is one, until `most` samples or the end of the epoch; numbers and state go to files.
void stream_part(const std::filesystem::path& folder, std::int64_t most) {
  Loader loader(large_shards(folder, false), {.shuffle_samples = 10'000, .shuffle_bytes = 8 << 20, .interleave = 3},
                {.batch = 16, .seed = 4, .workers = 2, .prefetch_bytes = 4 << 20});
  if (std::filesystem::exists(folder / "state")) {
    loader.restore(nlohmann::json::parse(read_file(folder / "state", 1 << 20).value()));
  }
  std::ofstream numbers(folder / "numbers", std::ios::app);
  for (std::int64_t done = 0; done < most;) {
    const Batch* batch = loader.next();
    if (batch == nullptr) break;
    for (std::int64_t i = 0; i < batch->size; ++i) numbers << batch->fields[0].data<std::int64_t>()[i] << "\n";
    done += batch->size;
  }
  std::ofstream(folder / "state") << loader.state().dump();
  std::ofstream(folder / "peak") << memory_bytes("VmHWM");
}

TEST(StreamMemory, DISABLED_PartInAChild) {
  const std::filesystem::path folder = std::getenv("STARLING_TEST_FOLDER");
  // Libraries map more than they touch: the limit allows heap, stacks and private mappings to grow by what resident
  // memory lacks to kLimit.
  const auto most = static_cast<rlim_t>(memory_bytes("VmData") - memory_bytes("VmRSS")) + kLimit;
  const rlimit limit{most, most};
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &limit), 0);
  stream_part(folder, std::atoll(std::getenv("STARLING_TEST_MOST")));
}

int run_child(const std::filesystem::path& folder, std::int64_t most) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("STARLING_TEST_FOLDER", folder.c_str(), 1);
    ::setenv("STARLING_TEST_MOST", std::to_string(most).c_str(), 1);
    ::execl("/proc/self/exe", "test", "--gtest_filter=StreamMemory.DISABLED_PartInAChild",
            "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(StreamMemory, ASetOfFourTimesTheLimitStreamsShufflesAndResumes) {
  if (kSanitized) GTEST_SKIP() << "sanitizers take more memory than the limit";
  const Folder folder;
  const auto shards = large_shards(folder.path(), true);
  std::int64_t bytes = 0;
  for (const auto& file : shards.files) bytes += static_cast<std::int64_t>(std::filesystem::file_size(file));
  ASSERT_EQ(bytes, static_cast<std::int64_t>(4 * kLimit));
  for (const std::int64_t most : {1500, 1 << 30}) {  // two processes; the second resumes where the first ended
    ASSERT_EQ(run_child(folder.path(), most), 0);
    std::int64_t peak = 0;
    std::ifstream(folder.path() / "peak") >> peak;
    EXPECT_GT(peak, 8 << 20);
    EXPECT_LT(peak, static_cast<std::int64_t>(kLimit));
  }
  std::vector<std::int64_t> seen;
  std::ifstream numbers(folder.path() / "numbers");
  for (std::int64_t number = 0; numbers >> number;) seen.push_back(number);
  EXPECT_FALSE(std::is_sorted(seen.begin(), seen.end()));
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(std::ssize(seen), kShards * kRecords);
  for (std::int64_t i = 0; i < std::ssize(seen); ++i) ASSERT_EQ(seen[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace starling::data
