#include <fmt/core.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "loader/pictures.h"
#include "starling/base/error.h"
#include "starling/data/loading/loader.h"

namespace starling::bench {
namespace {

std::int64_t memory_bytes(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(what + ":")) return std::atoll(line.c_str() + what.size() + 1) * 1024;
  }
  fail("[bench] expected {} in /proc/self/status, got none", what);
}

// Heap, stacks and private mappings may grow by what the resident memory lacks to the limit.
void limit_memory(std::int64_t bytes) {
  const auto most = static_cast<rlim_t>(memory_bytes("VmData") - memory_bytes("VmRSS") + bytes);
  const rlimit limit{most, most};
  check(setrlimit(RLIMIT_DATA, &limit) == 0, "[bench] expected to limit the memory to {}", bytes);
}

// Hands out batches until `most` samples have come or the epoch ends; ticks off their numbers.
std::int64_t tick_off(Loader& loader, std::int64_t most, std::vector<bool>& seen) {
  std::int64_t done = 0;
  while (done < most) {
    const Batch* batch = loader.next();
    if (batch == nullptr) break;
    for (std::int64_t i = 0; i < batch->size; ++i) {
      std::int64_t number = 0;
      std::memcpy(&number, batch->fields[0].data<std::uint8_t>() + i * kPixels, sizeof number);
      check(!seen.at(static_cast<std::size_t>(number)), "[bench] expected every sample once, got {} again", number);
      seen[static_cast<std::size_t>(number)] = true;
    }
    done += batch->size;
  }
  return done;
}

}  // namespace

void run_limited(const Options& options) {
  const data::RecordShards shards = picture_shards(options);
  const std::int64_t limit = options.megabytes * 1'000'000 / 4;
  limit_memory(limit);
  const StreamOptions stream{.shuffle_samples = 1'000'000, .shuffle_bytes = limit / 4};
  const LoaderOptions loader{
      .batch = options.batch, .seed = 1, .workers = options.workers, .prefetch_bytes = limit / 16};
  const std::int64_t count = picture_count(options);
  std::vector<bool> seen(static_cast<std::size_t>(count));
  const auto start = std::chrono::steady_clock::now();
  nlohmann::json state;
  std::int64_t done = 0;
  for (int sitting = 0; sitting < 3; ++sitting) {  // each goes on where the one before ended
    Loader one(shards, stream, loader);
    if (sitting > 0) one.restore(state);
    done += tick_off(one, sitting == 2 ? count : count / 3, seen);
    state = one.state();
  }
  check(done == count, "[bench] expected {} samples, got {}", count, done);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const nlohmann::json line = {{"case", "limited"},
                               {"set_mb", options.megabytes},
                               {"limit_mb", 1e-6 * static_cast<double>(limit)},
                               {"peak_mb", 1e-6 * static_cast<double>(memory_bytes("VmHWM"))},
                               {"samples", done},
                               {"sittings", 3},
                               {"seconds", seconds}};
  fmt::print("{}\n", line.dump());
}

}  // namespace starling::bench
