#include "starling/nn/containers.h"

#include <optional>

#include "starling/nn/declared.h"
#include "starling/nn/layer_kinds.h"
#include "starling/nn/reshape.h"
#include "starling/nn/setting_types.h"

namespace starling {
namespace nn {

Settings JoinOptions::settings() {
  return {setting("axis", &JoinOptions::axis, "along which they stand beside each other, the batch being 0")};
}

namespace {

using LayerList = std::optional<ConfigNode>;
using LayerLists = std::vector<ConfigNode>;
nlohmann::json layers_ref() { return {{"$ref", "#/$defs/layers"}}; }

nlohmann::json json_of(const ConfigNode& node) {
  if (node.is_null()) return nullptr;
  if (node.is_list()) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& item : node.as_list()) list.push_back(json_of(item));
    return list;
  }
  if (node.is_map()) {
    nlohmann::json map = nlohmann::json::object();
    for (const auto& [key, value] : node.as_map()) map[key] = json_of(value);
    return map;
  }
  const auto attempt = [&](auto&& read) -> std::optional<nlohmann::json> {
    try {
      return nlohmann::json(read());
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  if (const auto truth = attempt([&] { return node.as_bool(); })) return *truth;
  if (const auto whole = attempt([&] { return node.as_int(); })) return *whole;
  if (const auto number = attempt([&] { return node.as_double(); })) return *number;
  return node.as_string();
}

template <class S>
Setting layer_list(std::string_view key, LayerList S::*member, std::string_view doc) {
  return {.key = std::string(key),
          .doc = std::string(doc),
          .schema = layers_ref(),
          .read =
              [member](void* options, const ConfigNode& node) {
                check_layers(node);
                static_cast<S*>(options)->*member = node;
              },
          .value = [member](const void* options) -> nlohmann::json {
            const LayerList& list = static_cast<const S*>(options)->*member;
            return list ? json_of(*list) : nlohmann::json();
          }};
}

struct ResidualOptions {
  LayerList body{};
  LayerList shortcut{};
  static Settings settings() {
    Setting shortcut = layer_list("shortcut", &ResidualOptions::shortcut, "layers of the other way; none: as it is");
    shortcut.schema = {{"anyOf", {layers_ref(), {{"type", "null"}}}}};
    return {required(layer_list("body", &ResidualOptions::body, "layers whose result is added")), shortcut};
  }
};

// Options of `parallel`. A branch with an empty list is the identity.
struct ParallelOptions {
  LayerLists branches{};
  Join join = Join::concat;
  std::int64_t axis = 1;
  static Settings settings() {
    Setting branches{.key = "branches",
                     .doc = "lists of layers that all read the same; an empty one hands it on",
                     .schema = {{"type", "array"},
                                {"minItems", 1},
                                {"items", {{"anyOf", {layers_ref(), {{"type", "array"}, {"maxItems", 0}}}}}}},
                     .read =
                         [](void* options, const ConfigNode& node) {
                           auto& lists = static_cast<ParallelOptions*>(options)->branches;
                           lists = node.as_list();
                           if (lists.empty()) node.refuse("at least one branch", "none");
                           for (const auto& list : lists) {
                             if (!list.as_list().empty()) check_layers(list);
                           }
                         },
                     .value = [](const void* options) -> nlohmann::json {
                       nlohmann::json all = nlohmann::json::array();
                       for (const auto& list : static_cast<const ParallelOptions*>(options)->branches)
                         all.push_back(json_of(list));
                       return all;
                     }};
    return {required(std::move(branches)),
            choice("join", &ParallelOptions::join, {"concat", "sum", "product"}, "what becomes of the results"),
            setting("axis", &ParallelOptions::axis, "of concat, the batch being 0")};
  }
};

struct RepeatOptions {
  LayerList layers{};
  std::int64_t times = 1;
  bool share = false;
  static Settings settings() {
    return {required(layer_list("layers", &RepeatOptions::layers, "what is repeated")),
            required(setting("times", &RepeatOptions::times, "how often", {.min = 1, .max = 10000})),
            setting("share", &RepeatOptions::share, "whether all have the same weights")};
  }
};

struct SequentialOptions {
  LayerList layers{};
  static Settings settings() {
    return {required(layer_list("layers", &SequentialOptions::layers, "one after another, with names of their own"))};
  }
};

void expect_same(const char* name, const TensorType& a, const TensorType& b) {
  check(a == b, "[{}] expected results of one shape, got {} and {}", name, to_string(a), to_string(b));
}

std::shared_ptr<Module> residual(const ResidualOptions& o, const TensorType& sample) {
  const DeclaredNet body = declared_layers(*o.body, sample);
  const DeclaredNet shortcut = o.shortcut ? declared_layers(*o.shortcut, sample) : DeclaredNet{nullptr, sample};
  expect_same("residual", body.sample, shortcut.sample);
  return std::make_shared<Residual>(body.module, shortcut.module);
}

std::shared_ptr<Module> parallel(const ParallelOptions& o, const TensorType& sample) {
  auto net = std::make_shared<Parallel>(o.join, o.axis);
  std::optional<TensorType> first;
  for (std::size_t i = 0; i < o.branches.size(); ++i) {
    const bool nothing = o.branches[i].as_list().empty();
    const DeclaredNet branch =
        nothing ? DeclaredNet{std::make_shared<Identity>(), sample} : declared_layers(o.branches[i], sample);
    if (!first) first = branch.sample;
    if (o.join != Join::concat) expect_same("parallel", *first, branch.sample);
    net->add_shared("branch" + std::to_string(i + 1), branch.module);
  }
  return net;
}

std::shared_ptr<Module> repeat(const RepeatOptions& o, const TensorType& sample) {
  if (o.share) return std::make_shared<Recur>(o.times, declared_net(*o.layers, sample));
  TensorType type = sample;
  return std::make_shared<Repeat>(o.times, [&](std::int64_t) {
    DeclaredNet part = declared_layers(*o.layers, type);
    type = part.sample;
    return part.module;
  });
}

}  // namespace
}  // namespace nn

void register_layer_containers(nn::LayerKinds& kinds) {
  constexpr std::size_t kMany = 1000;
  nn::add_layer<nn::ResidualOptions>(kinds, "residual", "What its body makes of the input added to the input.",
                                     nn::residual);
  nn::add_layer<nn::ParallelOptions>(kinds, "parallel", "Branches that read the same, their results joined.",
                                     nn::parallel);
  nn::add_layer<nn::RepeatOptions>(kinds, "repeat", "Layers again and again, with weights of their own.", nn::repeat);
  nn::add_layer<nn::SequentialOptions>(
      kinds, "sequential", "Layers under one name.",
      [](const nn::SequentialOptions& o, const TensorType& sample) { return nn::declared_net(*o.layers, sample); });
  nn::add_joining_layer<NoSettings>(kinds, "add", "Its inputs, of one shape, added.", 1, kMany,
                                    [](const NoSettings&, std::span<const TensorType> samples) {
                                      for (const auto& sample : samples) nn::expect_same("add", samples[0], sample);
                                      return nn::Add();
                                    });
  nn::add_joining_layer<NoSettings>(kinds, "mul", "Its inputs multiplied; sizes of 1 stretch.", 1, kMany,
                                    [](const NoSettings&, std::span<const TensorType>) { return nn::Multiply(); });
  nn::add_joining_layer<NoSettings>(kinds, "sub", "The first input without the second.", 2, 2,
                                    [](const NoSettings&, std::span<const TensorType> samples) {
                                      nn::expect_same("sub", samples[0], samples[1]);
                                      return nn::Subtract();
                                    });
  nn::add_joining_layer<nn::JoinOptions>(
      kinds, "concat", "Its inputs beside each other.", 1, kMany,
      [](const nn::JoinOptions& o, std::span<const TensorType>) { return nn::Concat(o); });
}

}  // namespace starling
