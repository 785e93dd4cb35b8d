#include "starling/train/job/job_codec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "starling/base/error.h"
#include "starling/base/file/glob.h"
#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/find_gradients.h"
#include "starling/dist/strategy/servers/pushed_factors.h"
#include "starling/dist/strategy/servers/server_rule.h"
#include "starling/train/job/job_error.h"
#include "starling/train/job/job_graph.h"
#include "starling/train/job/job_servers.h"

namespace starling::train {
namespace {

using dist::CodecChoice;

constexpr std::size_t kMostNamed = 6;  // names in a note

// Codecs that a job names, by the path of the option.
std::vector<std::pair<std::string, CodecChoice>> codecs_of(const Job& job) {
  std::vector<std::pair<std::string, CodecChoice>> all;
  const nlohmann::json options = job.distribute.strategy.json();
  if (options.contains("codec")) all.emplace_back("distribute.codec", CodecChoice::parse(options.at("codec").dump()));
  if (job.distribute.topology && !job.distribute.topology->codec.none())
    all.emplace_back("distribute.topology.codec", job.distribute.topology->codec);
  return all;
}

// "fc1.weight, fc1.bias, … 4 more".
std::string named(std::vector<std::string> names) {
  const std::size_t all = names.size();
  if (all > kMostNamed) names.resize(kMostNamed);
  return fmt::format("{}{}", fmt::join(names, ", "),
                     all > kMostNamed ? fmt::format(", and {} more", all - kMostNamed) : "");
}

std::vector<std::string> weights_of(const PreparedJob& prepared) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : prepared.net->named_parameters()) names.push_back(name);
  return names;
}

void expect_match(const Job& job, const std::string& path, const std::string& pattern,
                  const std::vector<std::string>& weights) {
  if (std::ranges::any_of(weights, [&](const auto& one) { return glob_matches(pattern, one); })) return;
  refuse_job(job, path,
             fmt::format("[train] expected a pattern that the name of some weight matches ({}), got '{}'",
                         named(weights), pattern));
}

// Gradients that are products δᵀ·a, by the names of their weights, in a step of the whole batch. Those of accumulated
// batches are sums, and those of half precision are cast: none of them is one.
std::map<std::string, dist::FactorShape> products_of(const PreparedJob& prepared) {
  std::map<std::string, dist::FactorShape> found;
  const Job& job = prepared.job;
  if (job.train.accumulate > 1 || job.train.precision != Precision::f32) return found;
  const graph::Graph step = trace_job(prepared, {});
  for (const dist::UsedGradient& gradient : dist::find_gradients(step)) {
    const Tensor& tensor = step.variables[static_cast<std::size_t>(gradient.variable)].tensor;
    const auto shape = dist::factor_shape(step, gradient.value, static_cast<int>(job.distribute.workers));
    for (const auto& [name, parameter] : prepared.net->named_parameters()) {
      if (shape && same(parameter, tensor)) found.emplace(name, *shape);
    }
  }
  return found;
}

// True if the codec sends a gradient as factors whatever that costs.
bool asks_for_factors(const dist::CodecPtr& codec) { return codec && codec->only_factors() && !codec->needs_costs(); }

void expect_factors(const PreparedJob& prepared, const std::string& path, const CodecChoice& choice) {
  const bool any =
      std::ranges::any_of(choice.layers, [](const auto& one) { return asks_for_factors(one.chosen.make()); });
  if (!any) return;
  const auto products = products_of(prepared);
  for (const auto& [name, tensor] : prepared.net->named_parameters()) {
    const dist::LayerCodec* own = choice.layer(name);
    if (own == nullptr || tensor.rank() < 2 || products.contains(name) || !asks_for_factors(own->chosen.make()))
      continue;
    refuse_job(prepared.job, path,
               fmt::format("[train] expected a dense layer whose gradient of one f32 batch is a product for codec: "
                           "factors, got '{}' by the pattern '{}' (name other layers, or write codec: factors for the "
                           "whole network, which sends such gradients as they are)",
                           name, own->name));
  }
}

