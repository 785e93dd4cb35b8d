#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "starling/base/config/nearest.h"
#include "starling/dist/mesh/mesh_choice.h"
#include "starling/dist/ps/coded_push.h"
#include "starling/dist/strategy/servers/server_rule.h"
#include "starling/nn/declared.h"
#include "starling/train/job/job_error.h"
#include "starling/train/job/job_sections.h"
#include "starling/train/job/key_places.h"
#include "starling/train/sweep/sweep_job.h"

namespace starling::train {
namespace {

using Keys = std::vector<std::string>;

Keys joined(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

// A missing section reads as an empty one.
ConfigNode section(const ConfigNode& top, std::string_view key) {
  const auto found = top.find(key);
  return found ? *found : ConfigNode::parse("", top.where());
}

// Reads the kind that a section names; the section's own keys may stand beside its options.
template <class Product>
Chosen<Product> choose_with(const Kinds<Product>& kinds, const ConfigNode& node, const JobSection& own, void* options,
                            const std::string& fallback) {
  const Keys own_keys = joined(keys_of(own.settings), own.lists);
  Chosen<Product> chosen = choose_item(kinds, node, own_keys, fallback);
  const Keys also = joined(joined(keys_of(chosen.kind->settings), own.lists), {"name"});
  read_settings(own.settings, options_of(node), options, also);
  return chosen;
}

// A list of layers that is wrong as a whole is a mistake of the section: without the list, a network's name would be
// asked for, which nobody meant to give.
void expect_layers(const ConfigNode& section, const ConfigNode& layers) {
  try {
    nn::check_layers(layers);
  } catch (const ConfigError& error) {
    if (error.path() != layers.path()) throw;
    throw ConfigError(error.what(), section.path(), error.missing());
  }
}

ModelJob read_model(const ConfigNode& node) {
  ModelJob job;
  // Only without a name is `layers` a list: networks of the zoo may have an option of that name.
  const ConfigNode options = options_of(node);
  if (const auto layers = options.find("layers"); layers && !options.find("name")) {
    node.allow_keys({"layers"});
    expect_layers(node, *layers);
    job.layers = *layers;
    return job;
  }
  job.net = choose_item(zoo::nets(), node);
  for (const auto& [key, value] : options.as_map()) {
    if (key != "name" && !value.is_null()) job.given.push_back(key);
  }
  return job;
}

// Steps as a map or a bare name, which other frameworks take: "[flip, …]" is what to write.
void expect_steps(const ConfigNode& node) {
  if (node.is_list() || node.is_null()) return;
  std::string names;
  const auto add = [&](const std::string& name) {
    const std::string near = nearest(name, transform_kinds().names());
    names += (names.empty() ? "" : ", ") + (near.empty() ? name : near);
  };
  if (node.is_map()) {
    for (const auto& [name, value] : node.as_map()) add(name);
  } else {
    add(node.as_string());
  }
  node.refuse(
      fmt::format("a list of transforms, such as [{}] or [{{name: {}, …}}]", names, names.substr(0, names.find(','))),
      node.is_map() ? "a map" : "'" + node.as_string() + "'");
}

std::vector<Chosen<TransformStep>> read_steps(const ConfigNode& node, const char* key) {
  const auto list = node.find(key);
  return list ? read_transforms(*list) : std::vector<Chosen<TransformStep>>();
}

DataJob read_data(const ConfigNode& node) {
  DataJob job;
  for (const char* key : {"augment", "transforms"}) {
    if (const auto list = node.is_map() ? node.find(key) : std::nullopt) expect_steps(*list);
  }
  job.source = choose_with(data::source_kinds(), node, data_section(), &job.load, kDefaultSource);
  job.augment = read_steps(options_of(node), "augment");
  job.transforms = read_steps(options_of(node), "transforms");
  return job;
}

OptimizerJob read_optimizer(const ConfigNode& node) {
  OptimizerJob job;
  job.kind = choose_with(optim::optimizer_kinds(), node, optimizer_section(), nullptr, kDefaultOptimizer);
  if (const auto groups = options_of(node).find("groups")) {
    for (const auto& item : groups->as_list()) job.groups.push_back(read_settings<optim::GroupRule>(item));
  }
  return job;
}

ScheduleJob read_schedule(const std::optional<ConfigNode>& node) {
  if (!node) return {};
  return {choose_item(optim::schedule_kinds(), *node)};
}

PretrainJob read_pretrain(const std::optional<ConfigNode>& node) {
  if (!node) return {};
  return {choose_item(zoo::pretrain_kinds(), *node)};
}

TrainJob read_train(const ConfigNode& node, const std::string& name) {
  TrainJob job;
  read_settings(TrainJob::settings(), node, &job, {"objective", "metrics"});
  if (job.folder.empty()) job.folder = std::filesystem::path("runs") / name;
  if (const auto objective = node.find("objective")) job.objective = choose_item(objective_kinds(), *objective);
  if (const auto metrics = node.find("metrics")) {
    for (const auto& item : metrics->as_list()) job.metrics.push_back(choose_item(metric_kinds(), item));
  }
  return job;
}

DistributeJob read_distribute(const ConfigNode& section) {
  DistributeJob job;
  const JobSection own = distribute_section();
  const ConfigNode node = options_of(section);
  auto given = section.is_scalar() ? std::optional(section) : node.find(kStrategyKey);
  if (!given) given = node.find("name");  // a bare name with an option set beside it
  job.strategy =
      dist::strategy_kinds().choose_named(given ? given->as_string() : kDefaultStrategy, given ? *given : node, node,
                                          joined(keys_of(own.settings), own.lists));
  read_settings(own.settings, node, &job, joined(keys_of(job.strategy.kind->settings), own.lists));
  return job;
}

// The number of workers may follow from the topology alone.
void check_topology(DistributeJob& job, const ConfigNode& node) {
  if (!job.topology) return;
  const ConfigNode given = node.at("topology");
  const dist::Topology& t = *job.topology;
  if ((t.server_groups > 0) != (t.servers_per_group > 0))
    given.refuse("both server_groups and servers_per_group, or no servers", t.describe());
  if (job.servers > 0 && t.servers() > 0)
    given.refuse("servers here or in distribute.servers, not in both", t.describe());
  if (!node.find("workers")) job.workers = t.workers();
  if (t.workers() != job.workers)
    given.refuse(fmt::format("groups that come to {} workers", job.workers), t.describe());
  if (t.worker_groups > 1 && job.strategy.name == kDefaultStrategy)
    given.refuse("a strategy for what is between groups, such as local_sgd", fmt::format("{}", job.strategy.name));
}

// Checks that a strategy over parameter servers has some, and no other has.
void check_servers(const DistributeJob& job, const ConfigNode& section) {
  const ConfigNode node = options_of(section);
  const bool needs = dist::server_rule(job.strategy.make()).has_value();
  const auto given = node.find(job.topology && job.topology->servers() > 0 ? "topology" : "servers");
  const ConfigNode& place = given ? *given : section;
  if (needs && job.server_count() < 1)
    place.refuse(
        fmt::format("servers of at least 1 with {}, whose workers share the weights through them", job.strategy.name),
        "none");
  if (!needs && job.server_count() > 0)
    place.refuse(fmt::format("no servers with {}, which has none", job.strategy.name),
                 std::to_string(job.server_count()));
  if (job.server_backups && job.server_count() < 2)
    node.at("server_backups")
        .refuse("at least 2 servers, of which each is the backup of another", std::to_string(job.server_count()));
  if (!needs || !job.topology) return;
  const auto rule = *dist::server_rule(job.strategy.make());
  if (job.topology->server_groups > 1)
    place.refuse(fmt::format("one group of servers with {}", job.strategy.name), job.topology->describe());
  if (job.topology->workers_per_group > 1 && rule.procedure)
    place.refuse(fmt::format("workers_per_group: 1 with {}, whose portions go to single workers", job.strategy.name),
                 job.topology->describe());
  if (!job.topology->codec.none())
    place.refuse(fmt::format("no codec inside groups with {}", job.strategy.name), "one");
}

// Checks that a step waits for some worker. Without a number of workers that is known once their processes have met.
void check_backups(const DistributeJob& job, const ConfigNode& section) {
  const nlohmann::json options = job.strategy.json();
  const ConfigNode node = options_of(section);
  const bool waits_for_share = options.value("quorum", 0.0) > 0;
  if (!options.contains("backups") || waits_for_share || (!node.find("workers") && !job.topology)) return;
  const std::int64_t backups = options.at("backups").get<std::int64_t>();
  const bool grouped = job.topology && job.topology->worker_groups > 1;
  const std::int64_t all = grouped ? job.topology->worker_groups : job.workers;
  if (backups < all) return;
  const auto given = node.find("backups");
  (given ? *given : section)
      .refuse(fmt::format("fewer backups than the {} {}{} of {}, as a step waits for the others", all,
                          grouped ? "group" : "worker", all == 1 ? "" : "s", job.strategy.name),
              std::to_string(backups));
}

// Checks what workers that train by themselves, each with the servers alone, cannot be combined with.
void check_served(const Job& job, const ConfigNode& section) {
  if (!dist::server_rule(job.distribute.strategy.make())) return;
  const std::string& name = job.distribute.strategy.name;
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    section.refuse(fmt::format("{} with {}", expected, name), got);
  };
  const auto rule = *dist::server_rule(job.distribute.strategy.make());
  using Procedure = dist::ps::CoordinatorOptions::Procedure;
  if (rule.procedure && rule.procedure->l1 > 0 && rule.procedure->procedure != Procedure::owlqn)
    refuse("l1: 0 unless procedure is owlqn", fmt::format("{:g}", rule.procedure->l1));
  if (job.train.precision == Precision::f16) refuse("another train.precision than f16", "f16");
  if (job.train.clip_norm > 0 || job.train.clip_value > 0)
    refuse("no clipping (train.clip_norm, train.clip_value)", "some");
  if (job.train.accumulate > 1) refuse("train.accumulate: 1", std::to_string(job.train.accumulate));
  if (job.train.average) refuse("no train.average", "one");
  if (job.train.non_finite == NonFinite::rollback) refuse("another train.non_finite than rollback", "rollback");
  if (job.train.device != "cpu") refuse("train.device: cpu", job.train.device);
  if (job.distribute.batch_norm == DistributeJob::BatchNorm::global)
    refuse("distribute.batch_norm: local, as workers know nothing of other rows,", "global");
}

dist::MeshChoice mesh_of(const DistributeJob& job) {
  const nlohmann::json options = job.strategy.json();
  const nlohmann::json mesh = options.value("mesh", nlohmann::json::object());
  return detail::SettingType<dist::MeshChoice>::read(ConfigNode::parse(mesh.dump(), "mesh"), {});
}

// True for a value that a command line gives in place of the file's, as a whole or in part.
bool replaces_file(const ConfigNode& node) {
  if (node.where().starts_with("--set ")) return true;
  if (!node.is_map()) return false;
  const auto parts = node.as_map();
  return std::any_of(parts.begin(), parts.end(), [](const auto& part) { return replaces_file(part.second); });
}

// The number of workers may follow from the mesh alone: from one that is given in place of the file's, whatever number
// stands there, as the job.yaml of a run has both.
void check_mesh(DistributeJob& job, const ConfigNode& node) {
  const auto given = node.find("mesh");
  if (!given || mesh_of(job).empty()) return;
  const std::int64_t ranks = mesh_of(job).ranks();
  const auto workers = node.find("workers");
  if (!workers || (replaces_file(*given) && !replaces_file(*workers))) job.workers = ranks;
  if (ranks != job.workers)
    given->refuse(fmt::format("axes whose sizes multiply to {} workers (or leave workers out)", job.workers),
                  fmt::format("{}", ranks));
  if (job.topology) given->refuse("a mesh or a topology", "both");
}

// Logical shards are reduced batch by batch, which programs that keep pieces of gradients between them do not.
void check_deterministic_layout(const Job& job, const ConfigNode& section) {
  const nlohmann::json options = job.distribute.strategy.json();
  const nlohmann::json layout = options.value("layout", nlohmann::json::object());
  if (layout.empty() || !options.value("deterministic", false) || job.train.accumulate == 1) return;
  section.at("layout").refuse("none where deterministic is true and train.accumulate is more than 1", layout.dump());
}

// Workers that split the rows of a batch.
std::int64_t data_workers(const DistributeJob& job) {
  const dist::MeshChoice mesh = mesh_of(job);
  return mesh.empty() || mesh.ranks() != job.workers ? job.workers
                                                     : mesh.shape(static_cast<int>(mesh.ranks())).size(dist::kDataAxis);
}

// True if a codec, or that of some layer, has a momentum of its own.
bool has_momentum(const nlohmann::json& codec) {
  if (!codec.is_structured()) return false;
  return (codec.is_object() && codec.value("momentum", 0.0) > 0) ||
         std::any_of(codec.begin(), codec.end(), has_momentum);
}

// Checks that the job's other settings leave a codec what it needs.
void check_codec(const Job& job, const nlohmann::json& codec, const ConfigNode& given) {
  const nlohmann::json options = job.distribute.strategy.json();
  const std::string name = codec.is_string() ? codec.get<std::string>() : codec.value("name", codec.dump());
  if (options.value("deterministic", false))
    given.refuse("none where deterministic is true (coded sums depend on the number of workers)", name);
  if (job.train.precision == Precision::f16)
    given.refuse("none where train.precision is f16 (what a codec keeps does not follow the changing scale)", name);
  if (job.train.device != "cpu")
    given.refuse(fmt::format("none where train.device is {} (codecs run on the CPU)", job.train.device), name);
  const auto served = dist::server_rule(job.distribute.strategy.make());
  if (served && !dist::ps::can_be_pushed(served->codec))
    given.refuse(fmt::format("a codec whose form servers decode ({})", dist::ps::pushable_codecs()), name);
  if (has_momentum(codec) && job.optimizer.kind.json().value("momentum", 0.0) > 0)
    given.refuse("momentum: 0, here or of the optimizer (both would apply it twice)", codec.dump());
}

// Backends that connect GPUs have nothing to connect on a CPU.
void check_backend(const Job& job, const ConfigNode& section) {
  const dist::BackendChoice& backend = job.distribute.backend;
  if (job.train.device != "cpu" || backend.between_processes() == backend.name) return;
  section.at("backend").refuse("a backend for host memory where train.device is cpu (ipc and nccl connect GPUs)",
                               backend.name);
}

// A strategy's codec, or that of gradients inside groups.
void check_codecs(const Job& job, const ConfigNode& section) {
  const nlohmann::json codec = job.distribute.strategy.json().value("codec", nlohmann::json("none"));
  const auto own = options_of(section).find("codec");
  if (codec != "none") check_codec(job, codec, own ? *own : section);
  if (!job.distribute.topology || job.distribute.topology->codec.none()) return;
  const ConfigNode given = section.at("topology").at("codec");
  const nlohmann::json inside = detail::SettingType<dist::CodecChoice>::json(job.distribute.topology->codec);
  if (job.distribute.topology->worker_groups == 1)
    given.refuse("several worker_groups, or the codec of allreduce beside the strategy", inside.dump());
  check_codec(job, inside, given);
}

// Checks what state stored in pieces cannot be combined with.
void check_zero(const Job& job, const ConfigNode& node) {
  const nlohmann::json options = job.distribute.strategy.json();
  const std::int64_t zero = options.value("zero", std::int64_t{0});
  if (zero == 0) return;
  const auto given = options_of(node).find("zero");
  const ConfigNode& place = given ? *given : node;
  const std::string got = std::to_string(zero);
  if (const nlohmann::json codec = options.value("codec", nlohmann::json("none")); codec != "none")
    place.refuse("zero: 0 with a codec, which sends whole gradients to all workers", got);
  if (zero == 3 && job.train.average)
    place.refuse("at most zero: 2 with train.average, which is of whole weights", got);
}

// Checks that sections are consistent with each other.
void check_pieces(const Job& job, const ConfigNode& node) {
  const DistributeJob& d = job.distribute;
  const nlohmann::json options = d.strategy.json();
  const bool deterministic = options.value("deterministic", false);
  const std::int64_t shards = options.value("shards", std::int64_t{0}), workers = data_workers(d);
  if (deterministic && shards < workers)
    node.refuse(fmt::format("at least {} shards, one a worker", workers), std::to_string(shards));
  const std::int64_t pieces = deterministic ? shards : workers;
  if (job.data.load.batch < pieces) {
    node.refuse(fmt::format("at most {} {}, one a sample of data.batch", job.data.load.batch,
                            deterministic ? "shards" : "workers"),
                std::to_string(pieces));
  }
}

// A file that holds no map is told once, not by the reader of every section.
void expect_job(const ConfigNode& top) {
  if (top.is_map()) return;
  const std::string given = top.is_null() ? "an empty file" : top.is_list() ? "a list" : "a single value";
  top.refuse("a job, which is a map: 'model: lenet' and further sections", given);
}

const std::vector<std::string>& section_names() {
  static const Keys names = {"model", "data",       "optimizer", "schedule", "pretrain",
                             "train", "distribute", "monitor",   "sweep"};
  return names;
}

// A key that is no section, behind a section without anything below it, was meant to be indented.
void expect_indented(const ConfigNode& top) {
  const auto is_section = [](const std::string& key) {
    return std::find(section_names().begin(), section_names().end(), key) != section_names().end();
  };
  std::string empty;
  for (const auto& [key, value] : top.as_map()) {
    if (!is_section(key) && !empty.empty())
      throw ConfigError(fmt::format("{}: [config] expected the keys of '{}:' to be indented below it, got '{}' at its "
                                    "own depth (put two spaces before it)",
                                    value.where(), empty, key),
                        value.path());
    empty = is_section(key) && value.is_null() ? key : "";
  }
}

// A key that stands in the wrong section is told where it belongs.
template <class Read>
void read_placing(const ConfigNode& top, Read&& read) {
  try {
    read();
  } catch (const UnknownKey& error) {
    const std::string hint = place_hint(error, top);
    if (hint.empty()) throw;
    throw ConfigError(error.told() + hint, error.path());
  }
}

// Readers of one section each, so that an error in one does not hide others.
using Reader = std::function<void(const ConfigNode& top, Job& job)>;
const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {
      [](const ConfigNode& top, Job&) { top.allow_keys(section_names()); },
      [](const ConfigNode& top, Job& job) { job.model = read_model(top.at("model")); },
      [](const ConfigNode& top, Job& job) { job.data = read_data(section(top, "data")); },
      [](const ConfigNode& top, Job& job) { job.optimizer = read_optimizer(section(top, "optimizer")); },
      [](const ConfigNode& top, Job& job) { job.schedule = read_schedule(top.find("schedule")); },
      [](const ConfigNode& top, Job& job) { job.pretrain = read_pretrain(top.find("pretrain")); },
      [](const ConfigNode& top, Job& job) { job.train = read_train(section(top, "train"), job_name(top)); },
      [](const ConfigNode& top, Job& job) {
        const ConfigNode node = section(top, "distribute");
        job.distribute = read_distribute(node);
        check_topology(job.distribute, options_of(node));
        check_mesh(job.distribute, options_of(node));
      },
      [](const ConfigNode& top, Job& job) { job.monitor = read_settings<MonitorOptions>(section(top, "monitor")); },
      // Read by `starling sweep`; a mistake in it is told by all commands.
      [](const ConfigNode& top, Job&) {
        if (const auto sweep = top.find("sweep")) static_cast<void>(read_sweep(*sweep));
      },
  };
  return all;
}

}  // namespace

