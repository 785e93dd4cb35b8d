#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "starling/base/error.h"
#include "starling/base/philox.h"
#include "starling/base/result.h"
#include "starling/base/thread/stop_request.h"
#include "starling/data/datasets/scaled_dataset.h"
#include "starling/data/loading/loader.h"
#include "starling/tensor/allocator.h"

namespace starling::data {
namespace {

using Bytes = std::vector<unsigned char>;

// Sample i is the row {i, 10 i} with label i.
std::shared_ptr<const Dataset> numbers(std::int64_t count) {
  std::vector<double> rows;
  std::vector<double> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    rows.insert(rows.end(), {static_cast<double>(i), 10.0 * static_cast<double>(i)});
    labels.push_back(static_cast<double>(i));
  }
  return std::make_shared<TensorDataset>(
      std::vector<Tensor>{from_doubles(rows, {count, 2}), from_doubles(labels, {count}, DType::i64)});
}

// Appends the first field's numbers up to the end of the epoch, then -1.
void append_epoch(Loader& loader, std::vector<double>& to) {
  while (const Batch* batch = loader.next()) {
    const auto part = batch->fields[0].to_vector();
    to.insert(to.end(), part.begin(), part.end());
  }
  to.push_back(-1);
}

std::vector<double> epochs(Loader& loader, int count) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i) append_epoch(loader, all);
  return all;
}

// Adds noise that depends on the key alone.
class Noise final : public Transform {
 public:
  std::vector<TensorType> fields(std::vector<TensorType> in) const override { return in; }
  void apply(std::span<const FieldView> in, std::span<const FieldView> out, const SampleKey& key) const override {
    const PhiloxStream stream({.seed = key.seed, .step = static_cast<std::uint64_t>(key.epoch), .site = key.stage});
    const float noise = philox_uniform(stream, static_cast<std::uint64_t>(key.sample));
    for (int i = 0; i < 2; ++i) out[0].as<float>()[i] = in[0].as<float>()[i] + noise;
    *out[1].as<std::int64_t>() = *in[1].as<std::int64_t>();
  }
};

// Adds to every sample its predecessor in the batch, cyclically.
class SumWithNeighbour final : public BatchTransform {
 public:
  std::vector<TensorType> fields(std::vector<TensorType> in) const override { return in; }
  void apply(std::span<const FieldView> in, std::span<const FieldView> out, std::int64_t count,
             const SampleKey& /*key*/) const override {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t before = (i + count - 1) % count;
      for (int j = 0; j < 2; ++j) {
        out[0].as<float>()[2 * i + j] = in[0].as<float>()[2 * i + j] + in[0].as<float>()[2 * before + j];
      }
      out[1].as<std::int64_t>()[i] = in[1].as<std::int64_t>()[i];
    }
  }
};

// Keeps whoever reads it waiting until it is let go.
class Held final : public Dataset {
 public:
  explicit Held(std::shared_ptr<const Dataset> data) : data_(std::move(data)) {}
  std::int64_t size() const override { return data_->size(); }
  std::vector<TensorType> fields() const override { return data_->fields(); }
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> fields) const override {
    while (!let_go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    data_->gather(rows, fields);
  }
  mutable std::atomic<bool> let_go{false};

 private:
  std::shared_ptr<const Dataset> data_;
};

// A thread that waits for a batch hears a request to stop, and may go on after it.
TEST(LoaderWorkers, AreNotWaitedForByAThreadThatIsToStop) {
  const auto held = std::make_shared<Held>(numbers(8));
  Loader loader(held, {.batch = 4, .shuffle = false});
  std::atomic<bool> asked{false};
  std::thread asker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    asked = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1'000));
    held->let_go = true;  // so that the test ends where nobody hears
  });
  {
    const StopRequestScope scope(asked);
    EXPECT_THROW(loader.next(), Error);
  }
  EXPECT_FALSE(held->let_go) << "it was heard before the batch came";
  held->let_go = true;
  const Batch* batch = loader.next();
  asker.join();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->fields[0].to_vector()[2], 1) << "the first batch, none is lost";
}

