// How fast the loader makes batches: MB of batches a second, and a second of processor time (that is "a core").
//   bench_loader CASE [--workers N] [--batch N] [--seconds S] [--folder F] [--megabytes M]
// Cases: memory (28 x 28 bytes in memory, normalised), augmented (and cropped and flipped), disk (shards of TFRecord
// streamed through a shuffle buffer), indexed (the same by number). Prints one line of JSON. `bench/loader/compare.py`
// runs it beside PyTorch's DataLoader. The case `limited` streams a set of four times the memory it allows itself.

#include "starling/data/loading/loader.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "loader/pictures.h"
#include "starling/data/datasets/scaled_dataset.h"
#include "starling/data/records/indexed_records.h"

using namespace starling;
using namespace starling::bench;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kImages = 60'000;

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::vector<TransformStep> transforms(const std::string& text) {
  std::vector<TransformStep> steps;
  const auto chosen = read_transforms(ConfigNode::parse(text, "bench"));
  for (const auto& step : chosen) steps.push_back(step.make());
  return steps;
}

std::unique_ptr<Loader> make_loader(const Options& options) {
  LoaderOptions loader{.batch = options.batch, .seed = 1, .workers = options.workers, .prefetch = 2 + options.workers};
  if (options.name == "memory" || options.name == "augmented") {
    const std::vector<Tensor> columns = {random_bytes({kImages, 1, kSide, kSide}), zeros({kImages}, DType::i64)};
    if (options.name == "memory") {
      return std::make_unique<Loader>(
          std::make_shared<ScaledDataset>(columns, ByteScale{.mean = {0.286F}, .std = {0.353F}}), loader);
    }
    loader.transforms =
        transforms("[{name: random_crop, padding: 4}, flip, {name: normalise, mean: [0.286], std: [0.353]}]");
    return std::make_unique<Loader>(std::make_shared<TensorDataset>(columns), loader);
  }
  loader.transforms = transforms("[{name: normalise, mean: [0.286], std: [0.353]}]");
  if (options.name == "disk") return std::make_unique<Loader>(picture_shards(options), StreamOptions{}, loader);
  if (options.name == "indexed") {
    return std::make_unique<Loader>(std::make_shared<data::IndexedRecords>(picture_shards(options)), loader);
  }
  fail("[bench] expected a case (memory, augmented, disk, indexed, limited), got '{}'", options.name);
}

void run(const Options& options) {
  const auto loader = make_loader(options);
  double sum = 0;
  const auto take = [&] {
    const Batch* batch = loader->next();
    if (batch != nullptr) sum += batch->fields[0].data<float>()[0];
  };
  for (int i = 0; i < 200; ++i) take();
  const LoaderStats before = loader->stats();
  const double processor = processor_seconds();
  const auto start = Clock::now();
  double seconds = 0;
  while (seconds < options.seconds) {
    for (int i = 0; i < 50; ++i) take();
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  const double used = processor_seconds() - processor;
  const LoaderStats after = loader->stats();
  const double megabytes = 1e-6 * static_cast<double>(after.bytes - before.bytes);
  const nlohmann::json line = {{"case", options.name},
                               {"workers", options.workers},
                               {"batch", options.batch},
                               {"mb_per_s", megabytes / seconds},
                               {"mb_per_core_s", megabytes / used},
                               {"samples_per_core_s", static_cast<double>(after.samples - before.samples) / used},
                               {"check", sum}};
  fmt::print("{}\n", line.dump());
}

Options parse(int argc, char** argv) {
  Options options;
  if (argc < 2) fail("[bench] expected a case (memory, augmented, disk, indexed, limited), got none");
  options.name = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string key = argv[i], value = argv[i + 1];
    if (key == "--workers") {
      options.workers = std::stoi(value);
    } else if (key == "--batch") {
      options.batch = std::stoll(value);
    } else if (key == "--seconds") {
      options.seconds = std::stod(value);
    } else if (key == "--folder") {
      options.folder = value;
    } else if (key == "--megabytes") {
      options.megabytes = std::stoll(value);
    } else {
      fail("[bench] expected --workers, --batch, --seconds, --folder or --megabytes, got '{}'", key);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    if (options.name == "limited") {
      run_limited(options);
    } else {
      run(options);
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
