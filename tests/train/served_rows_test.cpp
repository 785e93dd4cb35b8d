// Embeddings of which a worker beside parameter servers holds only the rows that it has read: all that the leader makes
// of the model has the servers' rows.
#include <gtest/gtest.h>

#include <fstream>

#include "starling/dist/ps/wire.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/job/job_run.h"
#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

// Words of the first half of an epoch are none of the second half, where a worker fetches no row that the first half
// has changed.
class ServedRows : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dist::ps::has_wire()) GTEST_SKIP() << "built without ZeroMQ";
    std::ofstream file(data_.path() / "letters.csv");
    file << "text,kind\n";
    for (int i = 0; i < 64; ++i)
      file << (i < 32 ? "a" : "b") << i % 7 << ' ' << (i < 32 ? "c" : "d") << i % 5 << ',' << i % 2 << "\n";
  }
  Job job(const std::string& folder, const std::string& distribute, const std::vector<std::string>& more = {}) const {
    const std::string text =
        "model: {layers: [{embedding: {vocabulary: 1000, width: 8, sparse: true}}, {flatten: {}}, {linear: {out: "
        "2}}]}\n"
        "data: {name: csv_text, text: text, label: kind, length: 3, batch: 16, shuffle: false}\n"
        "optimizer: {name: adagrad, lr: 0.1}\ntrain: {epochs: 3, seed: 7, export: false, best: accuracy}\n"
        "monitor: {tensorboard: false}\ndistribute: {threads: 1, " +
        distribute + "}\n";
    std::vector<std::string> set = more;
    for (const char* part : {"train", "test"})
      set.push_back(std::string("data.") + part + "=[" + (data_.path() / "letters.csv").string() + "]");
    set.push_back("train.folder=" + (runs_.path() / folder).string());
    return read_job(ConfigNode::parse(text, "job.yaml", set));
  }
  static TrainResult run(const Job& job, TrainOptions options = {}) {
    options.progress.mode = ProgressMode::off;
    return run_job(job, options);
  }
  Tensor table(const std::string& folder, const char* which) const {
    const auto loaded = CheckpointFolder(runs_.path() / folder / which).load_latest();
    for (const NamedTensor& one : loaded.value().checkpoint.tensors) {
      if (one.tensor.shape() == Shape{1000, 8} && one.name.find("weight") != std::string::npos) return one.tensor;
    }
    ADD_FAILURE() << "expected the table in " << which;
    return {};
  }

  testing::TestFolder data_{"served-rows-data"};
  testing::TestFolder runs_{"served-rows-runs"};
};

TEST_F(ServedRows, OfOneWorkerAreThoseOfASerialRunInWeightsMetricsCheckpointsAndTheBest) {
  const auto serial = run(job("serial", "workers: 1"));
  const auto served = run(job("served", "servers: 2, strategy: async"));
  ASSERT_GT(served.summary.ranks.at(0).counters.at("rows_fetched").get<double>(), 0) << "control: rows travel alone";
  EXPECT_EQ(served.summary.weights_hash, serial.summary.weights_hash);
  EXPECT_EQ(served.summary.metrics, serial.summary.metrics);
  EXPECT_EQ(table("served", "checkpoints").to_vector(), table("serial", "checkpoints").to_vector());
  // Of several epochs the best may be kept with steps of the next one: workers go on while the leader evaluates.
  run(job("serial-1", "workers: 1", {"train.epochs=1"}));
  run(job("served-1", "servers: 2, strategy: async", {"train.epochs=1"}));
  EXPECT_EQ(table("served-1", "checkpoints-best").to_vector(), table("serial-1", "checkpoints-best").to_vector());
}

TEST_F(ServedRows, GoOnFromACheckpointToTheSameBits) {
  const std::string straight = run(job("straight", "servers: 2, strategy: async")).summary.weights_hash;
  TrainOptions stopped;
  int asked = 0;
  stopped.stop = [&asked] { return asked++ >= 5; };
  EXPECT_TRUE(run(job("broken", "servers: 2, strategy: async"), stopped).stopped);
  EXPECT_EQ(run(job("broken", "servers: 2, strategy: async")).summary.weights_hash, straight);
}

// Workers read other rows than each other: the leader has those of both.
TEST_F(ServedRows, OfTwoWorkersAreThoseOfRunsThatFetchAll) {
  const auto table_of = [&](const std::string& folder, bool sparse) {
    const auto result = run(job(folder, "workers: 2, servers: 2, strategy: sync_server",
                                {sparse ? "train.seed=7" : "model.layers.0.embedding.sparse=false"}));
    EXPECT_EQ(result.summary.ranks.at(0).counters.at("rows_fetched").get<double>() > 0, sparse) << "control";
    return table(folder, "checkpoints").to_vector();
  };
  const auto rows = table_of("rows", true), whole = table_of("whole", false);
  ASSERT_EQ(rows.size(), whole.size());
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(rows[i], whole[i], 1e-5) << i;
}

}  // namespace
}  // namespace starling::train
