// Jobs whose gradients travel to parameter servers in the form of a codec; workers and servers are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "starling/base/error.h"
#include "starling/dist/ps/coded_push.h"
#include "starling/dist/ps/wire.h"
#include "starling/train/job/job_run.h"
#include "starling/train/monitor/json_log.h"
#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

class CodedServersJob : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dist::ps::has_wire()) GTEST_SKIP() << "built without ZeroMQ";
    testing::write_tiny_fashion(data_.path(), 103, 40);
  }
  Job job(const std::string& folder, const std::string& distribute, std::vector<std::string> set = {}) const {
    const std::string text =
        "model: {name: mlp, hidden: [16]}\ndata: {batch: 32}\noptimizer: {lr: 0.05, momentum: 0}\n"
        "train: {epochs: 2, seed: 7, export: false}\nmonitor: {tensorboard: false}\n";
    set.push_back("distribute={threads: 1, servers: 2, " + distribute + "}");
    set.push_back("data.folder=" + data_.path().string());
    set.push_back("train.folder=" + (runs_.path() / folder).string());
    return read_job(ConfigNode::parse(text, "job.yaml", set));
  }
  TrainResult run(const std::string& folder, const std::string& distribute, std::vector<std::string> set = {}) const {
    TrainOptions options;
    options.progress.mode = ProgressMode::off;
    return run_job(job(folder, distribute, std::move(set)), options);
  }
  static double counter(const TrainResult& result, std::size_t rank, const std::string& name) {
    return result.summary.ranks.at(rank).counters.at(name).get<double>();
  }

  testing::TestFolder data_{"coded-servers-data"};
  testing::TestFolder runs_{"coded-servers-runs"};
};

TEST_F(CodedServersJob, LearnByEveryCodecThatServersDecode) {
  const double first = run("none", "strategy: async", {"train.epochs=1"}).summary.loss;
  int number = 0;
  for (const char* codec :
       {"fp16", "bf16", "one_bit", "{name: top_k, share: 0.2}", "{name: threshold, threshold: 0.05}"}) {
    for (const char* how :
         {"workers: 2, strategy: async", "workers: 2, strategy: sync_server", "strategy: downpour, n_push: 2"}) {
      const auto result =
          run("codec-" + std::to_string(number++), how + std::string(", codec: ") + codec, {"train.epochs=4"});
      EXPECT_LT(result.summary.loss, 0.95 * first) << codec << ", " << how;
      const double before = counter(result, 0, "decoded_bytes"), after = counter(result, 0, "coded_bytes");
      const bool half = codec == std::string("fp16") || codec == std::string("bf16");
      EXPECT_LE(2 * after, before) << codec << ", " << how;
      EXPECT_EQ(2 * after == before, half) << codec << ", " << how;
      EXPECT_EQ(counter(result, 0, "settles") > 0, !half) << "what is kept arrives in the end";
    }
  }
}

// Bytes of a worker with 16-bit pushes: half of the gradients', and a number for each portion and key.
TEST_F(CodedServersJob, SendExactlyHalfOfTheBytesInSixteenBits) {
  const auto sent = [&](const char* codec) {
    const auto result =
        run(std::string("bytes-") + codec, std::string("strategy: async, codec: ") + codec, {"train.epochs=1"});
    return counter(result, 0, "client.bytes_out") -
           counter(result, 0, "pushes") * counter(result, 0, "servers.keys") * 8;
  };
  const double dense = sent("none");
  EXPECT_EQ(2 * sent("bf16"), dense);
  EXPECT_EQ(dense, 4.0 * 4 * (784 * 16 + 16 + 16 * 10 + 10)) << "four steps";
}

// A threshold that nothing reaches: the weights stay, and all gradients reach the servers when the worker settles, as
// with n_push beyond the end. A run that goes on from that checkpoint does the same once more.
TEST_F(CodedServersJob, CheckpointsHoldGradientsThatWereNotSent) {
  const auto hashes = [&](const std::string& folder, const std::string& how) {
    std::vector<std::string> found;
    for (const char* epochs : {"train.epochs=1", "train.epochs=2"})
      found.push_back(run(folder, how, {epochs}).summary.weights_hash);
    return found;
  };
  const auto kept = hashes("kept", "strategy: async, codec: {name: threshold, threshold: 1000}");
  EXPECT_EQ(kept, hashes("added", "strategy: downpour, n_push: 4096"));
  EXPECT_NE(kept, hashes("gone", "strategy: async, codec: {name: one_bit, feedback: false}"));
}

// Every weight tells what its pushes weighed before and after coding and how much of them is kept, at its worker and in
// what the leader logs.
TEST_F(CodedServersJob, TellBytesAndErrorsOfEveryWeight) {
  const auto bits = run("bits", "workers: 2, strategy: async, codec: one_bit", {"monitor.scalars_every=1"});
  const double portions = counter(bits, 0, "pushes") + counter(bits, 1, "pushes");
  const auto of_both = [&](const std::string& name) { return counter(bits, 0, name) + counter(bits, 1, name); };
  EXPECT_EQ(of_both("decoded_bytes.fc1.weight"), portions * 784 * 16 * 4);
  EXPECT_EQ(of_both("coded_bytes.fc1.weight"), portions * 16 * (784.0 / 8 + 2 * 4));
  EXPECT_EQ(counter(bits, 0, "servers.coded_bytes.fc1.weight"), of_both("coded_bytes.fc1.weight"));
  EXPECT_GT(counter(bits, 0, "codec_error.fc1.weight"), 0.1);
  EXPECT_GT(counter(bits, 0, "servers.codec_error.fc1.weight"), 0.1) << "workers tell the servers";
  double before = 0, error = 0;
  std::ifstream log(runs_.path() / "bits" / kLogName);
  for (std::string line; std::getline(log, line);) {
    const auto event = nlohmann::json::parse(line);
    if (!event.contains("codec")) continue;
    before += event.at("codec").at("fc1.weight").at("megabytes_before").get<double>();
    error = std::max(error, event.at("codec").at("fc1.weight").at("error").get<double>());
  }
  EXPECT_GT(before, 0);
  EXPECT_GT(error, 0.1);
  const auto half = run("half", "strategy: async, codec: bf16");
  EXPECT_EQ(counter(half, 0, "codec_error.fc1.weight"), 0) << "control: nothing is kept";
  EXPECT_FALSE(run("none", "strategy: async").summary.ranks.at(0).counters.contains("decoded_bytes")) << "control";
}

