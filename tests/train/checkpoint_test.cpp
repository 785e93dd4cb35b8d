#include "starling/train/checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "starling/train/checkpoint/environment.h"
#include "starling/train/checkpoint/manifest.h"
#include "testing/temporary_folder.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::read_text;
using testing::write_text;

Checkpoint at_step(std::int64_t step) {
  const auto value = static_cast<double>(step);
  return {.step = step,
          .tensors = {{"w", from_doubles(std::vector<double>{value, value + 1, -value, 0.5}, {2, 2})},
                      {"momentum/w", from_doubles(std::vector<double>(1000, value), {1000})},
                      {"count", from_doubles(std::vector<double>{value}, {}, DType::i64)}},
          .extra = {{"data", {{"epoch", 1}, {"sample", step}}}, {"lr", 0.1}}};
}

void expect_step(const Checkpoint& checkpoint, std::int64_t step) {
  const auto expected = at_step(step);
  EXPECT_EQ(checkpoint.step, step);
  EXPECT_EQ(checkpoint.extra, expected.extra);
  ASSERT_EQ(checkpoint.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    bool found = false;
    for (const auto& loaded : checkpoint.tensors) {
      if (loaded.name != name) continue;
      found = true;
      EXPECT_EQ(loaded.tensor.type(), tensor.type());
      EXPECT_EQ(loaded.tensor.to_vector(), tensor.to_vector());
    }
    EXPECT_TRUE(found) << name;
  }
}

void flip_byte(const fs::path& path, std::size_t at) {
  std::string text = read_text(path);
  text.at(at) = static_cast<char>(text.at(at) ^ 4);
  write_text(path, text);
}

TEST(Checkpoint, BringsBackTensorsAndExtraData) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder / "run");
  EXPECT_EQ(checkpoints.save(at_step(42)).value(), folder / "run/step-00000042");
  const auto loaded = checkpoints.load_latest().value();
  expect_step(loaded.checkpoint, 42);
  EXPECT_TRUE(loaded.skipped.empty());
  expect_step(checkpoints.load(42).value(), 42);
}

TEST(Checkpoint, KeepsTheNewestOnesOnly) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 2);
  for (std::int64_t step : {5, 10, 15, 20}) checkpoints.save(at_step(step)).value();
  EXPECT_EQ(checkpoints.steps(), (std::vector<std::int64_t>{15, 20}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
  EXPECT_THROW(CheckpointFolder(folder.path(), 1), Error);
}

TEST(Checkpoint, ReplacesTheSameStepAndLeavesLaterOnesAlone) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 2);
  for (std::int64_t step : {10, 20, 30}) checkpoints.save(at_step(step)).value();
  auto again = at_step(20);
  again.extra = {{"second", true}};
  checkpoints.save(again).value();
  EXPECT_EQ(checkpoints.load(20).value().extra, again.extra);
  checkpoints.save(at_step(5)).value();
  EXPECT_EQ(checkpoints.steps(), (std::vector<std::int64_t>{5, 20, 30}));
}

TEST(Checkpoint, KeepsATensorReadableAfterItsFileIsPruned) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 2);
  checkpoints.save(at_step(1)).value();
  const auto first = checkpoints.load(1).value();
  for (std::int64_t step : {2, 3, 4}) checkpoints.save(at_step(step)).value();
  EXPECT_FALSE(checkpoints.load(1));
  expect_step(first, 1);
}