// Servers get the factors of those matrices that they hold in whole rows, where these are fewer bytes.
bool servers_take_factors(const dist::ps::KeyTable& keys, const std::string& name, const dist::FactorShape& shape) {
  return dist::fewer_as_factors(keys, keys.find(name), shape);
}

dist::ps::KeyTable server_keys(const PreparedJob& prepared) {
  const auto optimizer = make_optimizer(prepared.job, *prepared.net);
  dist::TrainedState state{.rule = optimizer.get()};
  for (auto& [name, tensor] : prepared.net->named_parameters()) state.weights.push_back({name, tensor});
  return {tensors_of(prepared.job, state), static_cast<int>(prepared.job.distribute.server_count())};
}

std::string factors_note(const PreparedJob& prepared, const std::string& path, const CodecChoice& choice) {
  std::vector<std::string> all, whole;
  for (const std::string& name : weights_of(prepared)) {
    const dist::CodecPtr codec = choice.of(name).make();
    if (codec && (codec->only_factors() || codec->needs_costs())) all.push_back(name);
  }
  if (all.empty()) return "";
  auto products = products_of(prepared);
  const bool servers = prepared.job.distribute.server_count() > 0;
  if (servers) {
    const auto keys = server_keys(prepared);
    std::erase_if(products, [&](const auto& one) { return !servers_take_factors(keys, one.first, one.second); });
  }
  std::ranges::copy_if(all, std::back_inserter(whole), [&](const auto& name) { return !products.contains(name); });
  return fmt::format("{}: {} of {} gradients can travel as their factors{}, {} travel{} whole{}", path,
                     all.size() - whole.size(), all.size(), servers ? " in fewer bytes" : "", whole.size(),
                     whole.size() == 1 ? "s" : "", whole.empty() ? "" : fmt::format(" ({})", named(whole)));
}

// Weights whose updates read rows of gradients, which no codec codes.
std::vector<std::string> weights_by_rows(const PreparedJob& prepared) {
  const graph::Graph step = trace_job(prepared, {});
  std::vector<std::string> found;
  for (const graph::Node& node : step.nodes()) {
    if (!node.op->name.ends_with("_update_rows") || !is_op(step.maker(node.in[0]), "variable")) continue;
    const auto index = static_cast<std::size_t>(graph::source_index(step.maker(node.in[0])));
    for (const auto& [name, parameter] : prepared.net->named_parameters()) {
      if (same(parameter, step.variables[index].tensor)) found.push_back(name);
    }
  }
  return found;
}

std::string rows_note(const PreparedJob& prepared, const std::string& path, const CodecChoice& choice) {
  if (choice.none()) return "";
  const auto rows = weights_by_rows(prepared);
  if (rows.empty()) return "";
  return fmt::format("{}: gradients of {} are rows of a sparse embedding and travel as they are, without a codec", path,
                     named(rows));
}

}  // namespace

void check_patterns(const PreparedJob& prepared) {
  const Job& job = prepared.job;
  const auto weights = weights_of(prepared);
  for (const auto& [path, choice] : codecs_of(job)) {
    for (const auto& layer : choice.layers) expect_match(job, path, layer.name, weights);
    expect_factors(prepared, path, choice);
  }
  const auto rule = dist::server_rule(job.distribute.strategy.make());
  for (const auto& layer : rule ? rule->layers : std::vector<dist::LayerRhythm>())
    expect_match(job, "distribute.layers", layer.name, weights);
}

std::vector<std::string> codec_notes(const PreparedJob& prepared) {
  std::vector<std::string> notes;
  for (const auto& [path, choice] : codecs_of(prepared.job)) {
    for (auto* told : {&factors_note, &rows_note}) {
      if (std::string note = (*told)(prepared, path, choice); !note.empty()) notes.push_back(std::move(note));
    }
  }
  return notes;
}

}  // namespace starling::train
