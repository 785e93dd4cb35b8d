// Costs of the trainer beside the compiled step it runs: LeNet with batches of 64, Trainer::fit against bare calls of
// the same step on the same batches, in turns. Times are ms a step; the ratio is that of the fastest rounds.
//   bench_trainer [--rounds N] [--steps N] [--threads N] [--json]

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "starling/training.h"

namespace sl = starling;

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int rounds = 15;
  std::int64_t steps = 200;
  int threads = 0;
  bool json = false;
};

Options read(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view key = argv[i];
    if (key == "--json") options.json = true;
    if (i + 1 == argc) continue;
    if (key == "--rounds") options.rounds = std::atoi(argv[++i]);
    if (key == "--steps") options.steps = std::atoi(argv[++i]);
    if (key == "--threads") options.threads = std::atoi(argv[++i]);
  }
  return options;
}

constexpr std::int64_t kBatch = 64;

std::shared_ptr<const sl::Dataset> random_images(std::int64_t count) {
  sl::Tensor labels = sl::empty({count}, sl::DType::i64);
  for (std::int64_t i = 0; i < count; ++i) labels.data<std::int64_t>()[i] = i * 7 % 10;
  return std::make_shared<sl::TensorDataset>(std::vector<sl::Tensor>{sl::normal({count, 1, 28, 28}), labels});
}

// The batches that the trainer's first epoch will see.
std::vector<sl::TensorList> batches_of(const std::shared_ptr<const sl::Dataset>& data) {
  std::vector<sl::TensorList> all;
  sl::Loader loader(data, {.batch = kBatch, .seed = 1});
  while (const sl::Batch* batch = loader.next()) {
    sl::TensorList fields;
    for (const auto& field : batch->fields) {
      fields.push_back(sl::empty(field.shape(), field.dtype()));
      sl::copy_into(fields.back(), field);
    }
    all.push_back(fields);
  }
  return all;
}

struct Net {
  sl::nn::Sequential net = sl::zoo::lenet();
  sl::optim::Sgd optimizer{net.parameters(), {.lr = 0.01, .momentum = 0.9}};
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = read(argc, argv);
  const auto data = random_images(options.steps * kBatch);
  const auto batches = batches_of(data);

  Net bare;
  sl::CompiledFunction step(
      [&](std::span<const sl::Tensor> in) {
        const sl::Tensor loss = sl::cross_entropy(bare.net(in[0]), in[1]);
        loss.backward();
        bare.optimizer.step();
        return sl::TensorList{loss};
      },
      {.threads = options.threads});
  Net trained;
  sl::TrainerOptions trainer_options{.epochs = 1, .batch = kBatch, .threads = options.threads};
  trainer_options.progress.mode = sl::ProgressMode::plain;  // as a job that writes to a file
  sl::Trainer trainer(trained.net, trained.optimizer, sl::classify(), trainer_options);

  std::vector<double> bare_ms, fit_ms, waits;
  for (int round = -1; round < options.rounds; ++round) {
    const auto start = Clock::now();
    for (const auto& batch : batches) step.call({batch.data(), batch.size()});
    const auto middle = Clock::now();
    const sl::FitResult result = trainer.fit(data);
    if (round < 0) continue;  // compiles
    const auto per_step = [&](Clock::duration d) {
      return std::chrono::duration<double, std::milli>(d).count() / static_cast<double>(options.steps);
    };
    bare_ms.push_back(per_step(middle - start));
    fit_ms.push_back(static_cast<double>(kBatch) * 1e3 / result.summary.samples_per_s);
    waits.push_back(result.summary.wait_share);
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < bare_ms.size(); ++i) ratios.push_back(fit_ms[i] / bare_ms[i]);
  const auto least = [](const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); };
  std::sort(ratios.begin(), ratios.end());
  std::sort(waits.begin(), waits.end());
  const nlohmann::ordered_json out = {{"bare_ms", least(bare_ms)},
                                      {"fit_ms", least(fit_ms)},
                                      {"ratio_of_fastest", least(fit_ms) / least(bare_ms)},
                                      {"median_ratio", ratios[ratios.size() / 2]},
                                      {"median_wait_share", waits[waits.size() / 2]}};
  if (options.json) {
    fmt::print("{}\n", out.dump(2));
  } else {
    for (const auto& [key, value] : out.items()) fmt::print("{:18} {:.4f}\n", key, value.get<double>());
  }
}
