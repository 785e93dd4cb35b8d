// `eval` and `predict` on saved models of every kind.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "starling/train/monitor/picture.h"

namespace starling {
namespace {

using nlohmann::json;
using testing::file_text;
using testing::has;
using testing::run_starling;

class CliModels : public ::testing::Test {
 protected:
  // Trains a small job; {} in its text stands for the data folder. Returns the run folder.
  std::string train(const std::string& name, std::string job) const {
    for (auto at = job.find("{}"); at != std::string::npos; at = job.find("{}")) job.replace(at, 2, path());
    const std::string run = path() + "/run-" + name;
    std::ofstream(run + ".yaml") << job << "\ndistribute: {threads: 1}\nmonitor: {tensorboard: false}\n";
    const auto ran = run_starling("train " + run + ".yaml --progress off --set train.folder=" + run);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return run;
  }
  static json metrics(const std::string& what) {
    const auto ran = run_starling("eval " + what + " --json");
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(ran.out).at("metrics");
  }
  std::string path() const { return folder_.path().string(); }

  testing::TestFolder folder_{"cli-models"};
};

TEST_F(CliModels, OfAutoencodersEvaluateAsTheirRun) {
  testing::write_tiny_fashion(folder_.path(), 60, 20);
  for (const char* loss : {"bce", "mse"}) {
    const auto run = train(loss, std::string("model: {name: denoising_autoencoder}\n"
                                             "data: {folder: '{}', mean: 0, std: 1, batch: 20}\n"
                                             "train: {epochs: 2, folder: x, objective: {name: reconstruct, loss: ") +
                                     loss + "}}");
    const json of_run = metrics(run), of_model = metrics(run + "/model");
    for (const char* name : {"test_mse", "test_loss"})
      EXPECT_NEAR(of_model.at(name).get<double>(), of_run.at(name).get<double>(), 1e-4) << loss << " " << name;
  }
}

TEST_F(CliModels, OfSequencesAreEvaluatedByTheirDecodedOutput) {
  {
    std::ofstream words(folder_.path() / "words");
    for (int i = 0; i < 125; ++i) {
      std::string word, sounds;
      for (int part = i, place = 0; place < 3; part /= 5, ++place) {
        word += static_cast<char>('a' + part % 5);
        sounds += std::string(" ") + static_cast<char>('A' + part % 5);
      }
      words << word << sounds << "\n";
    }
  }
  const auto run = train("words",
                         "model: {name: seq2seq, width: 16, hidden: 32}\n"
                         "data: {name: dictionary, file: '{}/words', test_share: 0.2, most_source: 4, most_target: 5, "
                         "batch: 20}\noptimizer: {name: adam, lr: 0.02}\ntrain: {epochs: 20, folder: x}");
  const json of_run = metrics(run), of_model = metrics(run + "/model");
  EXPECT_GT(of_run.at("test_word_accuracy"), 0.1);
  // A word is all right with teacher forcing exactly if it is all right when decoded freely.
  EXPECT_EQ(of_model.at("test_word_accuracy"), of_run.at("test_word_accuracy"));
  EXPECT_FALSE(of_model.contains("test_loss")) << "what is written does not tell it";

  const auto nothing = run_starling("predict " + run);
  EXPECT_EQ(nothing.code, 2);
  EXPECT_TRUE(has(nothing.err, "at least one text")) << nothing.err;
  const std::string file = path() + "/out.json";
  EXPECT_EQ(run_starling("predict " + run + " abc -o " + file).code, 0);
  EXPECT_EQ(json::parse(file_text(file)).at(0).at("input"), "abc");
  EXPECT_EQ(run_starling("predict " + run + " abc -o out.npy").code, 2);
}

TEST_F(CliModels, OfTextsWriteIntoFilesToo) {
  std::ofstream text(folder_.path() / "text");
  for (int i = 0; i < 60; ++i) text << "the quick brown fox jumps over the lazy dog. ";
  text.close();
  const auto run = train("text",
                         "model: {name: gpt, width: 16, depth: 1, heads: 2}\n"
                         "data: {name: text, files: ['{}/text'], tokens: characters, window: 16, batch: 20}\n"
                         "train: {epochs: 1, folder: x}");
  const std::string call = "predict " + run + " --prompt 'the q' --tokens 8 --temperature 0 ";
  const auto told = run_starling(call);
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_EQ(told.out.size(), 5U + 8U + 1U) << told.out;
  EXPECT_EQ(run_starling(call + "-o " + path() + "/out.txt").code, 0);
  EXPECT_EQ(file_text(path() + "/out.txt"), told.out);
  EXPECT_EQ(run_starling(call + "-o " + path() + "/out.json").code, 0);
  EXPECT_EQ(json::parse(file_text(path() + "/out.json")).at("text").get<std::string>() + "\n", told.out);
  EXPECT_EQ(run_starling(call + "-o out.csv").code, 2);
  EXPECT_EQ(run_starling(call + "--json -o " + path() + "/out.txt").code, 2);
}

TEST_F(CliModels, AreJudgedOnStreams) {
  for (const char* part : {"train", "test"}) {
    std::ofstream rows(folder_.path() / (std::string(part) + ".csv"));
    rows << "a,b,label\n";
    for (int i = 0; i < 100; ++i) rows << i % 7 - 3 << "," << i % 5 - 2 << "," << (i % 7 > 3 ? "up" : "down") << "\n";
  }
  const auto run = train("stream",
                         "model: {name: mlp, inputs: 2, hidden: [8]}\n"
                         "data: {name: csv, train: ['{}/train.csv'], test: ['{}/test.csv'], label: label, batch: 10, "
                         "streamed: true, class_names: [down, up]}\noptimizer: {lr: 0.1}\n"
                         "train: {epochs: 2, folder: x}");
  const auto of_model = run_starling("eval " + run + "/model --json");
  EXPECT_EQ(of_model.code, 0) << of_model.err;
  EXPECT_EQ(json::parse(of_model.out).at("samples"), 100);
  EXPECT_EQ(json::parse(of_model.out).at("metrics").at("test_accuracy"), metrics(run).at("test_accuracy"));
  EXPECT_TRUE(has(of_model.err, "data as ")) << of_model.err;
  EXPECT_TRUE(has(of_model.err, "test.csv")) << "the paths that a model names are told: " << of_model.err;
  EXPECT_FALSE(has(run_starling("eval " + run + "/model --data " + run + ".yaml").err, "data as "));
}

TEST_F(CliModels, OfPicturesTakeThoseOfAnySize) {
  testing::write_tiny_fashion(folder_.path(), 100, 20);
  const auto run = train("pictures",
                         "model: {name: lenet}\ndata: {folder: '{}', batch: 20}\noptimizer: {lr: 0.02}\n"
                         "train: {epochs: 1, folder: x}");
  for (const std::int64_t size : {28, 84}) {
    const train::Picture grey{size, size, 1, std::vector<std::uint8_t>(static_cast<std::size_t>(size * size), 90)};
    std::ofstream(path() + "/grey.png", std::ios::binary) << to_png(grey);
    const auto ran = run_starling("predict " + run + " " + path() + "/grey.png --json");
    ASSERT_EQ(ran.code, 0) << size << ": " << ran.err;
    EXPECT_EQ(json::parse(ran.out).at(0).at("classes").size(), 3U);
  }
}

}  // namespace
}  // namespace starling