// An interrupted save leaves a temporary folder, or a checkpoint whose damage is detected.
TEST(Checkpoint, FallsBackToTheNewestSoundOne) {
  struct Damage {
    const char* what;
    void (*apply)(const fs::path&);
  };
  const Damage damages[] = {
      {"no manifest", [](const fs::path& at) { fs::remove(at / "manifest.json"); }},
      {"no tensors", [](const fs::path& at) { fs::remove(at / "tensors.safetensors"); }},
      {"short tensors", [](const fs::path& at) { fs::resize_file(at / "tensors.safetensors", 100); }},
      {"empty tensors", [](const fs::path& at) { fs::resize_file(at / "tensors.safetensors", 0); }},
      {"longer tensors", [](const fs::path& at) { fs::resize_file(at / "tensors.safetensors", 100000); }},
      {"short manifest", [](const fs::path& at) { fs::resize_file(at / "manifest.json", 50); }},
      {"empty manifest", [](const fs::path& at) { fs::resize_file(at / "manifest.json", 0); }},
      {"a bit of the header", [](const fs::path& at) { flip_byte(at / "tensors.safetensors", 12); }},
      {"a bit of the data", [](const fs::path& at) { flip_byte(at / "tensors.safetensors", 2000); }},
      {"a digit in the manifest",
       [](const fs::path& at) {
         std::string text = read_text(at / "manifest.json");
         text.replace(text.find("\"epoch\": 1"), 10, "\"epoch\": 2");
         write_text(at / "manifest.json", text);
       }},
      {"nothing at all",
       [](const fs::path& at) {
         fs::remove_all(at);
         fs::create_directory(at);
       }},
  };
  for (const auto& damage : damages) {
    const testing::TemporaryFolder folder;
    const CheckpointFolder checkpoints(folder.path());
    for (std::int64_t step : {1, 2, 3}) checkpoints.save(at_step(step)).value();
    damage.apply(folder / "step-00000003");
    const auto loaded = checkpoints.load_latest().value();
    expect_step(loaded.checkpoint, 2);
    ASSERT_EQ(loaded.skipped.size(), 1U) << damage.what;
    EXPECT_NE(loaded.skipped[0].find("step-00000003"), std::string::npos) << loaded.skipped[0];
  }
}

TEST(Manifest, ThatIsDamagedPutsNoRawBytesIntoItsMessage) {
  try {
    parse_manifest("{\"a\": \"\x7f\xff\"}", "m");
    FAIL() << "expected a refusal";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; })) << text;
    EXPECT_NE(text.find("\\xff"), std::string::npos) << text;
  }
  const std::string long_one = error_of([] {
    parse_manifest(
        R"({"format": "starling-checkpoint", "version": 1, "checksum": ")" + std::string(100'000, 'x') + "\"}", "m");
  });
  EXPECT_LT(long_one.size(), 2000U);
  EXPECT_NE(long_one.find(" ... "), std::string::npos) << long_one;
}

TEST(Checkpoint, FindsOutADamagedByteWhereverItIs) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  checkpoints.save(at_step(7)).value();
  std::mt19937 random(5);
  for (const char* name : {"manifest.json", "tensors.safetensors"}) {
    const fs::path path = folder / "step-00000007" / name;
    const std::string good = read_text(path);
    for (int i = 0; i < 100; ++i) {
      std::string bad = good;
      const auto at = random() % bad.size();
      // Space around JSON may change without harm.
      if (std::isspace(static_cast<unsigned char>(bad[at])) != 0 && std::string(name) == "manifest.json") continue;
      bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 7));
      write_text(path, bad);
      EXPECT_FALSE(checkpoints.load(7)) << name << " byte " << at;
    }
    write_text(path, good);
  }
  EXPECT_TRUE(checkpoints.load(7));
}

TEST(Checkpoint, TellsWhenNoneIsSound) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  EXPECT_NE(checkpoints.load_latest().error().find("got none"), std::string::npos);
  checkpoints.save(at_step(1)).value();
  fs::remove(folder / "step-00000001/manifest.json");
  EXPECT_NE(checkpoints.load_latest().error().find("step-00000001"), std::string::npos);
  EXPECT_FALSE(CheckpointFolder(folder / "none").load_latest());
}

TEST(Checkpoint, NeverPublishesNumbersThatAreNotFinite) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                       -std::numeric_limits<double>::infinity()}) {
      auto checkpoint = at_step(1);
      std::vector<double> values(3000, 1);
      values[2999] = bad;
      checkpoint.tensors.push_back({"conv.weight", from_doubles(values, {3000}, dtype)});
      const auto result = checkpoints.save(checkpoint);
      EXPECT_NE(result.error().find("conv.weight"), std::string::npos);
    }
  }
  EXPECT_TRUE(checkpoints.steps().empty());
  auto largest = at_step(1);
  largest.tensors.push_back({"max", from_doubles(std::vector<double>{std::numeric_limits<float>::max(), -0.0}, {2})});
  EXPECT_TRUE(checkpoints.save(largest));
}

