#include "starling/train/job.h"

#include <gtest/gtest.h>

#include <string>

#include "starling/base/error.h"

namespace starling {
namespace {

Job parse(const std::string& text) { return read_job(ConfigNode::parse(text, "job.yaml")); }

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Job, FillsInWhatTheFileLeavesOut) {
  const Job job = parse("model: {name: lenet}\ntrain: {folder: runs/x}\n");
  EXPECT_EQ(job.model.name, "lenet");
  EXPECT_EQ(job.model.classes, 10);
  EXPECT_EQ(job.data.batch, 64);
  EXPECT_EQ(job.distribute.workers, 1);
  EXPECT_EQ(job.train.resume, Resume::automatic);
}

TEST(Job, ReadsItsOwnTextBack) {
  const Job job = parse(
      "model: {name: mlp, classes: 12, dropout: false}\n"
      "data: {name: fashion_mnist, folder: 'a \"b', batch: 96, train_limit: 7, test_limit: 8, mean: 0.1, std: 0.2}\n"
      "optimizer: {name: sgd, lr: 0.1, momentum: 0.9, weight_decay: 1e-5, nesterov: true}\n"
      "train: {epochs: 3, seed: 4, steps: 5, folder: runs/x, checkpoint_every: 6, keep: 7, resume: none}\n"
      "distribute: {workers: 3, deterministic: true, shards: 9, threads: 2}\n");
  EXPECT_EQ(parse(to_yaml(job)), job) << to_yaml(job);
  EXPECT_EQ(job.optimizer.weight_decay, 1e-5);
}

TEST(Job, NamesPlaceAndNearestKeyOfAnUnknownOne) {
  const std::string error = error_of("model: {name: lenet}\ntrain:\n  folder: x\n  epoch: 3\n");
  EXPECT_NE(error.find("job.yaml:4:3"), std::string::npos) << error;
  EXPECT_NE(error.find("'epochs'"), std::string::npos) << error;
}

TEST(Job, NamesPlaceAndNearestNetworkOfAnUnknownOne) {
  const std::string error = error_of("model: {name: lennet}\ntrain: {folder: x}\n");
  EXPECT_NE(error.find("job.yaml:1:15"), std::string::npos) << error;
  EXPECT_NE(error.find("'lenet'"), std::string::npos) << error;
}

TEST(Job, RefusesWhatIsOutOfRange) {
  const std::string head = "model: {name: mlp}\ntrain: {folder: x}\n";
  EXPECT_NE(error_of(head + "optimizer: {lr: -1}\n").find("job.yaml:3:17"), std::string::npos);
  EXPECT_NE(error_of(head + "optimizer: {nesterov: true}\n").find("momentum"), std::string::npos);
  EXPECT_NE(error_of(head + "data: {batch: 0}\n"), "");
  EXPECT_NE(error_of(head + "distribute: {workers: 4, deterministic: true, shards: 3}\n").find("shards"),
            std::string::npos);
  EXPECT_NE(error_of(head + "data: {batch: 2}\ndistribute: {workers: 3}\n").find("workers"), std::string::npos);
  EXPECT_NE(error_of("model: {name: mlp}\n").find("'train'"), std::string::npos);
}

TEST(Job, IdentityLeavesOutWhatDoesNotChangeTheWeights) {
  Job a = parse("model: {name: mlp}\ntrain: {folder: x}\n");
  Job b = a;
  b.train.epochs = 9;
  b.train.folder = "elsewhere";
  b.distribute.workers = 3;
  EXPECT_EQ(job_identity(a), job_identity(b));
  b.optimizer.lr = 0.5;
  EXPECT_NE(job_identity(a), job_identity(b));
}

}  // namespace
}  // namespace starling