TEST_F(CodedServersJob, WithoutFeedbackOneBitLearnsLess) {
  const auto loss = [&](const std::string& name, const std::string& codec) {
    return run(name, "strategy: async, codec: " + codec, {"train.epochs=20", "train.checkpoint_every=1000"})
        .summary.loss;
  };
  const double dense = loss("dense", "none"), with = loss("with", "one_bit"),
               without = loss("without", "{name: one_bit, feedback: false}");
  EXPECT_LT(with, 1.5 * dense + 0.02);
  EXPECT_GT(without, 1.5 * with) << "dense " << dense << ", with " << with;
}

// Law: rows · (outputs + inputs to every server) words in place of the product, and what it learns is the same.
TEST_F(CodedServersJob, FactorsOfDenseLayersAreMultipliedOnTheServers) {
  const auto train = [&](const std::string& name, const std::string& how, const char* batch) {
    return run(name, how, {"model.hidden=[64]", std::string("data.batch=") + batch, "train.epochs=1"});
  };
  const auto dense = train("dense", "strategy: async", "8"),
             sent = train("sent", "strategy: async, codec: factors", "8");
  EXPECT_NEAR(sent.summary.loss, dense.summary.loss, 1e-5);
  EXPECT_EQ(counter(sent, 0, "sent_by_factors"), 2 * 13) << "of both layers, in every step";
  EXPECT_EQ(counter(sent, 0, "coded_bytes"), 103.0 * (64 + 2 * 784 + 10 + 64) * 4)
      << "rows of all samples; the second layer lies on one server";
  const double saved = counter(sent, 0, "decoded_bytes") - counter(sent, 0, "coded_bytes");
  EXPECT_EQ(counter(sent, 0, "client.bytes_out"), counter(dense, 0, "client.bytes_out") - saved);
  const auto many = train("many", "strategy: async, codec: factors", "64");
  EXPECT_FALSE(many.summary.ranks.at(0).counters.contains("sent_by_factors")) << "control: of many rows the product";
  EXPECT_NEAR(train("adam", "workers: 2, strategy: project_adam", "16").summary.loss, dense.summary.loss, 0.3);
  EXPECT_NEAR(train("poseidon", "workers: 2, strategy: poseidon", "16").summary.loss,
              train("sync", "workers: 2, strategy: sync_server", "16").summary.loss, 1e-5);
}

// Workers choose a form for each gradient, and say which; servers decode each.
TEST_F(CodedServersJob, ChooseAFormForEachGradient) {
  const auto train = [&](const std::string& name, const std::string& codec) {
    return run(name, "workers: 2, strategy: async, codec: " + codec, {"train.epochs=4", "monitor.scalars_every=1"});
  };
  const double first = run("first", "strategy: async", {"train.epochs=1"}).summary.loss;
  const auto chosen = train("chosen", "{name: auto, every: 3}"), bits = train("bits", "{name: auto, as: one_bit}"),
             half = train("half", "{name: auto, as: bf16}");
  for (const auto* result : {&chosen, &bits, &half}) EXPECT_LT(result->summary.loss, 0.95 * first);
  for (const char* weight : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}) {
    const std::string form = std::string("codec_form.") + weight;
    EXPECT_TRUE(chosen.summary.ranks.at(0).counters.contains(form));
    EXPECT_TRUE(chosen.summary.ranks.at(0).counters.contains("servers." + form)) << "workers tell the servers";
    EXPECT_EQ(counter(bits, 0, form), static_cast<double>(dist::GradientForm::one_bit));
    EXPECT_EQ(counter(half, 0, form), static_cast<double>(dist::GradientForm::bf16));
  }
  EXPECT_EQ(2 * counter(half, 0, "coded_bytes"), counter(half, 0, "decoded_bytes"));
  EXPECT_LT(10 * counter(bits, 0, "coded_bytes"), counter(bits, 0, "decoded_bytes"));
  std::ifstream log(runs_.path() / "bits" / kLogName);
  bool told = false;
  for (std::string line; std::getline(log, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("event") == "codec") told = event.at("forms").at("fc1.weight") == "one_bit";
  }
  EXPECT_TRUE(told);
  const auto none = run("none", "strategy: async").summary.ranks.at(0).counters;
  EXPECT_FALSE(none.contains("codec_form.fc1.weight")) << "control: nothing is chosen";
}

TEST_F(CodedServersJob, AreRefusedWithWhatWasExpected) {
  for (const char* codec : {"power_sgd", "{layers: [{name: \"fc1*\", codec: fp16}]}"}) {
    try {
      static_cast<void>(job("refused", std::string("strategy: async, codec: ") + codec));
      ADD_FAILURE() << codec;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("form servers decode"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace starling::train
