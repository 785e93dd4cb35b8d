// Jobs of several workers whose gradients travel by a codec.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "starling/dist/ps/wire.h"
#include "starling/train/job/job_check.h"
#include "starling/train/job/job_run.h"
#include "starling/train/monitor/json_log.h"
#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

// Rows of an embedding travel as they are, beside coded gradients of the other layers.
TEST(CodecJobs, RowsOfAnEmbeddingTravelAsTheyAre) {
  const testing::TestFolder data{"codec-rows-data"}, runs{"codec-rows-runs"};
  const auto letters = data.path() / "letters.csv";
  std::ofstream file(letters);
  file << "text,kind\n";
  for (int i = 0; i < 64; ++i) file << (i % 2 == 0 ? "aa ab ac,a" : "ba bb bc,b") << "\n";
  file.close();
  const auto job_of = [&](bool sparse, const std::string& codec) {
    const std::string text =
        "model: {layers: [{embedding: {vocabulary: 1000, width: 8, sparse: " + std::string(sparse ? "true" : "false") +
        "}}, {flatten: {}}, {linear: {out: 64}}, {relu: {}}, {linear: {out: 2}}]}\n"
        "data: {name: csv_text, text: text, label: kind, length: 3, batch: 16}\n"
        "optimizer: {name: adagrad, lr: 0.05}\ntrain: {epochs: 2, seed: 7, export: false, resume: none}\n"
        "monitor: {tensorboard: false}\ndistribute: {workers: 2, threads: 1, codec: " +
        codec + "}\n";
    const std::vector<std::string> set = {"data.train=[" + letters.string() + "]",
                                          "train.folder=" + (runs.path() / (sparse ? "rows" : "dense")).string()};
    return read_job(ConfigNode::parse(text, "job.yaml", set));
  };
  const auto train = [&](bool sparse, const std::string& codec) {
    TrainOptions quiet;
    quiet.progress.mode = ProgressMode::off;
    return run_job(job_of(sparse, codec), quiet).summary;
  };
  const auto sent = [](const Summary& summary) {
    return summary.ranks.at(0).counters.at("reduced_bytes_sent").get<double>();
  };
  const auto said = [&](bool sparse, const std::string& codec) {
    return fmt::format("{}", fmt::join(check_job(job_of(sparse, codec)).notes, "\n"));
  };
  EXPECT_NE(said(true, "bf16").find("embedding_1.weight are rows of a sparse embedding and travel as they are"),
            std::string::npos)
      << said(true, "bf16");
  EXPECT_EQ(said(false, "bf16"), "") << "control";
  EXPECT_EQ(said(true, "none"), "") << "control";
  const auto plain = train(true, "none");
  for (const char* codec : {"bf16", "one_bit"}) {
    const auto rows = train(true, codec), dense = train(false, codec);
    EXPECT_LT(rows.loss, 0.69) << codec;
    EXPECT_NEAR(rows.loss, plain.loss, codec == std::string("bf16") ? 0.02 : 0.3) << codec;
    EXPECT_LT(sent(rows), sent(plain)) << codec << ": other layers are coded";
    EXPECT_LT(sent(rows), sent(dense)) << codec << " control: the whole table, coded";
  }
}