std::vector<std::string> keys_of(const Settings& settings) {
  Keys keys;
  for (const auto& setting : settings) keys.push_back(setting.key);
  return keys;
}

JobSection data_section() { return {LoadJob::settings(), {"augment", "transforms"}}; }
JobSection optimizer_section() { return {{}, {"groups"}}; }
JobSection distribute_section() { return {DistributeJob::settings(), {kStrategyKey, "name"}}; }

Job read_job(const ConfigNode& top) {
  if (!top.repeated().empty()) throw Error(top.repeated().front());
  expect_job(top);
  Job job;
  job.source = top;
  for (const auto& read : readers()) read_placing(top, [&] { read(top, job); });
  check_servers(job.distribute, section(top, "distribute"));
  check_backups(job.distribute, section(top, "distribute"));
  check_served(job, section(top, "distribute"));
  check_pieces(job, section(top, "distribute"));
  check_codecs(job, section(top, "distribute"));
  check_backend(job, section(top, "distribute"));
  check_zero(job, section(top, "distribute"));
  check_deterministic_layout(job, section(top, "distribute"));
  return job;
}

std::vector<std::string> job_errors(const ConfigNode& top) {
  std::vector<std::string> errors = config_errors(top, [](const ConfigNode& node) {
    expect_job(node);
    expect_indented(node);
  });
  errors.insert(errors.begin(), top.repeated().begin(), top.repeated().end());
  if (errors.size() > top.repeated().size()) return errors;
  for (const auto& read : readers()) {
    for (auto& error : config_errors(top, [&](const ConfigNode& node) {
           Job job;
           read_placing(top, [&] { read(node, job); });
         }))
      errors.push_back(std::move(error));
  }
  if (errors.empty()) errors = config_errors(top, [](const ConfigNode& node) { read_job(node); });
  return errors;
}

}  // namespace starling::train