TEST(LoaderWorkers, MakeTheSameBatchesWhateverTheirNumber) {
  const auto data = numbers(103);
  for (const std::int64_t batch : {1, 7, 32, 103, 200}) {
    std::vector<double> expected;
    for (const int workers : {1, 2, 5}) {
      Loader loader(data, {.batch = batch, .seed = 4, .workers = workers, .transforms = {std::make_shared<Noise>()}});
      const auto all = epochs(loader, 3);
      if (workers == 1) expected = all;
      EXPECT_EQ(all, expected) << batch << " " << workers;
    }
  }
}

TEST(LoaderWorkers, MakeTheSameSamplesWhateverTheBatchSize) {
  const auto data = numbers(103);
  Loader one(data, {.batch = 10, .seed = 4, .workers = 2, .transforms = {std::make_shared<Noise>()}});
  Loader other(data, {.batch = 33, .seed = 4, .workers = 5, .transforms = {std::make_shared<Noise>()}});
  const auto first = epochs(one, 2);
  EXPECT_EQ(epochs(other, 2), first);
  std::set<double> distinct(first.begin(), first.end());
  EXPECT_GT(distinct.size(), 400U);  // noise differs between epochs
}

TEST(LoaderWorkers, ResumeAtEverySampleOfAnEpoch) {
  const auto data = numbers(41);
  Loader whole(data, {.batch = 1, .seed = 8, .transforms = {std::make_shared<Noise>()}});
  const auto all = epochs(whole, 2);
  for (const int workers : {1, 2, 5}) {
    for (std::int64_t sample = 0; sample <= 41; ++sample) {
      Loader resumed(data, {.batch = 16,
                            .seed = 8,
                            .workers = workers,
                            .transforms = {std::make_shared<Noise>()},
                            .start = {0, sample}});
      const std::vector<double> expected(all.begin() + 2 * sample, all.end());
      ASSERT_EQ(epochs(resumed, 2), expected) << workers << " " << sample;
    }
  }
}

TEST(LoaderWorkers, GoOnFromASavedState) {
  const auto data = numbers(41);
  Loader loader(data, {.batch = 8, .seed = 8, .workers = 3});
  for (int i = 0; i < 4; ++i) loader.next();
  const nlohmann::json state = nlohmann::json::parse(loader.state().dump());
  EXPECT_EQ(state.at("sample"), 32);
  const auto rest = epochs(loader, 2);
  Loader other(data, {.batch = 5, .seed = 8, .workers = 2});
  other.next();
  other.restore(state);
  EXPECT_EQ(other.position(), (DataPosition{0, 32}));
  EXPECT_EQ(epochs(other, 2), rest);
  loader.restore(state);
  EXPECT_EQ(epochs(loader, 2), rest);
}

TEST(LoaderWorkers, RefuseAStateOfOtherDataAndGoOnAsBefore) {
  Loader small(numbers(10), {.batch = 2, .seed = 1});
  Loader loader(numbers(41), {.batch = 8, .seed = 1, .shuffle = false});
  loader.next();
  EXPECT_THROW(loader.restore(small.state()), Error);
  EXPECT_THROW(loader.restore({{"epoch", 0}}), Error);
  EXPECT_THROW(loader.restore({{"epoch", 0}, {"sample", "x"}}), Error);
  Loader seeded(numbers(41), {.batch = 8, .seed = 2, .shuffle = false});
  EXPECT_THROW(loader.restore(seeded.state()), Error);
  EXPECT_EQ(loader.next()->fields[1].to_vector().front(), 8);
}