TEST(Checkpoint, RefusesManifestsThatNameOtherFiles) {
  const testing::TemporaryFolder folder;
  const testing::TemporaryFolder other;
  const CheckpointFolder checkpoints(folder.path());
  checkpoints.save(at_step(1)).value();
  const fs::path at = folder / "step-00000001";
  write_text(other / "secret", "x");
  fs::create_symlink(other / "secret", at / "link");
  const auto good = parse_manifest(read_text(at / "manifest.json"), "m");
  for (const std::string& name : {std::string("link"), std::string("../secret"), (other / "secret").string()}) {
    auto manifest = good;
    manifest.files.push_back({name, 1, "0"});
    write_text(at / "manifest.json", format_manifest(manifest));
    const auto error = checkpoints.load(1).error();
    EXPECT_NE(error.find("[path]"), std::string::npos) << error;
  }
}

TEST(Checkpoint, RefusesOtherVersionsAndOtherSteps) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  checkpoints.save(at_step(1)).value();
  fs::rename(folder / "step-00000001", folder / "step-00000009");
  EXPECT_NE(checkpoints.load(9).error().find("expected step 9, got 1"), std::string::npos);
  std::string text = read_text(folder / "step-00000009/manifest.json");
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2");
  EXPECT_NE(error_of([&] { parse_manifest(text, "m"); }).find("expected version 1, got 2"), std::string::npos);
}

TEST(Manifest, RefusesDeepAndForeignJson) {
  for (const std::string& text : {std::string(), std::string("[]"), std::string("{}"), std::string("{\"format\": 3}"),
                                  std::string(100000, '['), std::string(40, '[') + std::string(40, ']')}) {
    EXPECT_NE(error_of([&] { parse_manifest(text, "m"); }).find("[checkpoint] m"), std::string::npos);
  }
}

TEST(Manifest, KeepsNumbersThatJsonCannotHoldAsNull) {
  const Manifest manifest{.step = 1, .files = {}, .extra = {{"loss", std::numeric_limits<double>::quiet_NaN()}}};
  EXPECT_TRUE(parse_manifest(format_manifest(manifest), "m").extra.at("loss").is_null());
}

// A limit on the size of files stands in for a full disk.
TEST(Checkpoint, ReportsAFullDiskAndKeepsTheOlderOne) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  checkpoints.save(at_step(1)).value();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto result = checkpoints.save(at_step(2));
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_FALSE(result);
  EXPECT_NE(result.error().find("tensors.safetensors"), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  expect_step(checkpoints.load_latest().value().checkpoint, 1);
  EXPECT_TRUE(checkpoints.save(at_step(2)));
}

TEST(Checkpoint, ClearsAwayWhatAKilledSaveLeft) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  fs::create_directories(folder / ".tmp-step-00000007");
  write_text(folder / ".tmp-step-00000007/tensors.safetensors", "half");
  EXPECT_TRUE(checkpoints.steps().empty());
  checkpoints.save(at_step(8)).value();
  EXPECT_FALSE(fs::exists(folder / ".tmp-step-00000007"));
}

TEST(Checkpoint, LeavesASoundOneWheneverTheProcessIsKilled) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 2);
  checkpoints.save(at_step(0)).value();
  std::mt19937 random(2);
  for (int round = 0; round < 15; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (std::int64_t step = 1;; ++step) {
        if (!checkpoints.save(at_step(step))) ::_exit(1);
      }
    }
    ::usleep(2000 + random() % 20000);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto loaded = checkpoints.load_latest();
    ASSERT_TRUE(loaded) << loaded.error();
    EXPECT_TRUE(loaded->skipped.empty()) << loaded->skipped[0];
    expect_step(loaded->checkpoint, loaded->checkpoint.step);
  }
}

TEST(Environment, TellsWhichFactsChanged) {
  const auto now = environment_facts();
  EXPECT_TRUE(environment_differences(now, now).empty());
  auto other = now;
  other["isa"] = "abacus";
  const auto differences = environment_differences(other, now);
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_NE(differences[0].find("abacus"), std::string::npos);
}

}  // namespace
}  // namespace starling::train
