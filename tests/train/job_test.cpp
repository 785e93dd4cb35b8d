#include "starling/train/job/job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "starling/base/error.h"
#include "starling/train/job/job_sections.h"

namespace starling::train {
namespace {

ConfigNode node(const std::string& text, const std::vector<std::string>& set = {}) {
  return ConfigNode::parse(text, "job.yaml", set);
}
Job parse(const std::string& text) { return read_job(node(text)); }

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

const std::string kSmall = "model: {name: mlp}\ntrain: {folder: x}\n";

// A job with a choice in every section.
const std::string kRich =
    "model: {name: mlp, classes: 12, hidden: [20, 30]}\n"
    "data: {name: fashion_mnist, folder: 'a \"b', batch: 96, test_limit: 8, workers: 2, evaluate: test,\n"
    "       transforms: [{name: normalise, mean: [0.25]}]}\n"
    "optimizer: {name: adamw, lr: 0.1, weight_decay: 1e-5, groups: [{match: '*.bias', weight_decay: 0}]}\n"
    "schedule: {name: cosine, warmup: {steps: 10}}\n"
    "pretrain: {name: rbm, epochs: 2}\n"
    "train: {epochs: 3, seed: 4, steps: 5, folder: runs/x, checkpoint_every: 6, keep: 7, resume: none, clip_norm: 1,\n"
    "        precision: bf16, objective: {name: classify, label_smoothing: 0.1}, metrics: [accuracy, {name: top_k, k: "
    "2}],\n"
    "        early_stop: {patience: 2}, average: {decay: 0.99}}\n"
    "distribute: {workers: 3, deterministic: true, shards: 9, threads: 2}\n"
    "monitor: {images: 0}\n";

TEST(Job, FillsInWhatTheFileLeavesOut) {
  const Job job = parse(kSmall);
  EXPECT_EQ(job.model.net->name, "mlp");
  EXPECT_EQ(job.data.source.name, "fashion_mnist");
  EXPECT_EQ(job.data.load.batch, 64);
  EXPECT_EQ(job.optimizer.kind.name, "sgd");
  EXPECT_FALSE(job.schedule.kind.has_value());
  EXPECT_FALSE(job.pretrain.kind.has_value());
  EXPECT_EQ(job.distribute.workers, 1);
  EXPECT_EQ(job.train.resume, Resume::automatic);
}

TEST(Job, ReadsItsOwnTextBack) {
  for (const std::string& text : {kSmall, kRich}) {
    const Job job = parse(text);
    const Job again = parse(to_yaml(job));
    EXPECT_EQ(job_json(again), job_json(job)) << to_yaml(job);
    EXPECT_EQ(to_yaml(again), to_yaml(job));
  }
  const Job job = parse(kRich);
  EXPECT_EQ(job.optimizer.kind.json().at("weight_decay"), 1e-5);
  EXPECT_EQ(job.optimizer.groups.at(0).match, "*.bias");
  EXPECT_EQ(job.train.precision, Precision::bf16);
  EXPECT_EQ(job.train.metrics.at(1).json().at("k"), 2);
  EXPECT_EQ(job.train.early_stop->patience, 2);
}

TEST(Job, ReadsADeclaredNetworkAndWritesItBack) {
  const Job job = parse(
      "model:\n  layers:\n    - conv2d: {out: 4, kernel: 3}\n    - {relu: {}, name: act}\n    - flatten: {}\n"
      "    - linear: {out: 10}\ntrain: {folder: x}\n");
  ASSERT_TRUE(job.model.layers.has_value());
  EXPECT_EQ(job_json(parse(to_yaml(job))), job_json(job)) << to_yaml(job);
  const std::string error = error_of("model:\n  layers:\n    - conv2d: {out: 4, kernal: 3}\ntrain: {folder: x}\n");
  EXPECT_NE(error.find("job.yaml:3:"), std::string::npos) << error;
  EXPECT_NE(error.find("'kernel'"), std::string::npos) << error;
}

TEST(Job, NamesPlaceAndNearestKeyOfAnUnknownOne) {
  const std::string error = error_of("model: {name: lenet}\ntrain:\n  folder: x\n  epoch: 3\n");
  EXPECT_NE(error.find("job.yaml:4:3"), std::string::npos) << error;
  EXPECT_NE(error.find("'epochs'"), std::string::npos) << error;
  const std::string option = error_of(kSmall + "optimizer: {name: sgd, momentm: 0.9}\n");
  EXPECT_NE(option.find("job.yaml:3:24"), std::string::npos) << option;
  EXPECT_NE(option.find("'momentum'"), std::string::npos) << option;
}

TEST(Job, NamesPlaceAndNearestKindOfAnUnknownOne) {
  const std::string error = error_of("model: {name: lennet}\ntrain: {folder: x}\n");
  EXPECT_NE(error.find("job.yaml:1:15"), std::string::npos) << error;
  EXPECT_NE(error.find("'lenet'"), std::string::npos) << error;
  EXPECT_NE(error_of(kSmall + "optimizer: {name: adaam}\n").find("'adam'"), std::string::npos);
  EXPECT_NE(error_of(kSmall + "schedule: cosin\n").find("'cosine'"), std::string::npos);
  EXPECT_NE(error_of(kSmall + "data: {name: fashion_mnits}\n").find("'fashion_mnist'"), std::string::npos);
  EXPECT_NE(error_of("model: {name: mlp}\ntrain: {folder: x, metrics: [acuracy]}\n").find("'accuracy'"),
            std::string::npos);
}

TEST(Job, RefusesWhatIsOutOfRange) {
  EXPECT_NE(error_of(kSmall + "optimizer: {lr: -1}\n").find("job.yaml:3:17"), std::string::npos);
  EXPECT_NE(error_of(kSmall + "data: {batch: 0}\n"), "");
  EXPECT_NE(error_of(kSmall + "distribute: {workers: 4, deterministic: true, shards: 3}\n").find("shards"),
            std::string::npos);
  EXPECT_NE(error_of(kSmall + "data: {batch: 2}\ndistribute: {workers: 3}\n").find("workers"), std::string::npos);
  EXPECT_NE(error_of("model: {name: mlp}\ntrain: {folder: x, average: {decay: 1}}\n").find("decay"), std::string::npos);
  EXPECT_NE(error_of("train: {epochs: 2}\n").find("'model'"), std::string::npos);
}

TEST(Job, TheFolderIsNamedAfterTheFileUnlessGiven) {
  EXPECT_EQ(parse("model: mlp\n").train.folder, "runs/job");
  EXPECT_EQ(parse("model: mlp\ntrain: {folder: ''}\n").train.folder, "runs/job");
  EXPECT_EQ(read_job(ConfigNode::parse("model: mlp\n", "a/fashion.v2.yaml")).train.folder, "runs/fashion.v2");
  EXPECT_EQ(parse(kSmall).train.folder, "x");
}

TEST(Job, ABareNameStandsForAKind) {
  const Job job = parse("model: lenet\ndata: synthetic\noptimizer: adam\nschedule: cosine\ndistribute: local_sgd\n");
  EXPECT_EQ(job.model.net->name, "lenet");
  EXPECT_TRUE(job.model.given.empty());
  EXPECT_EQ(job.data.source.name, "synthetic");
  EXPECT_EQ(job.optimizer.kind.name, "adam");
  EXPECT_EQ(job.distribute.strategy.name, "local_sgd");
  EXPECT_EQ(job_json(parse(to_yaml(job))), job_json(job));
}

TEST(Job, IsWrittenWithoutTheSizesThatTheDataDecides) {
  EXPECT_EQ(to_yaml(parse("model: {name: lenet}\n")).find("classes"), std::string::npos);
  EXPECT_NE(to_yaml(parse("model: {name: lenet, classes: 4}\n")).find("classes: 4"), std::string::npos);
}

TEST(Job, TellsEverythingThatIsWrong) {
  const auto errors = job_errors(
      node("modle: 1\nmodel: {name: lenet, classes: many}\ndata: {batch: 0, workers: x}\noptimizer: {name: sdg}\n"
           "train: {epochs: 0, sede: 3}\n"));
  const auto has = [&](const std::string& part) {
    return std::any_of(errors.begin(), errors.end(), [&](const auto& e) { return e.find(part) != std::string::npos; });
  };
  EXPECT_EQ(errors.size(), 7U);
  for (const char* part : {"'modle'", "'many'", "data.batch", "data.workers", "'sgd'", "train.epochs", "'seed'"})
    EXPECT_TRUE(has(part)) << part;
  EXPECT_TRUE(job_errors(node(kRich)).empty());
  EXPECT_EQ(job_errors(node(kSmall + "data: {batch: 2}\ndistribute: {workers: 3}\n")).size(), 1U);
}

TEST(Job, IdentityLeavesOutWhatDoesNotChangeTheWeights) {
  const Job a = parse(kSmall);
  Job b = a;
  b.train.epochs = 9;
  b.train.folder = "elsewhere";
  b.train.keep = 9;
  b.data.load.workers = 7;
  b.distribute.workers = 3;
  b.monitor.images = 0;
  EXPECT_EQ(job_identity(a), job_identity(b));
  EXPECT_NE(job_identity(a), job_identity(parse(kSmall + "optimizer: {lr: 0.5}\n")));
  EXPECT_NE(job_identity(a), job_identity(parse(kSmall + "data: {batch: 65}\n")));
  EXPECT_NE(job_identity(a), job_identity(parse("model: {name: mlp}\ntrain: {folder: x, seed: 2}\n")));
}

TEST(Job, TheLengthDecidesTheWeightsWhereTheScheduleLooksAtIt) {
  const auto identity = [](const std::string& schedule, int epochs) {
    Job job = parse(kSmall + "schedule: " + schedule + "\n");
    job.train.epochs = epochs;
    return job_identity(job);
  };
  EXPECT_NE(identity("cosine", 2), identity("cosine", 3));
  EXPECT_EQ(identity("{name: step, every: 2}", 2), identity("{name: step, every: 2}", 3));
}

TEST(Job, TellsWhereEachValueCameFrom) {
  const ConfigNode top = node("model: {name: mlp}\ntrain: {folder: x, epochs: 2}\n", {"optimizer.lr=0.5"});
  const auto values = job_values(read_job(top), top);
  const auto where = [&](const std::string& path) {
    for (const auto& value : values) {
      if (value.path == path) return value.value + " " + value.where;
    }
    return std::string("none");
  };
  EXPECT_EQ(where("train.epochs"), "2 job.yaml:2:28");
  EXPECT_EQ(where("optimizer.lr"), "0.5 --set optimizer.lr");
  EXPECT_EQ(where("data.batch"), "64 default");
  EXPECT_EQ(where("schedule"), "null default");
  EXPECT_NE(where("model.classes").find("from the data"), std::string::npos);
}

// A section's key must have one meaning, whatever kind is chosen.
TEST(Job, KindsHaveNoOptionsThatTheirSectionHasToo) {
  const auto check_kinds = [](const auto& kinds, const JobSection& section) {
    std::set<std::string> own(section.lists.begin(), section.lists.end());
    for (const auto& key : keys_of(section.settings)) own.insert(key);
    own.insert("name");
    EXPECT_FALSE(kinds.all().empty());
    for (const auto& [name, kind] : kinds.all()) {
      for (const auto& key : keys_of(kind.settings)) EXPECT_FALSE(own.contains(key)) << name << " " << key;
    }
  };
  check_kinds(data::source_kinds(), data_section());
  check_kinds(optim::optimizer_kinds(), optimizer_section());
  check_kinds(zoo::nets(), {});
  check_kinds(transform_kinds(), {});
  check_kinds(metric_kinds(), {});
  check_kinds(objective_kinds(), {});
}

TEST(Job, EveryKindCanBeWrittenIntoAJobAndReadBack) {
  const auto round = [](const std::string& section, const auto& kinds, const std::string& rest) {
    for (const auto& [name, kind] : kinds.all()) {
      if (std::any_of(kind.settings.begin(), kind.settings.end(), [](const auto& s) { return s.required; })) continue;
      const Job job = parse(section + ": {name: " + name + "}\n" + rest);
      EXPECT_EQ(job_json(parse(to_yaml(job))), job_json(job)) << to_yaml(job);
    }
  };
  round("model", zoo::nets(), "train: {folder: x}\n");
  round("data", data::source_kinds(), kSmall);
  round("optimizer", optim::optimizer_kinds(), kSmall);
  round("schedule", optim::schedule_kinds(), kSmall);
  round("pretrain", zoo::pretrain_kinds(), kSmall);
}

}  // namespace
}  // namespace starling::train