class CodecLayers : public ::testing::Test {
 protected:
  CodecLayers() { testing::write_tiny_fashion(data_.path(), 64, 32); }
  Summary train(const std::string& codec, const std::string& more = "") const {
    const std::string text = "model: {name: mlp, hidden: [64]}\ndata: {batch: 8, folder: '" + data_.path().string() +
                             "'}\noptimizer: {lr: 0.05}\ntrain: {epochs: 1, seed: 7, export: false, resume: none" +
                             more + ", folder: '" + runs_.path().string() +
                             "'}\nmonitor: {tensorboard: false}\ndistribute: {workers: 2, threads: 1, codec: " + codec +
                             "}\n";
    TrainOptions quiet;
    quiet.progress.mode = ProgressMode::off;
    return run_job(read_job(ConfigNode::parse(text, "job.yaml")), quiet).summary;
  }
  static double counter(const Summary& summary, const char* name) {
    return summary.ranks.at(0).counters.at(name).get<double>();
  }
  std::string refusal(const std::string& codec, const std::string& more = "") const {
    try {
      train(codec, more);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  testing::TestFolder data_{"codec-layers-data"}, runs_{"codec-layers-runs"};
};

TEST_F(CodecLayers, HaveCodecsOfTheirOwn) {
  const auto plain = train("none"), half = train("bf16"), bits = train("one_bit"), factors = train("factors");
  const std::string first = "{layers: [{name: fc1.weight, codec: ";  // 784 × 64; the other layers are small
  const auto mixed = train(first + "one_bit}], else: bf16}"), alone = train(first + "factors}], else: none}");
  EXPECT_LT(counter(mixed, "reduced_bytes_sent"), counter(half, "reduced_bytes_sent") / 4);
  EXPECT_GT(counter(mixed, "reduced_bytes_sent"), counter(bits, "reduced_bytes_sent")) << "control: one for all";
  EXPECT_EQ(counter(alone, "sent_by_factors"), 1);
  EXPECT_EQ(counter(factors, "sent_by_factors"), 2) << "control: one for all";
  EXPECT_NEAR(alone.loss, plain.loss, 1e-4);
  EXPECT_NEAR(mixed.loss, plain.loss, 0.3);
}

TEST_F(CodecLayers, AreRefusedWhereNothingMatchesOrNothingIsAProduct) {
  EXPECT_NE(refusal("{layers: [{name: \"conv*\", codec: fp16}]}").find("matches, got 'conv*'"), std::string::npos);
  const std::string named = "{layers: [{name: \"*\", codec: factors}]}";
  EXPECT_EQ(refusal(named), "") << "biases are no matrices";
  EXPECT_NE(refusal(named, ", accumulate: 2").find("codec: factors, got '"), std::string::npos);
  EXPECT_EQ(refusal("factors", ", accumulate: 2"), "") << "control: of the whole net it is a wish";
}

// Findings of validating a job, without training.
JobCheck checked(const std::string& distribute, const std::string& folder, const std::string& more = "") {
  const std::string text = "model: {name: mlp, hidden: [64]}\ndata: {batch: 8, folder: '" + folder +
                           "'}\noptimizer: {lr: 0.05}\ntrain: {epochs: 1, export: false" + more + "}\ndistribute: {" +
                           distribute + "}\n";
  return check_job(read_job(ConfigNode::parse(text, "job.yaml")));
}
std::string problems(const JobCheck& check) { return fmt::format("{}", fmt::join(check.problems, "\n")); }
std::string notes(const JobCheck& check) { return fmt::format("{}", fmt::join(check.notes, "\n")); }

class CodecChecks : public CodecLayers {
 protected:
  JobCheck check(const std::string& distribute, const std::string& more = "") const {
    return checked(distribute, data_.path().string(), more);
  }
};

TEST_F(CodecChecks, RefusePatternsThatMatchNothing) {
  const auto found = check("workers: 2, codec: {layers: [{name: \"conv*\", codec: fp16}]}");
  ASSERT_EQ(found.problems.size(), 1U) << problems(found);
  EXPECT_NE(problems(found).find("expected a pattern that the name of some weight matches (fc1.weight"),
            std::string::npos)
      << problems(found);
  EXPECT_NE(problems(found).find("got 'conv*'"), std::string::npos);
  EXPECT_EQ(problems(check("workers: 2, codec: {layers: [{name: \"fc*\", codec: fp16}]}")), "") << "control";
  if (!dist::ps::has_wire()) return;
  const std::string nexus = "workers: 2, servers: 2, strategy: nexus, layers: [{name: \"";
  EXPECT_NE(problems(check(nexus + "conv*\", every: 2}]")).find("matches (fc1.weight"), std::string::npos);
  EXPECT_EQ(problems(check(nexus + "*.weight\", every: 2}]")), "") << "control";
  const std::string inside =
      "strategy: local_sgd, topology: {worker_groups: 2, workers_per_group: 2, codec: {layers: [{name: \"";
  EXPECT_NE(problems(check(inside + "conv*\", codec: fp16}]}}")).find("matches (fc1.weight"), std::string::npos);
  EXPECT_EQ(problems(check(inside + "fc*\", codec: fp16}]}}")), "") << "control";
}

TEST_F(CodecChecks, RefuseFactorsNamedForALayerThatHasNone) {
  const std::string named = "workers: 2, codec: {layers: [{name: \"*\", codec: factors}]}";
  EXPECT_EQ(problems(check(named)), "") << "biases are no matrices";
  for (const char* more : {", accumulate: 2", ", precision: bf16"}) {
    const auto found = check(named, more);
    ASSERT_EQ(found.problems.size(), 1U) << more;
    EXPECT_NE(problems(found).find("codec: factors, got 'fc1.weight' by the pattern '*'"), std::string::npos)
        << problems(found);
    EXPECT_EQ(problems(check("workers: 2, codec: factors", more)), "") << "control: of the whole net it is a wish";
  }
}

TEST_F(CodecChecks, SayHowManyGradientsTravelWhole) {
  const std::string two = "2 of 4 gradients can travel as their factors, 2 travel whole (fc1.bias, fc2.bias)";
  EXPECT_NE(notes(check("workers: 2, codec: factors")).find("distribute.codec: " + two), std::string::npos)
      << notes(check("workers: 2, codec: factors"));
  EXPECT_NE(notes(check("workers: 2, codec: auto")).find(two), std::string::npos);
  EXPECT_NE(notes(check("workers: 2, codec: factors", ", accumulate: 2")).find("0 of 4 gradients"), std::string::npos);
  EXPECT_EQ(notes(check("workers: 2, codec: bf16")), "") << "control";
  if (!dist::ps::has_wire()) return;
  EXPECT_NE(notes(check("workers: 2, servers: 2, strategy: poseidon")).find("in fewer bytes"), std::string::npos);
}

// Every weight tells what its gradients weighed before and after coding, and how much of them is kept.
TEST_F(CodecLayers, TellBytesAndErrorsOfEveryWeight) {
  const auto bits = train("one_bit"), half = train("bf16"), factors = train("factors"), none = train("none");
  const double steps = counter(bits, "steps"), before = 784.0 * 64 * 4;
  EXPECT_EQ(counter(bits, "decoded_bytes.fc1.weight"), steps * before);
  EXPECT_EQ(counter(bits, "coded_bytes.fc1.weight"), steps * 64 * (784.0 / 8 + 2 * 4))
      << "a bit a value, two floats a line";
  EXPECT_GT(counter(bits, "codec_error.fc1.weight"), 0.1);
  EXPECT_EQ(counter(bits, "decoded_bytes"), steps * 4 * (784 * 64 + 64 + 64 * 10 + 10));
  EXPECT_EQ(2 * counter(half, "coded_bytes.fc1.weight"), counter(half, "decoded_bytes.fc1.weight"));
  EXPECT_EQ(counter(half, "codec_error.fc1.weight"), 0) << "control: nothing is kept";
  EXPECT_EQ(counter(factors, "coded_bytes.fc1.weight"), steps * 4 * 4 * (784 + 64)) << "four rows a worker";
  EXPECT_FALSE(factors.ranks.at(0).counters.contains("coded_bytes.fc1.bias")) << "it travels as it is";
  EXPECT_FALSE(none.ranks.at(0).counters.contains("decoded_bytes")) << "control: nothing is coded";
  train("one_bit");
  std::ifstream log(runs_.path() / kLogName);
  bool told = false;
  for (std::string line; std::getline(log, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.contains("codec")) told = event.at("codec").at("fc1.weight").at("megabytes_before").get<double>() > 0;
  }
  EXPECT_TRUE(told) << "the same in the log, and so in TensorBoard";
}

}  // namespace
}  // namespace starling::train