TEST(LoaderWorkers, NameTheDifferenceToOtherDataOfTheSameSize) {
  const auto tensors = [](std::int64_t changed, double by, const Shape& sample = {2}) {
    std::vector<double> rows(static_cast<std::size_t>(41 * sample.numel())), labels;
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<double>(i);
    for (int i = 0; i < 41; ++i) labels.push_back(i);
    if (changed >= 0) rows[static_cast<std::size_t>(changed * sample.numel())] += by;
    Shape shape = sample;
    shape.insert(0, 41);
    return std::make_shared<TensorDataset>(
        std::vector<Tensor>{from_doubles(rows, shape), from_doubles(labels, {41}, DType::i64)});
  };
  const auto state = Loader(tensors(-1, 0), {.batch = 8}).state();
  const auto error = [&](const std::shared_ptr<const Dataset>& data) {
    Loader loader(data, {.batch = 8});
    return attempt([&] { loader.restore(state); }).error();
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_NO_THROW(Loader(tensors(-1, 0), {.batch = 5}).restore(state));
  EXPECT_NO_THROW(Loader(tensors(40, 0.01), {.batch = 5}).restore(state)) << "decoders may differ a little";
  EXPECT_TRUE(has(error(tensors(40, 9)), "field 0 of sample 40 with mean")) << error(tensors(40, 9));
  EXPECT_TRUE(has(error(tensors(-1, 0, {3})), "fields f32[3], i64[] instead of f32[2], i64[]"));
  auto old = state;
  old.erase("data");
  EXPECT_NO_THROW(Loader(tensors(40, 9), {.batch = 8}).restore(old)) << "a state of an earlier version";
}

TEST(LoaderWorkers, GiveEverySampleToOneRankAndTheSameToAllTogether) {
  const auto data = numbers(50);
  Loader alone(data, {.batch = 12, .seed = 3});
  std::vector<std::unique_ptr<Loader>> ranks;
  for (int rank = 0; rank < 5; ++rank) {
    ranks.push_back(
        std::make_unique<Loader>(data, LoaderOptions{.batch = 12, .seed = 3, .workers = 2, .rank = rank, .ranks = 5}));
  }
  for (int step = 0; step < 6; ++step) {
    const Batch* whole = alone.next();
    std::vector<double> together;
    for (auto& rank : ranks) {
      const Batch* part = rank->next();
      ASSERT_EQ(part == nullptr, whole == nullptr);
      EXPECT_EQ(rank->position(), alone.position());
      if (part == nullptr) continue;
      EXPECT_EQ(part->total, whole->size);
      const auto values = part->fields[1].to_vector();
      together.insert(together.end(), values.begin(), values.end());
    }
    if (whole == nullptr) continue;
    EXPECT_EQ(together, whole->fields[1].to_vector());
  }
}

TEST(LoaderWorkers, MixWholeBatches) {
  for (const int workers : {1, 2, 5}) {
    Loader loader(
        numbers(20),
        {.batch = 8, .shuffle = false, .workers = workers, .transforms = {std::make_shared<SumWithNeighbour>()}});
    EXPECT_EQ(loader.next()->fields[0].to_vector()[0], 0 + 7);
    const auto second = loader.next()->fields[0].to_vector();
    EXPECT_EQ(second[0], 8 + 15);
    EXPECT_EQ(second[2], 9 + 8);
    EXPECT_EQ(loader.next()->fields[0].to_vector()[0], 16 + 19);
    EXPECT_EQ(loader.next(), nullptr);
  }
}

TEST(LoaderWorkers, AllocateNoTensorsOnceWarm) {
  Loader loader(numbers(103), {.batch = 32, .seed = 8, .workers = 3, .transforms = {std::make_shared<Noise>()}});
  for (int i = 0; i < 30; ++i) loader.next();
  const auto before = allocator(kCpu).stats().allocations;
  for (int i = 0; i < 100; ++i) loader.next();
  EXPECT_EQ(allocator(kCpu).stats().allocations, before);
}

TEST(LoaderWorkers, KeepABatchUntilTheNextIsAskedFor) {
  Loader loader(numbers(1000), {.batch = 20, .shuffle = false, .workers = 4, .prefetch = 1});
  for (int i = 0; i < 200; ++i) {
    const Batch* batch = loader.next();
    if (batch == nullptr) continue;
    const auto before = batch->fields[1].to_vector();
    std::this_thread::yield();
    EXPECT_EQ(batch->fields[1].to_vector(), before);
    EXPECT_EQ(before[0], static_cast<double>(batch->begin.sample));
  }
}

// Data set that throws at some samples; the others hold their index. Optionally slow.
class Faulty final : public Dataset {
 public:
  explicit Faulty(std::set<std::int64_t> bad, int delay_us = 0) : bad_(std::move(bad)), delay_us_(delay_us) {}
  std::int64_t size() const override { return 200; }
  std::vector<TensorType> fields() const override { return {{DType::i64, {}}}; }
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override {
    if (delay_us_ > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us_));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (bad_.contains(rows[i])) fail("[faulty] expected a disk, got none");
      out[0].data<std::int64_t>()[i] = rows[i];
    }
  }

 private:
  std::set<std::int64_t> bad_;
  int delay_us_;
};

