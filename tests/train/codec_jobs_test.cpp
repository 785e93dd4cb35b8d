// Jobs of several workers whose gradients travel by a codec.
#include <gtest/gtest.h>

#include <fstream>

#include "starling/train/job/job_run.h"
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
  const auto train = [&](bool sparse, const std::string& codec) {
    const std::string text =
        "model: {layers: [{embedding: {vocabulary: 1000, width: 8, sparse: " + std::string(sparse ? "true" : "false") +
        "}}, {flatten: {}}, {linear: {out: 64}}, {relu: {}}, {linear: {out: 2}}]}\n"
        "data: {name: csv_text, text: text, label: kind, length: 3, batch: 16}\n"
        "optimizer: {name: adagrad, lr: 0.05}\ntrain: {epochs: 2, seed: 7, export: false, resume: none}\n"
        "monitor: {tensorboard: false}\ndistribute: {workers: 2, threads: 1, codec: " +
        codec + "}\n";
    TrainOptions quiet;
    quiet.progress.mode = ProgressMode::off;
    const std::vector<std::string> set = {"data.train=[" + letters.string() + "]",
                                          "train.folder=" + (runs.path() / (sparse ? "rows" : "dense")).string()};
    return run_job(read_job(ConfigNode::parse(text, "job.yaml", set)), quiet).summary;
  };
  const auto sent = [](const Summary& summary) {
    return summary.ranks.at(0).counters.at("reduced_bytes_sent").get<double>();
  };
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

}  // namespace
}  // namespace starling::train
