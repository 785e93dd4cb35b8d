#include "starling/train/job.h"

#include <fmt/format.h>

#include "starling/base/nearest.h"
#include "starling/zoo/zoo.h"

namespace starling {
namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 40;

// A section that is not there reads as an empty one.
ConfigNode section(const ConfigNode& top, std::string_view key) {
  const auto found = top.find(key);
  return found ? *found : ConfigNode::parse("", top.where());
}

std::string read_net_name(const ConfigNode& node) {
  std::string name = node.as_string();
  const std::vector<std::string> known = zoo::nets().names();
  if (zoo::nets().contains(name)) return name;
  const std::string near = nearest(name, known);
  node.refuse(fmt::format("a network, one of ({})", fmt::join(known, ", ")),
              fmt::format("'{}'{}", name, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
}

ModelJob read_model(const ConfigNode& node) {
  node.allow_keys({"name", "classes", "dropout"});
  ModelJob job;
  job.name = read_net_name(node.at("name"));
  job.classes = node.get_int("classes", zoo::nets().by_name(job.name).json().value("classes", std::int64_t{1}), {.min = 1, .max = 1'000'000});
  job.dropout = node.get_bool("dropout", job.dropout);
  return job;
}

DataJob read_data(const ConfigNode& node) {
  node.allow_keys({"name", "folder", "batch", "train_limit", "test_limit", "mean", "std"});
  DataJob job;
  if (const auto name = node.find("name")) name->as_choice({"fashion_mnist"});
  job.folder = node.get_string("folder", "");
  job.batch = node.get_int("batch", job.batch, {.min = 1, .max = 1 << 20});
  job.train_limit = node.get_int("train_limit", job.train_limit, {.min = 0, .max = kMany});
  job.test_limit = node.get_int("test_limit", job.test_limit, {.min = 0, .max = kMany});
  job.mean = node.get_double("mean", job.mean);
  job.std = node.get_double("std", job.std, {.min = 1e-6, .max = 1e6});
  return job;
}

OptimizerJob read_optimizer(const ConfigNode& node) {
  node.allow_keys({"name", "lr", "momentum", "weight_decay", "nesterov"});
  OptimizerJob job;
  if (const auto name = node.find("name")) name->as_choice({"sgd"});
  job.lr = node.get_double("lr", job.lr, {.min = 0, .max = 1e6});
  job.momentum = node.get_double("momentum", job.momentum, {.min = 0, .max = 1});
  job.weight_decay = node.get_double("weight_decay", job.weight_decay, {.min = 0, .max = 1e6});
  job.nesterov = node.get_bool("nesterov", job.nesterov);
  if (job.nesterov && job.momentum == 0) node.at("nesterov").refuse("a momentum above 0 with nesterov", "0");
  return job;
}

TrainJob read_train(const ConfigNode& node) {
  node.allow_keys({"epochs", "seed", "steps", "folder", "checkpoint_every", "keep", "resume"});
  TrainJob job;
  job.epochs = node.get_int("epochs", job.epochs, {.min = 1, .max = 1'000'000});
  job.seed = node.get_int("seed", job.seed, {.min = 0, .max = kMany});
  job.steps = node.get_int("steps", job.steps, {.min = 0, .max = kMany});
  job.folder = node.at("folder").as_string();
  if (job.folder.empty()) node.at("folder").refuse("a folder for the run", "an empty name");
  job.checkpoint_every = node.get_int("checkpoint_every", job.checkpoint_every, {.min = 0, .max = kMany});
  job.keep = node.get_int("keep", job.keep, {.min = 2, .max = 1'000'000});
  if (const auto resume = node.find("resume")) job.resume = static_cast<Resume>(resume->as_choice({"auto", "none"}));
  return job;
}

DistributeJob read_distribute(const ConfigNode& node, std::int64_t batch) {
  node.allow_keys({"workers", "deterministic", "shards", "threads"});
  DistributeJob job;
  job.workers = node.get_int("workers", job.workers, {.min = 1, .max = 256});
  job.deterministic = node.get_bool("deterministic", job.deterministic);
  job.shards = node.get_int("shards", job.shards, {.min = 1, .max = 4096});
  job.threads = node.get_int("threads", job.threads, {.min = 0, .max = 1024});
  const std::int64_t pieces = job.deterministic ? job.shards : job.workers;
  if (job.deterministic && job.shards < job.workers)
    node.refuse(fmt::format("at least {} shards, one a worker", job.workers), std::to_string(job.shards));
  if (batch < pieces) {
    node.refuse(
        fmt::format("at most {} {}, one a sample of data.batch", batch, job.deterministic ? "shards" : "workers"),
        std::to_string(pieces));
  }
  return job;
}

}  // namespace

Job read_job(const ConfigNode& top) {
  top.allow_keys({"model", "data", "optimizer", "train", "distribute"});
  Job job;
  job.model = read_model(top.at("model"));
  job.data = read_data(section(top, "data"));
  job.optimizer = read_optimizer(section(top, "optimizer"));
  job.train = read_train(top.at("train"));
  job.distribute = read_distribute(section(top, "distribute"), job.data.batch);
  return job;
}

}  // namespace starling