std::string error_of(Loader& loader) {
  try {
    loader.next();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(LoaderWorkers, NameTheSampleThatCannotBeMadeAfterTheGoodBatches) {
  for (const int workers : {1, 2, 5}) {
    Loader loader(std::make_shared<Faulty>(std::set<std::int64_t>{97, 101, 55 + 100}),
                  {.batch = 40, .shuffle = false, .workers = workers, .prefetch = 6});
    EXPECT_NE(loader.next(), nullptr);
    EXPECT_NE(loader.next(), nullptr);
    EXPECT_EQ(error_of(loader), "[loader] sample 97 (position 97 of epoch 0): [faulty] expected a disk, got none");
    EXPECT_EQ(error_of(loader), "[loader] sample 97 (position 97 of epoch 0): [faulty] expected a disk, got none");
    EXPECT_EQ(loader.position(), (DataPosition{0, 80}));
    EXPECT_EQ(loader.state().at("sample"), 80);
    loader.seek({0, 160});
    EXPECT_EQ(loader.next()->fields[0].to_vector().front(), 160);
  }
}

class Refusing final : public Transform {
 public:
  std::vector<TensorType> fields(std::vector<TensorType> in) const override { return in; }
  void apply(std::span<const FieldView> in, std::span<const FieldView> out, const SampleKey& key) const override {
    if (key.sample == 33) throw std::runtime_error("no such colour");
    *out[0].as<std::int64_t>() = *in[0].as<std::int64_t>();
  }
};

TEST(LoaderWorkers, NameTheSampleThatATransformRefuses) {
  Loader loader(std::make_shared<Faulty>(std::set<std::int64_t>{}),
                {.batch = 50, .seed = 6, .workers = 2, .transforms = {std::make_shared<Refusing>()}});
  std::string error = "none";
  while (error == "none") error = error_of(loader);
  EXPECT_TRUE(error.starts_with("[loader] sample 33 (position ")) << error;
  EXPECT_TRUE(error.ends_with("of epoch 0): no such colour")) << error;
}

TEST(LoaderWorkers, StopPromptlyAtAnyMoment) {
  for (int i = 0; i < 40; ++i) {
    Loader loader(std::make_shared<Faulty>(std::set<std::int64_t>{150}, i % 4 * 50),
                  {.batch = 16, .seed = static_cast<std::uint64_t>(i), .workers = 1 + i % 5, .prefetch = 1 + i % 3});
    try {
      for (int j = 0; j < i % 7; ++j) loader.next();
      if (i % 2 == 0) loader.seek({0, i});
    } catch (const Error&) {
      if (i % 3 == 0) loader.seek({1, 0});
    }
  }
}

TEST(LoaderWorkers, TellHowLongTheyWereWaitedFor) {
  LoaderStats stats;
  // Retries, since a thread that gets no processor does not wait for the loader.
  for (int tries = 0; tries < 10 && stats.waited_s <= 0.020; ++tries) {
    const auto start = std::chrono::steady_clock::now();
    Loader slow(std::make_shared<Faulty>(std::set<std::int64_t>{}, 20'000), {.batch = 10, .workers = 1});
    for (int i = 0; i < 8; ++i) slow.next();
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    stats = slow.stats();
    EXPECT_EQ(stats.batches, 8);
    EXPECT_EQ(stats.samples, 80);
    EXPECT_EQ(stats.bytes, 640);
    EXPECT_LE(stats.waited_s, elapsed);
    EXPECT_GE(stats.made_s, 0.160);
  }
  EXPECT_GT(stats.waited_s, 0.020);  // of the 0.160 s that making them takes
}

TEST(LoaderWorkers, HoldNoMoreBatchesThanTheMemoryAllows) {
  const auto data = numbers(1000);  // 16 bytes a sample
  allocator(kCpu).reset_peak();
  const auto before = allocator(kCpu).stats().live_bytes;
  Loader loader(data, {.batch = 256, .prefetch = 60, .prefetch_bytes = 5 * 256 * 16});
  for (int i = 0; i < 20; ++i) loader.next();
  EXPECT_LE(allocator(kCpu).stats().peak_bytes - before, 5 * 256 * 16 + 5 * 2 * 64);
  EXPECT_THROW(Loader(data, {.batch = 256, .prefetch_bytes = 256 * 16}), Error);
}

TEST(LoaderWorkers, CountTheScratchOfTransformsAmongTheMemory) {
  const std::vector<Tensor> columns = {zeros({64, 3, 8, 8}, DType::u8), zeros({64}, DType::i64)};
  const auto data = std::make_shared<TensorDataset>(columns);
  LoaderOptions options{.batch = 32, .workers = 2};
  for (const auto& chosen : read_transforms(ConfigNode::parse("[to_float, {name: mixup, classes: 2}]", "job.yaml"))) {
    options.transforms.push_back(chosen.make());
  }
  const std::int64_t raw = 32 * (3 * 8 * 8 + 8), made = 32 * 4 * (3 * 8 * 8 + 2);
  const std::int64_t between = 32 * (4 * 3 * 8 * 8 + 8) + 64;  // f32 images before mixing
  options.prefetch_bytes = 2 * made + 2 * (raw + between);
  EXPECT_NO_THROW(Loader(data, options));
  options.prefetch_bytes -= 1;
  EXPECT_THROW(Loader(data, options), Error);
}

TEST(LoaderWorkers, RefuseWrongOptions) {
  EXPECT_THROW(Loader(numbers(3), {.batch = 1, .workers = 0}), Error);
  EXPECT_THROW(Loader(numbers(3), {.batch = 1, .rank = 2, .ranks = 2}), Error);
}

TEST(ScaledDataset, HandsOutBytesAsNumbersByChannel) {
  const Bytes bytes = {0, 255, 51, 102, 255, 0, 153, 204};
  const auto images = from_host<std::uint8_t>(std::span<const unsigned char>(bytes), {2, 2, 2});
  const auto labels = from_doubles(std::vector<double>{7, 9}, {2}, DType::i64);
  const ScaledDataset data({images, labels}, {.mean = {0.0F, 0.5F}, .std = {1.0F, 0.25F}});
  EXPECT_EQ(to_string(data.fields()[0]), "f32[2, 2]");
  const TensorList out = {empty({1, 2, 2}), empty({1}, DType::i64)};
  data.gather(std::vector<std::int64_t>{1}, {out.data(), out.size()});
  const auto values = out[0].to_vector();
  const std::vector<double> expected = {1, 0, (0.6 - 0.5) / 0.25, (0.8 - 0.5) / 0.25};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(values[i], expected[i], 1e-6) << i;
  EXPECT_EQ(out[1].to_vector(), std::vector<double>{9});
  EXPECT_THROW(ScaledDataset({images}, {.mean = {0, 0, 0}, .std = {1, 1, 1}}), Error);
  EXPECT_THROW(ScaledDataset({images}, {.mean = {0}, .std = {0}}), Error);
  EXPECT_THROW(ScaledDataset({labels}, {}), Error);
  const TensorList wrong = {empty({2, 2, 2}), empty({1}, DType::i64)};
  EXPECT_THROW(data.gather(std::vector<std::int64_t>{1}, {wrong.data(), wrong.size()}), Error);
}

}  // namespace
}  // namespace starling::data
